"""LiteLLM: rows of its spend-log table, and its logging payloads, as JSON lines.

Spend logs state times as calendar texts, payloads as seconds since 1970. `completionStartTime` is
the first token of a streamed reply; the proxy writes the end there when it knows none, so equal to
`endTime` means unknown. `prompt_tokens` includes cached tokens (LiteLLM adds Anthropic's cache
counts to it). 0 prompt tokens is the table's default: unknown. `cache_hit` is a hit in the
proxy's response cache: no prompt reached a model, so it is no prefix reuse: such a row gets no
block ids, and no cached tokens (those in the stored reply's usage are of another request).

Model: `model_group` (the name asked for), else `model`. Instance: `model_id` (the deployment), else
`api_base`. User: `end_user`, else `user`, else the hashed key. Session: `session_id` or `trace_id`.

Source: LiteLLM `schema.prisma` (model LiteLLM_SpendLogs), `docs/proxy/logging_spec`
(StandardLoggingPayload), `proxy/spend_tracking/spend_tracking_utils.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.formats.columns import Caster, counts
from servescope.formats.format import Chunk, Format
from servescope.formats.jsonl import JsonRows, read_rows
from servescope.formats.logs import (
    OPTIONAL,
    LogTimes,
    end_times,
    first_text,
    known,
    note_cached,
    unknown_zeros,
)
from servescope.formats.prompts import Prompt, add_blocks, prompt_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

ENDPOINTS = {
    "completion": "chat",
    "acompletion": "chat",
    "text_completion": "completion",
    "atext_completion": "completion",
    "responses": "responses",
    "aresponses": "responses",
    "anthropic_messages": "messages",
}
STATUS = {"success": "ok", "failure": "failed"}


class Row(msgspec.Struct):
    """One line of either shape; a bad line stands as a row without a start."""

    start: str | float | None = msgspec.field(name="startTime", default=None)
    end: str | float | None = msgspec.field(name="endTime", default=None)
    first_token: str | float | None = msgspec.field(name="completionStartTime", default=None)
    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None
    request_id: str | None = None
    id: str | None = None
    trace_id: str | None = None
    session_id: str | None = None
    call_type: str | None = None
    model: str | None = None
    model_group: str | None = None
    model_id: str | None = None
    api_base: str | None = None
    user: str | None = None
    end_user: str | None = None
    api_key: str | None = None
    status: str | None = None
    stream: bool | None = None
    cache_hit: str | bool | None = None
    metadata: str | dict[str, Any] | None = None
    messages: Any = None
    model_parameters: Any = None


def detect(sample: Sample) -> str | None:
    """`call_type` and `startTime`, beside `spend` (spend logs) or a payload's `id`."""
    if not sample.objects:
        return None
    for item in sample.objects:
        if not {"call_type", "startTime", "endTime"} <= item.keys() or not {"request_id", "id"} & item.keys():
            return None
    shape = "spend logs" if "request_id" in sample.objects[0] else "logging payloads"
    return f"JSON lines of LiteLLM {shape} (call_type, startTime, endTime)"


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Rows of a LiteLLM log."""
    context.optional = OPTIONAL
    context.decide("completionStartTime equal to endTime means that the first token's time is unknown")
    context.decide("model is model_group (the name asked for), else model; it is the cache scope too")
    context.decide("user is end_user, else user, else the hashed key")
    includes = context.options.input_includes_cached
    if includes is None:
        context.decide("prompt_tokens includes cached tokens (by LiteLLM's specification)")
    else:
        context.decide(f"prompt_tokens {'includes' if includes else 'excludes'} cached tokens (declared)")
    times = LogTimes(context, source.name)
    for piece in read_rows(source, context, Row, Row()):
        yield _chunk(source, context, piece, times)


def _chunk(source: Source, context: Context, piece: JsonRows[Row], times: LogTimes) -> Chunk:
    caster = Caster(source, piece.lines, piece.faults)
    rows = piece.rows
    starts = times.column(caster, "startTime", [r.start for r in rows], unit="s", required=True)
    ends = times.column(caster, "endTime", [r.end for r in rows], unit="s")
    first = times.column(caster, "completionStartTime", [r.first_token for r in rows], unit="s")
    ttft = _ttft(starts, first, end_times(caster, "endTime", starts, ends))
    details = [_metadata(caster, index, row) for index, row in enumerate(rows)]
    models = [first_text(row.model_group, row.model) for row in rows]
    columns: dict[str, Any] = {
        "time_ns": starts,
        "completed_ns": ends,
        "ttft_s": ttft,
        **_tokens(context, caster, rows, details),
        "model": models,
        "cache_scope": models,
        "user": [
            first_text(
                r.end_user, r.user, d.get("user_api_key_user_id"), r.api_key, d.get("user_api_key_hash")
            )
            for r, d in zip(rows, details, strict=True)
        ],
        "instance": [first_text(row.model_id, row.api_base) for row in rows],
        "endpoint": [_endpoint(row, known) for row, known in zip(rows, ~np.isnan(ttft), strict=True)],
        "status": [None if row.status is None else STATUS.get(row.status, "unknown") for row in rows],
        "session_key": [first_text(row.session_id, row.trace_id) for row in rows],
        "source_id": [first_text(row.request_id, row.id) for row in rows],
    }
    blocks = lengths = None
    if context.options.prompts is not None:
        without = {index for index, row in enumerate(rows) if _answered_from_cache(row)} | set(piece.faults)
        prompts = [None if i in without else _prompt(row) for i, row in enumerate(rows)]
        blocks, lengths = add_blocks(context, piece.lines, without, columns, prompts)
    return Chunk(piece.lines, columns, times.base_ns, blocks, lengths, piece.faults)


def _ttft(
    starts: npt.NDArray[np.int64], first: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Seconds to the first token: float64[n], NaN where the log does not know it."""
    stated = (first != schema.NULL_INT64) & (first != ends) & (first >= starts)
    return np.where(stated, (first - starts) / 1e9, np.nan)


def _metadata(caster: Caster, index: int, row: Row) -> dict[str, Any]:
    """The row's metadata as an object; the table's export holds it as JSON text."""
    held: Any = row.metadata
    if isinstance(held, str) and held.strip():
        try:
            held = msgspec.json.decode(held)
        except (msgspec.DecodeError, RecursionError):
            caster.bad(index, "metadata", None, "invalid JSON inside the text", "invalid_json")
    return held if isinstance(held, dict) else {}


def _tokens(
    context: Context, caster: Caster, rows: list[Row], details: list[dict[str, Any]]
) -> dict[str, npt.NDArray[np.int32]]:
    inputs = counts(caster, "prompt_tokens", [row.prompt_tokens for row in rows])
    outputs = counts(caster, "completion_tokens", [row.completion_tokens for row in rows])
    stated = [_cached(detail) for detail in details]
    for index, row in enumerate(rows):
        if _answered_from_cache(row):
            stated[index] = None
            if index not in caster.faults:
                context.ledger.note(
                    "response_cache",
                    "{n} row was answered from the response cache, which is not prefix reuse; "
                    "it is kept without cached tokens and blocks",
                    "{n} rows were answered from the response cache, which is not prefix reuse; "
                    "they are kept without cached tokens and blocks",
                    line=int(caster.lines[index]),
                )
    cached = counts(caster, "metadata.usage_object.prompt_tokens_details.cached_tokens", stated)
    inputs, outputs = unknown_zeros(context, caster, inputs, outputs)
    if context.options.input_includes_cached is False:
        inputs = np.where(inputs == schema.NULL_INT32, inputs, inputs + known(cached))
    note_cached(context, caster, inputs, cached)
    return {"input_tokens": inputs, "output_tokens": outputs, "cached_tokens": cached}


def _answered_from_cache(row: Row) -> bool:
    """Whether the proxy's response cache answered; the table holds the flag as text."""
    return str(row.cache_hit).lower() == "true"


def _prompt(row: Row) -> Prompt | None:
    tools = row.model_parameters.get("tools") if isinstance(row.model_parameters, dict) else None
    return prompt_of(row.messages, tools=tools)


def _cached(detail: dict[str, Any]) -> Any:
    """Cached tokens as the usage states them: OpenAI's place, else Anthropic's."""
    for name in ("usage_object", "additional_usage_values"):
        usage = detail.get(name)
        if not isinstance(usage, dict):
            continue
        inner = usage.get("prompt_tokens_details")
        if isinstance(inner, dict) and inner.get("cached_tokens") is not None:
            return inner["cached_tokens"]
        if usage.get("cache_read_input_tokens") is not None:
            return usage["cache_read_input_tokens"]
    return None


def _endpoint(row: Row, streamed: bool) -> str | None:
    if not row.call_type:
        return None
    name = ENDPOINTS.get(row.call_type, row.call_type)
    return f"{name}_stream" if row.stream or streamed else name


FORMAT = Format("litellm", "LiteLLM spend logs and logging payloads (JSON lines)", detect, chunks)
