"""A trace whose input tokens are what each prompt adds to its parent's prompt and answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.trace import Part, Trace


@dataclass(frozen=True)
class DeltaPart:
    """The rows of `part` with other input tokens.

    new  int32[rows], null sentinel where unknown
    """

    part: Part
    new: npt.NDArray[np.int32]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.part.rows

    def fingerprint(self) -> str:
        """See `trace.Part.fingerprint`."""
        return f"{self.part.fingerprint()} delta prompts"

    def arrow(self, columns: Sequence[str]) -> pa.Table:
        """See `trace.Part.arrow`."""
        table = self.part.arrow(columns)
        if "input_tokens" not in table.column_names:
            return table
        place = table.column_names.index("input_tokens")
        values = pa.array(self.new, mask=self.new == schema.NULL_INT32)
        return table.set_column(place, table.schema.field(place), values)


def delta_trace(trace: Trace) -> tuple[Trace, list[str]]:
    """The trace with new tokens = input - parent's input - parent's output, and notes.

    A request without a parent keeps its whole input. Unknown (null) where a count of the two is unknown
    or the history was shortened, so that the prompt is shorter than what came before.

    Raises UsageError for a trace that states no parents.
    """
    if not trace.has("parent_id"):
        raise UsageError("--delta-prompts needs stated parents, and this trace has none.")
    null = schema.NULL_INT32
    columns = ["input_tokens", "output_tokens", "parent_id", "turn"]
    batches = list(trace.batches(columns))
    inputs, outputs, parents, turns = (
        np.concatenate([np.zeros(0, np.int64), *(batch[name].astype(np.int64) for batch in batches)])
        for name in columns
    )
    child = parents != schema.NULL_INT64
    parent = np.where(child, parents, 0)
    unknown = (inputs == null) | (child & ((inputs[parent] == null) | (outputs[parent] == null)))
    new = np.where(child, inputs - inputs[parent] - outputs[parent], inputs)
    shortened = child & ~unknown & (new < 0)
    new = np.where(unknown | shortened, null, new).astype(np.int32)
    orphans = int((~child & (turns > 1)).sum())
    parts = tuple(
        DeltaPart(part, new[start : start + part.rows])
        for part, start in zip(trace.parts, trace.starts[:-1], strict=True)
    )
    return replace(trace, parts=parts), _notes(int(child.sum()), int(shortened.sum()), orphans)


def _notes(children: int, shortened: int, orphans: int) -> list[str]:
    notes = [
        "input_tokens holds what is new (input - parent's input - parent's output) where a parent is in the "
        f"trace ({children:,}); read it back with --delta-prompts"
    ]
    if shortened:
        notes.append(f"history was shortened ({shortened:,}): new tokens are null there")
    if orphans:
        notes.append(f"the parent is not in the trace ({orphans:,}): the whole prompt is written there")
    return notes
