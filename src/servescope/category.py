"""Category columns: few texts by many rows, as dense codes by order of first appearance."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.nulls import counted, mapped, tally
from servescope.kernels.room import grown
from servescope.kernels.texts import Texts

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Category:
    """The texts of a category column by code, and how many rows have each. Changed by `add`.

    texts  by order of first appearance
    rows   int64[texts]
    parts  parts of the trace whose rows are counted, from the first
    """

    texts: Texts = field(default_factory=Texts)
    rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    parts: int = 0
    _names: list[str] = field(default_factory=list, repr=False)

    def add(self, texts: pa.Array, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Count rows: Arrow strings and int64[n] rows of each; texts without rows are left out.

        Returns the codes, int32[n], -1 for a text without rows.
        """
        used = counts > 0
        codes = self.texts.add(*text_buffers(texts), used)
        self.rows = grown(self.rows, len(self.texts))
        tally(self.rows, codes, counts)
        return codes

    def find(self, texts: Sequence[str]) -> npt.NDArray[np.int32]:
        """Codes of texts, -1 for one that is not (yet) there."""
        return self.texts.find(*text_buffers(pa.array(texts, pa.string())))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows by code, int64[texts]."""
        return self.rows[: len(self.texts)]

    @property
    def names(self) -> list[str]:
        """The texts by code, as far as they are known. Not to be modified."""
        known = len(self._names)
        if known < len(self.texts):
            ends = self.texts.ends[known:]
            raw = self.texts.data[ends[0] :].tobytes()
            more = [raw[low:high].decode() for low, high in itertools.pairwise((ends - ends[0]).tolist())]
            self._names = [*self._names, *more]  # whole at once: other threads may ask, too
        return self._names

    @property
    def strings(self) -> pa.Array:
        """`names` as Arrow strings, over the same bytes: no Python object for each text.

        Raises pyarrow.ArrowInvalid where these are more than 2^31.
        """
        buffers = (pa.py_buffer(self.texts.ends), pa.py_buffer(self.texts.data))
        return pa.LargeStringArray.from_buffers(len(self.texts), *buffers).cast(pa.string())


def _indices(chunk: pa.DictionaryArray) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8] | None, int]:
    """Indices of a chunk, its bitmap and where it starts, for `kernels.nulls`."""
    indices = chunk.indices
    return schema.array_values(indices, np.dtype(np.uint32)), schema.known_bits(indices), indices.offset


def count_texts(chunk: pa.DictionaryArray) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The dictionary of a chunk, and how many rows have each of its texts."""
    counts = counted(*_indices(chunk), len(chunk.dictionary))
    if chunk.dictionary.null_count:
        counts[chunk.dictionary.is_null().to_numpy(zero_copy_only=False)] = 0
    return chunk.dictionary, counts


def text_buffers(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Bytes and offsets of an Arrow string array; a null has none."""
    _, ends, data = texts.buffers()
    if ends is None or not len(texts):
        return np.zeros(0, np.uint8), np.zeros(len(texts) + 1, np.int32)
    offsets = np.frombuffer(ends, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), offsets


@dataclass(frozen=True)
class Coded:
    """A category column whose texts have codes.

    chunks    the column's
    mappings  for each the codes of its texts, int32[k + 1], the last for null
    """

    chunks: list[pa.DictionaryArray]
    mappings: list[npt.NDArray[np.int32]]

    def codes(self) -> npt.NDArray[np.int32]:
        """By row, int32[rows]."""
        return self._by_row(self.mappings)

    def values(self, by_code: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """By row, int32[rows], what follows from the codes: int32[texts + 1], the last for null.

        They are looked up by text first: there are few in a chunk, but many in all.
        """
        return self._by_row([by_code[mapping] for mapping in self.mappings])

    def _by_row(self, mappings: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
        pairs = zip(self.chunks, mappings, strict=True)
        pieces = [mapped(*_indices(chunk), mapping) for chunk, mapping in pairs]
        return pieces[0] if len(pieces) == 1 else np.concatenate([np.zeros(0, np.int32), *pieces])


def coded(column: pa.ChunkedArray, category: Category, *, count: bool = False) -> Coded:
    """Codes of the texts of a category column; a text that is not in the category reads as null.

    count  enter unknown texts and count the rows: changes the category
    """
    mappings = []
    for chunk in column.chunks:
        if count:  # a null text counts for no row, so it gets no code
            codes = category.add(*count_texts(chunk))
        else:
            codes = category.texts.find(*text_buffers(chunk.dictionary))
            if chunk.dictionary.null_count:
                codes[chunk.dictionary.is_null().to_numpy(zero_copy_only=False)] = schema.NULL_CODE
        mappings.append(np.append(codes, np.int32(schema.NULL_CODE)))  # one more: a null index maps to it
    return Coded(column.chunks, mappings)
