"""Logs of OpenAI-like interfaces: JSON lines of requests with a `usage` object.

Chat completions, completions, responses and Anthropic's messages are read, as plain reply objects,
as flat log rows, or wrapped as {"request": {…}, "response": {…}}, also with `body` inside either
(the Batch interface). Arrival is the first of START_KEYS that a row has; only where it has none,
the reply's whole-second `created` (`created_at` of a response object) is taken, with a note.
Whether input counts include cached tokens follows from the usage's shape (`usage.py`).

Units: numbers since 1970 by size or as declared, `…_ms` milliseconds, `…_s` seconds, `created` seconds.
Source: OpenAI API reference (chat/object, responses/object, completions/object, batch output),
Anthropic API reference (Messages, `usage`), DeepSeek API reference (`prompt_cache_hit_tokens`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.formats.columns import Caster, seconds
from servescope.formats.format import Chunk, Format
from servescope.formats.jsonl import JsonRows, read_rows
from servescope.formats.logs import OPTIONAL, LogTimes, end_times, first_text
from servescope.formats.prompts import Prompt, add_blocks, prompt_of
from servescope.formats.usage import is_usage, usage_columns, usage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

START_KEYS = (
    "start_time",
    "started_at",
    "startTime",
    "request_start_time",
    "requested_at",
    "timestamp",
    "request_time",
    "time",
    "ts",
)
END_KEYS = ("end_time", "ended_at", "endTime", "completed_at", "finished_at")
FIRST_KEYS = ("first_token_time", "first_token_at", "completionStartTime")
DURATIONS = {"latency_ms": 1e-3, "duration_ms": 1e-3, "latency_s": 1.0, "duration_s": 1.0}
TTFTS = {"ttft_ms": 1e-3, "time_to_first_token_ms": 1e-3, "ttft_s": 1.0, "time_to_first_token_s": 1.0}
LONGEST_S = 100 * 365 * 86_400.0
OBJECTS = {
    "chat.completion": "chat",
    "chat.completion.chunk": "chat",
    "text_completion": "completion",
    "response": "responses",
    "message": "messages",
}
PATHS = {"/chat/completions": "chat", "/completions": "completion", "/responses": "responses"}
PATHS |= {"/messages": "messages"}
Object = dict[str, Any]


@dataclass(frozen=True)
class Layers:
    """One row, taken apart.

    top       the line itself
    asked     the request and its body, where wrapped
    answered  the response and its body, where wrapped
    merged    key -> its first value that is not null: in the line, the request, the response
    """

    top: Object
    asked: tuple[Object, ...]
    answered: tuple[Object, ...]
    merged: Object

    def find(self, *keys: str) -> Any:
        """The first of `keys` that has a value anywhere in the row."""
        for key in keys:
            value = self.merged.get(key)
            if value is not None:
                return value
        return None


def layers(line: Object) -> Layers:
    """The line, its request and its response (objects, or objects as JSON text)."""
    asked, answered = _inner(line.get("request")), _inner(line.get("response"))
    merged: Object = {}
    for layer in reversed((line, *asked, *answered)):
        merged |= layer if None not in layer.values() else {k: v for k, v in layer.items() if v is not None}
    return Layers(line, asked, answered, merged)


def _inner(value: Any) -> tuple[Object, ...]:
    outer = _object(value)
    body = _object(outer.get("body"))
    return (body, outer) if body else (outer,) if outer else ()


def _object(value: Any) -> Object:
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def detect(sample: Sample) -> str | None:
    """A `usage` object with token counts, in the line or in its response; not LiteLLM's rows."""
    if any("call_type" in item and "startTime" in item for item in sample.objects):
        return None
    for item in sample.objects:
        if is_usage(layers(item).find("usage")):
            return "JSON lines of requests with a usage object of token counts"
    return None


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of an OpenAI-like log."""
    context.optional = OPTIONAL
    context.decide("the model asked for is the cache scope")
    times = LogTimes(context, source.name)
    placeholder: Object = {}
    for piece in read_rows(source, context, Object, placeholder):
        yield _chunk(source, context, piece, times)


def _chunk(source: Source, context: Context, piece: JsonRows[Object], times: LogTimes) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    rows = [layers(line) for line in piece.rows]
    starts = _starts(context, caster, rows, times)
    ends = _ends(caster, rows, times, starts)
    models = [_model(row) for row in rows]
    columns: dict[str, Any] = {
        "time_ns": starts,
        "completed_ns": ends,
        "ttft_s": _ttft(caster, rows, times, starts),
        **usage_columns(context, caster, [usage_of(row.find("usage")) for row in rows]),
        "model": models,
        "cache_scope": models,
        "user": [_user(row) for row in rows],
        "endpoint": [_endpoint(row) for row in rows],
        "status": [_status(row) for row in rows],
        "session_key": [_session(row) for row in rows],
        "own_key": [_own_id(row) for row in rows],
        "parent_key": [first_text(row.find("previous_response_id")) for row in rows],
        "source_id": [_own_id(row) for row in rows],
    }
    blocks = lengths = None
    if context.options.prompts is not None:
        prompts = [None if i in piece.faults else _prompt(row) for i, row in enumerate(rows)]
        blocks, lengths = add_blocks(context, piece.lines, piece.faults, columns, prompts)
    return Chunk(piece.lines, columns, times.base_ns, blocks, lengths, piece.faults)


def _first_known(
    caster: Caster, rows: list[Layers], times: LogTimes, keys: tuple[str, ...]
) -> npt.NDArray[np.int64]:
    """The time under the first of `keys` that a row has, null sentinel for none."""
    out = np.full(len(rows), schema.NULL_INT64, np.int64)
    for key in keys:
        values = [row.find(key) if out[i] == schema.NULL_INT64 else None for i, row in enumerate(rows)]
        if any(value is not None for value in values):
            out = np.where(out == schema.NULL_INT64, times.column(caster, key, values), out)
    return out


def _starts(context: Context, caster: Caster, rows: list[Layers], times: LogTimes) -> npt.NDArray[np.int64]:
    """Arrivals; rows with `created` alone are noted, rows with no time at all are faults."""
    out = _first_known(caster, rows, times, START_KEYS)
    late = [i for i in np.flatnonzero(out == schema.NULL_INT64).tolist() if i not in caster.faults]
    if not late:
        return out
    created: list[Any] = [None] * len(rows)
    for index in late:
        created[index] = rows[index].find("created", "created_at")
        if created[index] is None:
            reason = f"no start time (known names: {', '.join(START_KEYS)}, created)"
            caster.bad(index, "start_time", None, reason, "missing")
        elif "." not in str(created[index]):
            context.ledger.note(
                "whole_seconds",
                "{n} row has only the whole-second time of its reply (created) as arrival",
                "{n} rows have only the whole-second times of their replies (created) as arrivals",
                line=int(caster.lines[index]),
            )
    filled = times.column(caster, "created", created, unit="s")
    return np.where(out == schema.NULL_INT64, filled, out)


def _ends(
    caster: Caster, rows: list[Layers], times: LogTimes, starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Ends as stated, else start plus a stated duration."""
    ends = end_times(caster, "end_time", starts, _first_known(caster, rows, times, END_KEYS))
    took = _durations(caster, rows, DURATIONS)
    for index in np.flatnonzero(took > LONGEST_S):
        caster.bad(int(index), "duration", None, "more than 100 years", "bad_duration")
    computed = (ends == schema.NULL_INT64) & (took <= LONGEST_S)
    return np.where(computed, starts + np.where(computed, np.round(took * 1e9), 0).astype(np.int64), ends)


def _ttft(
    caster: Caster, rows: list[Layers], times: LogTimes, starts: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Times to first token as stated, else the first token's time minus the start."""
    out = _durations(caster, rows, TTFTS)
    first = _first_known(caster, rows, times, FIRST_KEYS)
    end_times(caster, FIRST_KEYS[0], starts, first)
    return np.where(np.isnan(out) & (first != schema.NULL_INT64), (first - starts) / 1e9, out)


def _durations(caster: Caster, rows: list[Layers], keys: dict[str, float]) -> npt.NDArray[np.float64]:
    out = np.full(len(rows), np.nan)
    for key, scale in keys.items():
        values = [row.find(key) for row in rows]
        if any(value is not None for value in values):
            out = np.where(np.isnan(out), seconds(caster, key, values, scale=scale), out)
    return out


def _model(row: Layers) -> str | None:
    return first_text(*(layer.get("model") for layer in (*row.asked, row.top, *row.answered)))


def _own_id(row: Layers) -> str | None:
    """The reply's id (it is what `previous_response_id` names), else the line's."""
    inner = (layer.get("id") for layer in row.answered)
    return first_text(*inner, row.top.get("id"), row.find("request_id", "custom_id"))


def _user(row: Layers) -> str | None:
    metadata = _object(row.find("metadata"))
    return first_text(row.find("user", "user_id", "safety_identifier"), metadata.get("user_id"))


def _session(row: Layers) -> str | None:
    conversation = row.find("conversation")
    named = conversation.get("id") if isinstance(conversation, dict) else conversation
    metadata = _object(row.find("metadata"))
    return first_text(
        row.find("session_id", "conversation_id", "thread_id"), named, metadata.get("session_id")
    )


def _endpoint(row: Layers) -> str | None:
    path = str(row.find("url", "path", "endpoint") or "").split("?")[0].rstrip("/")
    name = next((name for end, name in PATHS.items() if path.endswith(end)), None)
    if name is None:
        kinds = (layer.get(key) for layer in (*row.answered, row.top) for key in ("object", "type"))
        name = next((OBJECTS[kind] for kind in kinds if isinstance(kind, str) and kind in OBJECTS), None)
    return f"{name}_stream" if name and row.find("stream") is True else name


def _status(row: Layers) -> str:
    """failed: an error, an HTTP status of 400 or more, a failed response object; ok: usage came."""
    code = row.find("status_code", "http_status", "status")
    failed = bool(row.find("error")) or (isinstance(code, int) and code >= 400)
    if failed or row.find("status") in ("failed", "cancelled"):
        return "failed"
    return "ok" if is_usage(row.find("usage")) else "unknown"


def _prompt(row: Layers) -> Prompt | None:
    messages = row.find("messages", "input")
    system = row.find("system", "instructions")
    return prompt_of(messages, prompt=row.find("prompt"), system=system, tools=row.find("tools"))


FORMAT = Format("openai_log", "OpenAI-like request logs with usage (JSON lines)", detect, chunks)
