"""Codes of category columns, given while a trace is read in order: no reading beforehand for them.

    numbering = Numbering(trace, columns)
    batch = numbering.number(numbering.read(0))

Parts may be read by several threads at once; they are numbered one after the other, in their order. The
codes are those of `Trace.survey`, which has nothing left to do once all parts are numbered.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import TYPE_CHECKING

from servescope import schema
from servescope.category import coded
from servescope.kernels.nulls import looked_up

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import pyarrow as pa

    from servescope.category import Category
    from servescope.trace import Batch, Each, Trace


@dataclass(frozen=True)
class Rough:
    """A part that was read.

    index  of the part
    batch  its arrays, but for what is to be numbered and what follows from that
    late   columns that are to be numbered; emptied by `Numbering.number`
    """

    index: int
    batch: Batch
    late: dict[str, pa.ChunkedArray]


class Numbering:
    """Reads columns of a trace whose texts need not be known. Changes the trace's categories."""

    def __init__(self, trace: Trace, columns: Sequence[str]) -> None:
        self.trace, self.columns = trace, list(columns)
        texts = {name: trace.so_far(name) for name in columns if name in schema.CATEGORIES}
        self.known = {name: category for name, category in texts.items() if trace.knows(name)}
        self.late = [name for name in texts if name not in self.known]

    def read(self, index: int) -> Rough:
        """A part by its number; from any thread."""
        batch, found = self.trace.read(index, self.columns, self.known)
        return Rough(index, batch, {name: found[name] for name in self.late})

    def number(self, rough: Rough) -> Batch:
        """The batch of a part with all its columns. Completes `rough.batch`.

        Raises ValueError where a part before it has not been numbered yet.
        """
        batch = rough.batch
        numbered = {}
        for name, column in rough.late.items():
            category = self.trace.so_far(name)
            if rough.index > category.parts:
                raise ValueError(f"part {category.parts} of {name} must be numbered before {rough.index}")
            new = rough.index == category.parts
            numbered[name] = coded(column, category, count=new)
            batch.columns[name] = numbered[name].codes()
            category.parts += new
        rough.late.clear()
        for name, (source, values) in self.trace.by_code(rough.index, self.columns).items():
            by_code = values(self.trace.so_far(source))
            if source in numbered:
                batch.columns[name] = numbered[source].values(by_code)
            else:
                batch.columns[name] = looked_up(by_code, batch[source])
        return batch


def once(
    trace: Trace, columns: Sequence[str], *, each: Each = builtins.map
) -> Generator[tuple[Batch, dict[str, Category]], None, None]:
    """The named columns as arrays, one batch a part, and the categories as far as they are known.

    each  runs a function over part numbers and yields what it returns, in their order
    """
    numbering = Numbering(trace, columns)
    categories = {name: trace.so_far(name) for name in columns if name in schema.CATEGORIES}
    for rough in each(numbering.read, range(len(trace.parts))):
        yield numbering.number(rough), categories
