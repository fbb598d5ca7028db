"""OpenTelemetry GenAI spans as OTLP JSON: one export a line, or one document.

A row is a span of a model call: its operation is chat, text_completion or generate_content, or it
names no operation but a model and token counts. Other spans (agents, tools, embeddings, plain HTTP)
are no requests: they are counted in a note and are no rows read. Old attribute names are read as
the new ones. `source_row` is the line; in a single document the number of the span, from 1.

Units: `…UnixNano` nanoseconds since 1970, exact; first-token attributes seconds. Input tokens include
cached ones by the conventions; for names older than those it must be declared. Status code 2 is
failed, any other ok. Session: conversation id, else trace id. Instance: server.address.

Source: OpenTelemetry, semantic-conventions-genai docs/gen-ai/gen-ai-spans.md (main, after 1.41) and
semantic-conventions v1.36.0 and v1.26.0 for the older names; opentelemetry-proto OTLP/JSON encoding;
vLLM `gen_ai.latency.time_to_first_token`; Sentry `gen_ai.usage.input_tokens.cached`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.errors import UsageError
from servescope.formats.columns import Caster, counts, seconds
from servescope.formats.format import Chunk, Format
from servescope.formats.jsonl import explain
from servescope.formats.lines import Lines, read_lines
from servescope.formats.logs import (
    OPTIONAL,
    LogTimes,
    end_times,
    first_text,
    known,
    note_cached,
    unknown_zeros,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.errors import Fault
    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

OPERATIONS = {"chat": "chat", "text_completion": "completion", "generate_content": "chat"}
INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
CACHED = ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.input_tokens.cached")
CACHED_OLD = ("gen_ai.usage.cache_read_input_tokens",)
MODEL = ("gen_ai.request.model", "gen_ai.response.model")
PROVIDER = ("gen_ai.provider.name", "gen_ai.system")
STREAM = ("gen_ai.request.stream", "gen_ai.response.streaming", "gen_ai.is_streaming", "llm.is_streaming")
FIRST_TOKEN = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.server.time_to_first_token",
    "gen_ai.latency.time_to_first_token",
)
FIRST_EVENTS = ("first_token", "first_chunk")
Attributes = dict[str, Any]


class Event(msgspec.Struct):
    """An event of a span."""

    time: str | int | None = msgspec.field(name="timeUnixNano", default=None)
    name: str = ""


class Span(msgspec.Struct):
    """One span; keys as in OTLP JSON."""

    trace: str | None = msgspec.field(name="traceId", default=None)
    own: str | None = msgspec.field(name="spanId", default=None)
    parent: str | None = msgspec.field(name="parentSpanId", default=None)
    start: str | int | None = msgspec.field(name="startTimeUnixNano", default=None)
    end: str | int | None = msgspec.field(name="endTimeUnixNano", default=None)
    attributes: list[dict[str, Any]] = []
    events: list[Event] = []
    status: dict[str, Any] | None = None


class ScopeSpans(msgspec.Struct):
    """Spans of one instrumentation scope, still as text."""

    spans: list[msgspec.Raw] = []


class ResourceSpans(msgspec.Struct):
    """Spans of one resource."""

    scopes: list[ScopeSpans] = msgspec.field(name="scopeSpans", default_factory=list)


class Export(msgspec.Struct):
    """One export request."""

    resources: list[ResourceSpans] | None = msgspec.field(name="resourceSpans", default=None)


@dataclass
class Calls:
    """Model calls of some exports, in order. Changed as exports are added.

    numbers  source row of each
    paths    where it stands in its export
    spans    the spans
    held     their attributes, flattened
    faults   index -> what is wrong
    """

    numbers: list[int]
    paths: list[str]
    spans: list[Span]
    held: list[Attributes]
    faults: dict[int, Fault]

    def add(self, number: int, path: str, span: Span, held: Attributes) -> int:
        """Append one call; returns its index."""
        self.numbers.append(number)
        self.paths.append(path)
        self.spans.append(span)
        self.held.append(held)
        return len(self.numbers) - 1


def detect(sample: Sample) -> str | None:
    """An object whose first key, or one of whose keys, is resourceSpans."""
    start = sample.head[:400].replace(b"\xef\xbb\xbf", b"").lstrip()
    if any("resourceSpans" in item for item in sample.objects) or (
        start.startswith(b"{") and start[1:].lstrip().startswith(b'"resourceSpans"')
    ):
        return "OTLP JSON (resourceSpans)"
    return None


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Model calls of an OTLP file."""
    context.optional = OPTIONAL
    context.ledger.unit = "model call"
    context.decide("a session is a conversation id, else a trace id")
    context.decide("the model asked for is the cache scope")
    times = LogTimes(context, source.name)
    whole, pieces = _documents(source, context)
    for piece in pieces:
        calls = Calls([], [], [], [], {})
        for number, text in zip(piece.numbers.tolist(), piece.texts, strict=True):
            _add_export(source, context, calls, number, text, whole)
        yield _chunk(source, context, calls, times)


def _documents(source: Source, context: Context) -> tuple[bool, Iterator[Lines]]:
    """Whether the file is one document, and its exports as lines (one line for a document)."""
    pieces = read_lines(source, context)
    first = next(pieces, Lines(np.zeros(0, np.int64), []))
    if not first.texts or (first.texts[0].lstrip()[:1] == b"{" and first.texts[0].rstrip()[-1:] == b"}"):
        return False, _chained(first, pieces)
    text = b"\n".join([*first.texts, *(line for piece in pieces for line in piece.texts)])
    return True, iter([Lines(first.numbers[:1], [text])])


def _chained(first: Lines, rest: Iterator[Lines]) -> Iterator[Lines]:
    yield first
    yield from rest


def _add_export(
    source: Source, context: Context, calls: Calls, number: int, text: bytes, whole: bool
) -> None:
    """Add the model calls of one export. Changes `calls` and the ledger's notes."""
    try:
        export = msgspec.json.decode(text, type=Export)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        found = explain(source, number, text, error)
        calls.faults[calls.add(number, "", Span(), {})] = _in_document(found, text) if whole else found
        return
    if export.resources is None:
        one, many = "{n} line holds no resourceSpans", "{n} lines hold no resourceSpans"
        context.ledger.note("no_spans", one, many, line=number)
    ordinal = 0
    for i, resource in enumerate(export.resources or []):
        for j, scope in enumerate(resource.scopes):
            for k, raw in enumerate(scope.spans):
                ordinal += 1
                path = f"resourceSpans[{i}].scopeSpans[{j}].spans[{k}]"
                _add_span(source, context, calls, ordinal if whole else number, path, bytes(raw))


def _in_document(found: Fault, text: bytes) -> Fault:
    """A JSON error of a document of many lines, with the line and column where it stands."""
    column = re.search(r"column (\d+)", found.reason)
    if column is None:
        return found
    before = text[: int(column[1]) - 1]
    start = before.rfind(b"\n") + 1
    place = f"column {len(before) - start + 1}"
    return replace(found, line=before.count(b"\n") + 1, reason=found.reason.replace(column[0], place))


def _add_span(source: Source, context: Context, calls: Calls, number: int, path: str, text: bytes) -> None:
    try:
        span = msgspec.json.decode(text, type=Span)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        found = explain(source, number, text, error)
        name = f"{path}.{found.field}" if found.field else path
        calls.faults[calls.add(number, path, Span(), {})] = replace(found, field=name)
        return
    held = {str(item.get("key")): _value(item.get("value")) for item in span.attributes}
    if is_model_call(held):
        calls.add(number, path, span, held)
    else:
        context.ledger.note(
            "other_spans",
            "{n} span is no model call (agent, tool, embedding, …) and no request",
            "{n} spans are no model calls (agents, tools, embeddings, …) and no requests",
        )


def _value(value: Any) -> Any:
    """The value of an OTLP AnyValue; 64-bit integers are texts in OTLP JSON."""
    if not isinstance(value, dict):
        return None
    if "intValue" in value:
        text = value["intValue"]
        try:
            return int(text) if isinstance(text, str) else text
        except ValueError:
            return text
    return next((value[k] for k in ("stringValue", "doubleValue", "boolValue") if k in value), None)


def is_model_call(held: Attributes) -> bool:
    """Whether a span's attributes are those of one call of a generating model."""
    operation = held.get("gen_ai.operation.name")
    if operation is not None:
        return str(operation) in OPERATIONS
    return any(name in held for name in MODEL) and any(name in held for name in INPUT + OUTPUT)


def _chunk(source: Source, context: Context, calls: Calls, times: LogTimes) -> Chunk:
    lines = np.array(calls.numbers, np.int64)
    caster = Caster(source, lines, calls.faults)
    spans, held = calls.spans, calls.held
    starts = times.column(caster, "startTimeUnixNano", [s.start for s in spans], unit="ns", required=True)
    ends = times.column(caster, "endTimeUnixNano", [s.end for s in spans], unit="ns")
    models = [first_text(*(item.get(name) for name in MODEL)) for item in held]
    columns: dict[str, Any] = {
        "time_ns": starts,
        "completed_ns": end_times(caster, "endTimeUnixNano", starts, ends),
        "ttft_s": _ttft(caster, calls, times, starts),
        **_tokens(context, caster, held),
        "model": models,
        "cache_scope": models,
        "user": [first_text(item.get("user.id"), item.get("enduser.id")) for item in held],
        "instance": [first_text(item.get("server.address")) for item in held],
        "endpoint": [_endpoint(item) for item in held],
        "status": [_status(span) for span in spans],
        "session_key": [
            first_text(item.get("gen_ai.conversation.id"), span.trace)
            for span, item in zip(spans, held, strict=True)
        ],
        "source_id": [span.own for span in spans],
    }
    _note_nested(context, calls)
    faults = {i: replace(f, field=_located(calls, i, f.field)) for i, f in calls.faults.items()}
    return Chunk(lines, columns, times.base_ns, faults=faults)


def _located(calls: Calls, index: int, field: str) -> str:
    """The field with the place of its span; JSON errors have none."""
    path = calls.paths[index]
    return field if not path or field.startswith(path) else f"{path}.{field}"


def _tokens(context: Context, caster: Caster, held: list[Attributes]) -> dict[str, npt.NDArray[np.int32]]:
    inputs, outputs = _first(caster, held, INPUT), _first(caster, held, OUTPUT)
    cached, old = _first(caster, held, CACHED), _first(caster, held, CACHED_OLD)
    declared = context.options.input_includes_cached
    if declared is not None:
        context.decide(f"input tokens {'include' if declared else 'exclude'} cached ones (declared)")
    else:
        context.decide("input tokens include cached ones (by the conventions)")
        for index in np.flatnonzero((cached == schema.NULL_INT32) & (old > 0)):
            if "openai" not in str(first_text(*(held[index].get(name) for name in PROVIDER))):
                raise UsageError(
                    f"{caster.source.name}: {CACHED_OLD[0]} is older than the conventions, so it is not "
                    "certain whether input tokens include it. Declare it: --input-includes-cached or "
                    "--input-excludes-cached."
                )
    cached = np.where(cached == schema.NULL_INT32, old, cached)
    if declared is False:
        inputs = np.where(inputs == schema.NULL_INT32, inputs, inputs + known(cached))
    inputs, outputs = unknown_zeros(context, caster, inputs, outputs)
    note_cached(context, caster, inputs, cached)
    return {"input_tokens": inputs, "output_tokens": outputs, "cached_tokens": cached}


def _first(caster: Caster, held: list[Attributes], names: tuple[str, ...]) -> npt.NDArray[np.int32]:
    """The count under the first of `names` that a span has."""
    out = np.full(len(held), schema.NULL_INT32, np.int32)
    for name in names:
        column = counts(caster, name, [item.get(name) for item in held])
        out = np.where(out == schema.NULL_INT32, column, out)
    return out


def _ttft(
    caster: Caster, calls: Calls, times: LogTimes, starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Seconds to first token, by attribute, else by the first event that says so: float64[n]."""
    out = np.full(len(starts), np.nan)
    for name in FIRST_TOKEN:
        column = seconds(caster, name, [item.get(name) for item in calls.held])
        out = np.where(np.isnan(out), column, out)
    events = [_first_event(span) for span in calls.spans]
    first = times.column(caster, "events.timeUnixNano", events, unit="ns")
    end_times(caster, "events.timeUnixNano", starts, first)
    return np.where(np.isnan(out) & (first != schema.NULL_INT64), (first - starts) / 1e9, out)


def _first_event(span: Span) -> str | int | None:
    for event in span.events:
        if any(word in event.name.replace(".", "_").replace(" ", "_").lower() for word in FIRST_EVENTS):
            return event.time
    return None


def _endpoint(held: Attributes) -> str | None:
    name = OPERATIONS.get(str(held.get("gen_ai.operation.name")))
    streamed = any(held.get(key) is True for key in STREAM)
    return f"{name}_stream" if name and streamed else name


def _status(span: Span) -> str:
    code = (span.status or {}).get("code")
    return "failed" if code in (2, "2", "STATUS_CODE_ERROR") else "ok"


def _note_nested(context: Context, calls: Calls) -> None:
    """Note calls inside calls: two instrumentations may have recorded one request twice."""
    own = {span.own for span in calls.spans if span.own}
    nested = sum(span.parent in own for span in calls.spans)
    context.ledger.note(
        "nested_calls",
        "{n} model call lies inside another one; if two instrumentations recorded it, it counts twice",
        "{n} model calls lie inside others; if two instrumentations recorded them, they count twice",
        count=nested,
    )


FORMAT = Format("otlp", "OpenTelemetry GenAI spans (OTLP JSON)", detect, chunks)
