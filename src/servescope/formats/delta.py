"""Whole prompts from rows that hold only what is new since the parent's answer (`--delta-prompts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.errors import DataError, UsageError
from servescope.formats.columns import INT32_MAX
from servescope.kernels.jit import kernel

if TYPE_CHECKING:
    from servescope.formats.format import Context

UNKNOWN = np.int64(schema.NULL_INT32)


@kernel
def whole_prompts(
    new: npt.NDArray[np.int64],
    outputs: npt.NDArray[np.int64],
    parent: npt.NDArray[np.int64],
    orphan: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int64]:
    """Whole prompts in tokens: new + parent's whole prompt + parent's output, int64[n].

    new, outputs  int64[n] tokens, the null of int32 where unknown; not modified
    parent        int64[n], index of the parent, below the row's own index; negative for none
    orphan        bool[n], the row states a parent that is not in the trace: its prompt is unknown

    What rests on an unknown count is unknown.
    """
    whole = np.empty(len(new), np.int64)
    for i in range(len(new)):
        p = parent[i]
        whole[i] = new[i]
        if orphan[i]:
            whole[i] = UNKNOWN
        elif p >= 0 and new[i] != UNKNOWN:
            if whole[p] == UNKNOWN or outputs[p] == UNKNOWN:
                whole[i] = UNKNOWN
            else:
                whole[i] = new[i] + whole[p] + outputs[p]
    return whole


def restore(values: dict[str, Any], orphan: npt.NDArray[np.bool_] | None, context: Context) -> None:
    """Replace `input_tokens` in `values` (columns in trace order) by whole prompts.

    orphan  bool[n], rows whose stated parent is not in the trace; None where a row's parent is
            the request before it in its session

    Raises UsageError without sessions or parents, DataError where a prompt does not fit or a
    rejected row leaves a hole in a session. Changes `values` and the context.
    """
    if "parent_id" not in values or "input_tokens" not in values:
        raise UsageError(
            "--delta-prompts needs input tokens and to know which request follows which: a source "
            "with sessions, or --map session_id=COLUMN, or --map source_id=COLUMN --map parent_id=COLUMN."
        )
    ledger = context.ledger
    if orphan is None and ledger.dropped:
        raise DataError(
            f"rejected rows: {sum(ledger.dropped.values()):,}. With --delta-prompts the later prompts of "
            "their sessions cannot be restored without them. Mend the rows."
        )
    new = values["input_tokens"].astype(np.int64)
    outputs = values["output_tokens"] if "output_tokens" in values else np.full(len(new), UNKNOWN)
    none = np.zeros(len(new), np.bool_) if orphan is None else orphan
    whole = whole_prompts(new, outputs.astype(np.int64), values["parent_id"], none)
    _refuse_impossible(whole, values["source_row"])
    context.decide("input counts held only what was new; whole prompts are restored from the parents")
    ledger.repair("delta_prompts", int(((whole != new) & (whole != UNKNOWN)).sum()))
    ledger.note(
        "delta_unknown",
        "{n} request whose whole prompt is unknown, as its history is; its input tokens are null",
        "{n} requests whose whole prompt is unknown, as their history is; their input tokens are null",
        count=int(((whole == UNKNOWN) & (new != UNKNOWN)).sum()),
    )
    values["input_tokens"] = whole.astype(np.int32)


def _refuse_impossible(whole: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> None:
    wrong = np.flatnonzero((whole != UNKNOWN) & ((whole < 1) | (whole > INT32_MAX)))
    if len(wrong):
        at = int(wrong[0])
        raise DataError(
            f"line {rows[at]}: the restored prompt has {whole[at]:,} tokens; at least 1 and at most "
            f"{INT32_MAX:,} can be. Does the file hold whole prompts? Then leave --delta-prompts out."
        )
