"""Histograms of many lines, few of which hold nearly everything: a page of counts for each of those.

A line gets a page when it is first met, as long as there are any; what has none, or lies outside the bins
of a page, is left to the caller, who counts it in `cells.Cells`. A count takes 4 bytes here and 16 to 48
there, and needs no search: 1.5 ns a value in place of 10.

    held = Pages(lines, low, width)               # a page holds the bins low … low + width - 1
    if held.full(len(rows)): …; held.clear()      # counts have 32 bits: move them elsewhere before
    left = held.count(line, bins, wanted)         # rows that are not kept here
    line, bins, counts = held.entries()

Slow twin: a dict.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel
from servescope.kernels.room import grown

Ints = npt.NDArray[np.int64]
Lines = npt.NDArray[np.int32]
Bins = npt.NDArray[np.int16]
Flags = npt.NDArray[np.bool_]
MOST = 1 << 12
LIMIT = 2**32 - 1  # of a count


@kernel
def _give(page_of: Lines, used: int, most: int, line: Lines) -> int:
    """Give pages to lines without one, in order of appearance, as far as there are any; pages in use.

    page_of  int32[lines + 1], modified
    """
    for i in range(len(line)):
        if page_of[line[i]] == 0 and line[i] + 1 < len(page_of) and used < most:
            page_of[line[i]] = used
            used += 1
    return used


@kernel
def _pages(page_of: Lines, line: Lines, pages: Lines) -> None:
    """Write each row's page, 0 for none, to pages."""
    for i in range(len(line)):
        pages[i] = page_of[np.uint32(line[i])]


@kernel
def _places(low: int, width: int, bins: Bins, wanted: Flags, places: Lines, left: Flags) -> None:
    """Write where each row is counted, 0 for nowhere, and which wanted rows are not.

    places  int32[rows], modified: the page before, the index of the count after
    """
    first, bins_a_page = np.int32(low), np.int32(width)
    for i in range(len(places)):
        inside = np.int32(bins[i]) - first
        held = wanted[i] & (places[i] > 0) & (inside >= 0) & (inside < bins_a_page)
        places[i] = places[i] * bins_a_page + inside if held else np.int32(0)
        left[i] = wanted[i] & (not held)


@kernel
def _numbers(flags: Flags, words: npt.NDArray[np.uint64], number: int) -> Ints:
    """The numbers of flags that are set, int64[number]; words: the same flags, eight in each."""
    found, at = np.empty(number + 1, np.int64), np.uint64(0)
    for word in range(len(words)):
        if words[word] != 0:  # seldom: most rows are kept
            for i in range(8 * word, 8 * word + 8):
                found[at] = i  # no branch: overwritten by the next one
                at += np.uint64(flags[i])
    return found[:number]


@kernel
def _count(counts: npt.NDArray[np.uint32], places: Lines) -> None:
    """Count every place once in counts, modified."""
    for i in range(len(places)):
        counts[np.uint32(places[i])] += np.uint32(1)


class Pages:
    """Counts by line and bin, see the module. Changed by `count` and `clear`.

    low, width  first bin of a page, and number of bins
    most        pages, the first one included, which is no line's
    page_of     int32[lines + 1], page of a line, 0 for none; the last line never has one
    used        pages in use, with the first one
    counts      uint32[room * width], page by page; the first one takes what is not counted
    rows        counted since all was 0: no count is larger
    """

    def __init__(self, lines: int, low: int, width: int, *, most: int = MOST) -> None:
        self.low, self.width, self.most = low, width, most
        self.used, self.rows = 1, 0
        self.page_of = np.zeros(lines + 1, np.int32)
        self.counts = np.zeros(width, np.uint32)

    def full(self, rows: int) -> bool:
        """Whether a count could overflow if so many rows were added."""
        return self.rows + rows > LIMIT

    def count(self, line: Lines, bins: Bins, wanted: Flags) -> Ints:
        """Count the wanted rows; the numbers of those that are not kept here, int64[n].

        line    int32[rows], 0 … lines, the latter for a line that is not to be kept
        bins    int16[rows]
        wanted  bool[rows]
        """
        places = np.empty(len(line), np.int32)
        left = self._place(line, bins, wanted, places)
        used = _give(self.page_of, self.used, self.most, line[left])
        if used > self.used:
            self.used, self.counts = used, grown(self.counts, used * self.width)
            left = self._place(line, bins, wanted, places)
        _count(self.counts, places)
        self.rows += len(line)
        return left

    def _place(self, line: Lines, bins: Bins, wanted: Flags, places: Lines) -> Ints:
        """Write to places where each row is counted, 0 for nowhere; the wanted rows that are not."""
        _pages(self.page_of, line, places)
        left = np.zeros(-(-len(line) // 8) * 8, np.bool_)
        _places(self.low, self.width, bins, wanted, places, left)
        return _numbers(left, left.view(np.uint64), int(np.count_nonzero(left)))

    def clear(self) -> None:
        """Set all counts to 0."""
        self.counts[:] = 0
        self.rows = 0

    def entries(self) -> tuple[Ints, Ints, Ints]:
        """What is not 0, in no order of use: line, bin and count, int64[n] each."""
        lines = np.flatnonzero(self.page_of)
        line_of = np.zeros(self.used, np.int64)
        line_of[self.page_of[lines]] = lines
        counts = self.counts[self.width : len(line_of) * self.width].reshape(-1, self.width)
        page, inside = np.nonzero(counts)
        return line_of[page + 1], inside + self.low, counts[page, inside].astype(np.int64)
