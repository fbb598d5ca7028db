"""Texts of category columns by code, as far as a scan knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from servescope.category import Category
    from servescope.trace import Trace


@dataclass(frozen=True, eq=False)
class Names(Mapping[str, "Sequence[str]"]):
    """Category column -> its texts by code; an error until all of them are known.

    columns  that the wanted views read
    """

    trace: Trace
    columns: tuple[str, ...]

    def __getitem__(self, name: str) -> Sequence[str]:
        return self._category(name).names

    def __contains__(self, name: object) -> bool:
        return name in self.columns  # that of a mapping would make a Python text of each

    def strings(self, name: str) -> pa.Array:
        """The texts of a column as Arrow strings."""
        return self._category(name).strings

    def _category(self, name: str) -> Category:
        if name not in self.columns:
            raise KeyError(name)
        if not self.trace.knows(name):
            raise RuntimeError(f"texts of {name} are known after the scan; while it goes on, ask `so_far`")
        return self.trace.so_far(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def so_far(self, name: str) -> Sequence[str]:
        """The texts that are known, by code."""
        return self.trace.so_far(name).names if name in self.columns else ()
