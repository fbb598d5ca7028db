"""FreeInference agentic traces: one top-level session a line, subagents nested in tool calls.

A session has `session_id`, `user_id`, `harness` and `requests` in order; a request has `step`,
`start_ms`, `end_ms`, `ttft_ms`, `model`, `provider`, `stream`, `provider_tokens` (`prompt`,
`completion`, `cached`; `input` and `output` are read too), `block_ids` and `tool_calls`; a tool call
may hold a session as `subagent`. Unknown keys are ignored, types are strict. The ledger counts
requests; a line that is no session is one rejected row.

A request's parent is the one before it in its session; a subagent's first request has the request
that spawned it. Turn is the depth in that tree, and a subagent belongs to the session of its root.
Blocks are the full 16-token blocks under o200k_base, without a partial tail, while token counts
are the provider's: the two need not agree. Ids are numbered anew each week: from the second week
in the sources on, week number x 2^48 is added, so that no two weeks share one.

Units: milliseconds since 1970.
Source: HarvardMadSys/freeinference_agentic_trace, README.md, release/schema.py (format version 1),
release/trace_lines.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from servescope.formats.columns import Caster, Clock, counts, seconds
from servescope.formats.format import Chunk, Format
from servescope.formats.jsonl import explain
from servescope.formats.lines import read_lines
from servescope.formats.logs import OPTIONAL, end_times, note_cached, unknown_zeros
from servescope.units import number_to_ns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.errors import Fault
    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

BLOCK_TOKENS = 16
WEEK_BITS = 48
NO_SESSION = msgspec.Raw(b"null")


class Tokens(msgspec.Struct):
    """Counts as the provider reported them."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None
    input: int | None = None
    output: int | None = None


class ToolCall(msgspec.Struct):
    """A tool call; only the session that it spawned matters here."""

    subagent: msgspec.Raw = NO_SESSION


class Request(msgspec.Struct):
    """One request."""

    start_ms: int | float
    end_ms: int | float | None = None
    ttft_ms: int | float | None = None
    step: int | None = None
    model: str | None = None
    provider: str | None = None
    stream: bool | None = None
    provider_tokens: Tokens | None = None
    block_ids: list[int] | None = None
    tool_calls: list[ToolCall] | None = None


class Session(msgspec.Struct):
    """One session, its requests still as text."""

    session_id: str | int
    requests: list[msgspec.Raw]
    user_id: str | int | None = None
    harness: str | None = None
    week: str | None = None


BAD_REQUEST = Request(0)
BAD_SESSION = Session("", [])


@dataclass(frozen=True)
class Place:
    """Where a session stands.

    root    id of the top-level session
    week    its week
    parent  key of the request that spawned the session, None for a top-level one
    depth   turn of that request, 0 for a top-level session
    path    field path of the session inside its line
    """

    root: str
    week: str | None
    parent: str | None = None
    depth: int = 0
    path: str = ""


@dataclass
class Found:
    """Requests of some lines, in order. Changed as sessions are added."""

    lines: list[int] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    own: list[str] = field(default_factory=list)
    parent: list[str | None] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    faults: dict[int, Fault] = field(default_factory=dict)

    def add(
        self,
        line: int,
        request: Request,
        session: Session,
        place: Place,
        path: str,
        parent: str | None,
        turn: int,
    ) -> str:
        """Append one request; returns its key."""
        step = request.step if request.step is not None else turn - place.depth - 1
        self.own.append(f"{session.session_id}#{step}")
        self.lines.append(line)
        self.requests.append(request)
        self.sessions.append(session)
        self.places.append(place)
        self.paths.append(path)
        self.parent.append(parent)
        self.turn.append(turn)
        return self.own[-1]


def detect(sample: Sample) -> str | None:
    """Sessions with requests that have `start_ms` and `block_ids` or `provider_tokens`."""
    for item in sample.objects:
        requests = item.get("requests")
        if "session_id" in item and isinstance(requests, list) and requests:
            first = requests[0]
            if (
                isinstance(first, dict)
                and "start_ms" in first
                and {"block_ids", "provider_tokens"} & first.keys()
            ):
                return "JSON lines of sessions with requests of start_ms, provider_tokens, block_ids"
    start = sample.head[: 64 << 10]
    if not sample.objects and all(
        key in start for key in (b'"session_id"', b'"requests"', b'"start_ms"', b'"provider_tokens"')
    ):
        return "the start of a session with requests of start_ms and provider_tokens"
    return None


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Requests of a FreeInference file."""
    context.optional = OPTIONAL
    context.origin = "calendar"
    context.ledger.unit = "request"
    context.block_tokens = context.options.block_tokens or BLOCK_TOKENS
    context.decide("times are in ms since 1970 (fixed by the format)")
    context.decide(f"a block holds {context.block_tokens} tokens; only full blocks are listed")
    context.decide(
        "token counts are the provider's, blocks are cut by another tokenizer: they need not agree"
    )
    context.decide("the cache scope is model and provider")
    context.decide("prompt counts include cached tokens")
    clock = Clock()
    for piece in read_lines(source, context):
        found = Found()
        for number, text in zip(piece.numbers.tolist(), piece.texts, strict=True):
            _add_session(source, context, found, number, text, None)
        if found.lines:
            yield _chunk(source, context, found, clock)


def _add_session(
    source: Source, context: Context, found: Found, line: int, text: bytes, place: Place | None
) -> None:
    """Add a session's requests and those of its subagents. Changes `found` and the notes."""
    path = place.path if place else ""
    try:
        session = msgspec.json.decode(text, type=Session)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = _inside(explain(source, line, text, error), path)
        found.faults[len(found.lines)] = fault
        found.add(line, BAD_REQUEST, BAD_SESSION, place or Place("", None), path, None, 1)
        return
    place = place or Place(str(session.session_id), session.week)
    if not session.requests:
        one, many = "{n} session without requests", "{n} sessions without requests"
        context.ledger.note("empty_session", one, many, line=line)
    parent, turn = place.parent, place.depth
    for index, raw in enumerate(session.requests):
        turn += 1
        here = f"{path}requests[{index}]."
        try:
            request = msgspec.json.decode(raw, type=Request)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            found.faults[len(found.lines)] = _inside(explain(source, line, bytes(raw), error), here)
            bad = Request(0, step=index)
            parent = found.add(line, bad, session, place, here, parent, turn)
            continue
        parent = found.add(line, request, session, place, here, parent, turn)
        for number, call in enumerate(request.tool_calls or []):
            nested = bytes(call.subagent)
            if nested != b"null":
                inner = f"{here}tool_calls[{number}].subagent."
                below = Place(place.root, place.week, parent, turn, inner)
                _add_session(source, context, found, line, nested, below)


def _inside(fault: Fault, path: str) -> Fault:
    """The fault with the place of its session or request before the field."""
    return replace(fault, field=f"{path}{fault.field}" if fault.field else path.rstrip("."))


def _chunk(source: Source, context: Context, found: Found, clock: Clock) -> Chunk:
    lines = np.array(found.lines, np.int64)
    caster = Caster(source, lines, found.faults)
    before = set(found.faults)
    requests = found.requests
    values = [None if i in before else r.start_ms for i, r in enumerate(requests)]
    starts = clock.parsed(caster, "start_ms", values, _milliseconds)
    ends = clock.parsed(caster, "end_ms", [r.end_ms for r in requests], _milliseconds, required=False)
    scopes = [_scope(request) for request in requests]
    columns: dict[str, Any] = {
        "time_ns": starts,
        "completed_ns": end_times(caster, "end_ms", starts, ends),
        "ttft_s": seconds(caster, "ttft_ms", [r.ttft_ms for r in requests], scale=1e-3),
        **_tokens(context, caster, requests),
        "model": [request.model for request in requests],
        "instance": [request.provider for request in requests],
        "cache_scope": scopes,
        "user": [None if s.user_id is None else str(s.user_id) for s in found.sessions],
        "request_type": [session.harness for session in found.sessions],
        "endpoint": [_endpoint(request) for request in requests],
        "session_key": [place.root for place in found.places],
        "own_key": found.own,
        "parent_key": found.parent,
        "turn": np.array(found.turn, np.int32),
        "source_id": found.own,
    }
    blocks, lengths = _blocks(context, caster, found)
    faults = {i: f if i in before else _inside(f, found.paths[i]) for i, f in found.faults.items()}
    return Chunk(lines, columns, clock.base_ns or 0, blocks, lengths, faults)


def _milliseconds(text: str) -> int:
    return number_to_ns(text, "ms")


def _tokens(context: Context, caster: Caster, requests: list[Request]) -> dict[str, npt.NDArray[np.int32]]:
    stated = [request.provider_tokens or Tokens() for request in requests]
    prompt = [t.prompt if t.prompt is not None else t.input for t in stated]
    completion = [t.completion if t.completion is not None else t.output for t in stated]
    inputs = counts(caster, "provider_tokens.prompt", prompt)
    outputs = counts(caster, "provider_tokens.completion", completion)
    cached = counts(caster, "provider_tokens.cached", [t.cached for t in stated])
    inputs, outputs = unknown_zeros(context, caster, inputs, outputs)
    note_cached(context, caster, inputs, cached)
    return {"input_tokens": inputs, "output_tokens": outputs, "cached_tokens": cached}


def _scope(request: Request) -> str | None:
    if request.model is None:
        return None
    return f"{request.model}/{request.provider}" if request.provider else request.model


def _endpoint(request: Request) -> str | None:
    return {True: "chat_stream", False: "chat"}.get(request.stream) if request.stream is not None else None


def _blocks(
    context: Context, caster: Caster, found: Found
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Block ids of all requests, apart by week, and int32[n] how many each has (-1: none)."""
    weeks: dict[str | None, int] = context.state.setdefault("weeks", {})
    lengths = np.full(len(found.lines), -1, np.int32)
    kept = [np.zeros(0, np.uint64)]
    for index, request in enumerate(found.requests):
        if request.block_ids is None:
            continue
        number = weeks.setdefault(found.places[index].week, len(weeks))
        try:
            ids = np.array(request.block_ids, np.uint64)
            if number and len(ids) and int(ids.max()) >> WEEK_BITS:
                raise OverflowError
        except OverflowError:
            bits = WEEK_BITS if number else 64
            caster.bad(index, "block_ids", None, f"an id does not fit in {bits} bits unsigned", "block_id")
            continue
        lengths[index] = len(ids)
        kept.append(ids + np.uint64(number << WEEK_BITS))
    if len(weeks) > 1:
        context.decide("block ids are numbered by week: week number x 2^48 is added from the second week on")
    return np.concatenate(kept), lengths


FORMAT = Format(
    "freeinference", "FreeInference agentic sessions (JSON lines, 16-token blocks)", detect, chunks
)
