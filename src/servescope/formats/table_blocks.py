"""Block lists of a table: JSON lists, texts of numbers, Parquet lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

if TYPE_CHECKING:
    from servescope.formats.columns import Caster

_decode = msgspec.json.Decoder(list[int]).decode


def id_lists(caster: Caster, field: str, values: Any) -> list[list[int] | None]:
    """Block ids of each row, None where it states none (blank, null) or the value is bad.

    values  lists of ints, or texts such as `[1, 2]` or `1 2`

    Changes `caster`.
    """
    items = values.to_pylist() if isinstance(values, pa.Array) else values
    return [_ids(caster, field, index, item) for index, item in enumerate(items)]


def _ids(caster: Caster, field: str, index: int, item: Any) -> list[int] | None:
    if item is None or isinstance(item, list):
        return item
    text = str(item).strip()
    if not text:
        return None
    try:
        return _decode(text) if text.startswith("[") else [_whole(part) for part in text.split()]
    except (msgspec.DecodeError, ValueError):
        caster.bad(index, field, item, "a list of whole numbers was expected ([1, 2] or 1 2)", "block_id")
        return None


def _whole(text: str) -> int:
    if not text.isascii() or not text.lstrip("-").isdigit():
        raise ValueError
    return int(text)
