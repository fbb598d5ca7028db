"""What `--map FIELD=COLUMN` may name: the fields of a table and what their columns hold."""

from __future__ import annotations

from dataclasses import dataclass

from servescope.errors import UsageError, unknown_name
from servescope.formats.columns import INT16_MAX, INT32_MAX


@dataclass(frozen=True)
class Field:
    """One field.

    kind    time, duration, seconds, count, text or blocks
    column  the column of `Chunk` that it becomes
    unit    of a duration ("s", "ms"); seconds are kept, durations are added to the arrival
    least, most  bounds of a count
    required     a row without a value is bad
    """

    kind: str
    column: str
    unit: str = "s"
    least: int = 0
    most: int = INT32_MAX
    required: bool = False


FIELDS: dict[str, Field] = {
    "arrival": Field("time", "time_ns", required=True),
    "block_ids": Field("blocks", "block_ids"),
    "cache_scope": Field("text", "cache_scope"),
    "cached_tokens": Field("count", "cached_tokens"),
    "cohort": Field("count", "cohort", most=INT16_MAX),
    "completed": Field("time", "completed_ns"),
    "duration_ms": Field("duration", "completed_ns", unit="ms"),
    "duration_s": Field("duration", "completed_ns"),
    "endpoint": Field("text", "endpoint"),
    "image_count": Field("count", "image_count", most=INT16_MAX),
    "input_tokens": Field("count", "input_tokens", least=1, required=True),
    "instance": Field("text", "instance"),
    "model": Field("text", "model"),
    "output_tokens": Field("count", "output_tokens"),
    "parent_id": Field("text", "parent_key"),
    "request_type": Field("text", "request_type"),
    "session_id": Field("text", "session_key"),
    "source_id": Field("text", "source_id"),
    "status": Field("text", "status"),
    "ttft_ms": Field("seconds", "ttft_s", unit="ms"),
    "ttft_s": Field("seconds", "ttft_s"),
    "turn": Field("count", "turn", least=1),
    "user": Field("text", "user"),
}
ALIASES = {"session": "session_id", "parent": "parent_id"}


def checked_map(given: dict[str, str], *, block_tokens: int | None) -> dict[str, str]:
    """Field -> column of a `--map`, aliases replaced.

    Raises UsageError for an unknown field, two fields for one thing, a missing arrival, block ids
    without a block size, or parents without the ids that they name.
    """
    mapped: dict[str, str] = {}
    for name, column in given.items():
        field = ALIASES.get(name, name)
        if field not in FIELDS:
            raise unknown_name("field of --map", name, [*FIELDS, *ALIASES])
        same = [other for other in mapped if FIELDS[other].column == FIELDS[field].column]
        if same:
            raise UsageError(f"--map {same[0]} and --map {name} give the same thing; name one of them.")
        mapped[field] = column
    if "arrival" not in mapped:
        raise UsageError(
            "the columns of a table are not known by themselves: pass --map arrival=COLUMN, "
            f"--map input_tokens=COLUMN and so on. Fields: {', '.join(FIELDS)}."
        )
    if "block_ids" in mapped and not block_tokens:
        raise UsageError("--map block_ids needs the number of tokens in a block: pass --block-tokens N.")
    if "parent_id" in mapped and "source_id" not in mapped:
        raise UsageError("--map parent_id names other rows by their id: pass --map source_id=COLUMN as well.")
    return mapped


def check_columns(source_name: str, mapped: dict[str, str], columns: list[str]) -> None:
    """Raise UsageError for the first mapped column that the source does not have."""
    for field, column in mapped.items():
        if column not in columns:
            known = ", ".join(columns[:40]) + (", …" if len(columns) > 40 else "")
            raise UsageError(f'{source_name}: --map {field}: no column "{column}". It has: {known}.')
