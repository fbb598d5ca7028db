"""What tokens cost in memory, as results: the catalogue of models, and one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.kv import tables
from servescope.kv.catalogue import catalogue, model_named
from servescope.kv.sizes import bandwidth as parsed
from servescope.kv.transfer import Prefill
from servescope.ledger import Ledger
from servescope.result import Result, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

LENGTHS = (1_000, 10_000, 100_000)


def models_result(*, kv_dtype: str | None = None, tensor_parallel: int = 1) -> Result:
    """Table `kv_models`, a row a model.

    kv_dtype         precision of the cache, None = each model's default
    tensor_parallel  ranks of a replica; models that so many cannot split are left out, with a note

    Raises UsageError for an unknown precision, or fewer than one rank.
    """
    models = catalogue().models
    rows, left = tables.models_table(models, kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)
    notes = [f"{tensor_parallel} ranks cannot split the heads of {', '.join(left)}"] if left else []
    inputs = {"kv_dtype": kv_dtype, "tensor_parallel": tensor_parallel}
    return _result(inputs, notes, [Table("kv_models", rows, tables.MODELS_DOC)])


def size_result(
    model: str,
    *,
    kv_dtype: str | None = None,
    tensor_parallel: int = 1,
    tokens: Sequence[int] = (),
    bandwidth: str | None = None,
    prefill_tokens_per_s: float | None = None,
) -> Result:
    """Table `kv_models` of one model, and `kv_transfer`: sequences, moving them, computing them again.

    model                 name or alias
    kv_dtype              precision of the cache, None = the model's default
    tensor_parallel       ranks of a replica
    tokens                lengths; empty = `LENGTHS` where a speed is given, else there is no such table
    bandwidth             of one way, all ranks together: 10GB/s
    prefill_tokens_per_s  prompt tokens a second of the replica

    Raises UsageError for an unknown model or precision, no speed, ranks that cannot split the heads.
    """
    found = model_named(model)
    chosen: dict[str, Any] = {"kv_dtype": kv_dtype, "tensor_parallel": tensor_parallel}
    speed = None if bandwidth is None else parsed(bandwidth)
    prefill = None if prefill_tokens_per_s is None else Prefill(tokens_per_s=prefill_tokens_per_s)
    row = pa.Table.from_pylist([tables.model_row(found, **chosen)], tables.MODELS)
    made = [Table("kv_models", row, tables.MODELS_DOC)]
    lengths = tuple(tokens) or (LENGTHS if speed or prefill else ())
    if lengths:
        moved = tables.transfer_table(found, lengths, bandwidth_bytes_per_s=speed, prefill=prefill, **chosen)
        made.append(Table("kv_transfer", moved, tables.TRANSFER_DOC))
    speeds = {"bandwidth": bandwidth, "prefill_tokens_per_s": prefill_tokens_per_s}
    return _result({"model": found.name, **chosen, **speeds}, tables.model_notes(found), made)


def _result(inputs: dict[str, Any], notes: list[str], made: Sequence[Table]) -> Result:
    told = {name: value for name, value in inputs.items() if value is not None}
    return Result("kv", told, Ledger(), notes, {table.name: table for table in made})
