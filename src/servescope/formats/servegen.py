"""ServeGen client pools: what clients do in windows of time, and the lengths of their requests, as data.

A pool is a folder of `chunk-N-trace.csv` (no header: window start in s, requests/s, cv of the gaps, family
and two parameters) and `chunk-N-dataset.json` (window start -> field -> distribution as text). A pool
holds clients, not requests: it cannot be read as a trace. Source: alibaba/ServeGen.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from servescope.errors import UsageError
from servescope.formats.format import Format
from servescope.formats.servegen_files import (
    FAMILIES,
    LENGTH_FIELDS,
    Distribution,
    Lengths,
    read_lengths,
    read_windows,
)

if TYPE_CHECKING:
    import os

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source
    from servescope.trace import Trace

TRACE_NAME = re.compile(r"chunk-(\d+)-trace\.csv")
DATASET_NAME = re.compile(r"chunk-(\d+)-dataset\.json")
WINDOW_S = 600.0  # where no client has two windows to tell


@dataclass(frozen=True)
class Pool:
    """A pool of clients. The arrays run over all windows of all clients, client by client, in time.

    name        folder as given
    clients     number of each client, as in the file names, increasing
    offsets     int64[clients + 1], windows of client i are offsets[i] … offsets[i + 1]
    start_s     float64[n], start of the window, seconds since the pool's start
    rate        float64[n], requests a second
    cv          float64[n], coefficient of variation of the gaps
    family      int8[n], index into `FAMILIES` ("" where nothing arrives)
    parameters  float64[n, 2], shape and scale (seconds) fitted to the gaps; the rate counts requests, so
                it need not be one over the fitted mean gap
    lengths     client index -> distributions; a partial copy of a pool lacks some
    window_s    length of a window
    notes       what a reader of the pool must know
    """

    name: str
    clients: list[int]
    offsets: npt.NDArray[np.int64]
    start_s: npt.NDArray[np.float64]
    rate: npt.NDArray[np.float64]
    cv: npt.NDArray[np.float64]
    family: npt.NDArray[np.int8]
    parameters: npt.NDArray[np.float64]
    lengths: dict[int, Lengths]
    window_s: float = WINDOW_S
    notes: list[str] = field(default_factory=list)

    @property
    def without_lengths(self) -> list[int]:
        """Clients (numbers) that have no data set."""
        return [number for index, number in enumerate(self.clients) if index not in self.lengths]

    def in_force(self, client: int, window_s: float) -> dict[str, Distribution]:
        """Distributions of a client (number) for the window that starts at `window_s`, by field.

        The latest ones that start at or before it. Raises UsageError for an unknown client or window,
        or where the client has none.
        """
        index = self._index(client)
        if index not in self.lengths:
            raise UsageError(f"{self.name}: client {client} has no data set, so no lengths can be drawn.")
        low, high = self.offsets[index], self.offsets[index + 1]
        if window_s not in self.start_s[low:high]:
            raise UsageError(f"{self.name}: client {client} has no window that starts at {window_s:g} s.")
        found = self.lengths[index].at(window_s)
        if found is None:
            raise UsageError(f"{self.name}: client {client} has no lengths for the window at {window_s:g} s.")
        return found

    def _index(self, client: int) -> int:
        if client not in self.clients:
            raise UsageError(f"{self.name}: no client {client}; it has {len(self.clients)}.")
        return self.clients.index(client)


def is_pool(folder: str | os.PathLike[str]) -> bool:
    """Whether this is a folder of `chunk-N-trace.csv` files."""
    path = Path(folder)
    return path.is_dir() and any(TRACE_NAME.fullmatch(item.name) for item in path.iterdir())


def read_pool(folder: str | os.PathLike[str]) -> Pool:
    """Read a pool folder.

    Raises UsageError for a folder without `chunk-N-trace.csv`, DataError with file, line or window,
    and field for anything in it that does not hold.
    """
    path = Path(folder)
    if not path.is_dir():
        raise UsageError(f"{folder}: no such folder. A ServeGen pool is a folder of chunk-N-trace.csv files.")
    names = sorted(item.name for item in path.iterdir())
    numbers = sorted(int(found[1]) for name in names if (found := TRACE_NAME.fullmatch(name)))
    if not numbers:
        raise UsageError(f"{folder}: no chunk-N-trace.csv in the folder; this is no ServeGen pool.")
    datasets = {int(found[1]) for name in names if (found := DATASET_NAME.fullmatch(name))}
    windows = [read_windows(path / f"chunk-{number}-trace.csv") for number in numbers]
    lengths = {
        index: read_lengths(path / f"chunk-{number}-dataset.json", windows[index])
        for index, number in enumerate(numbers)
        if number in datasets
    }
    steps = np.concatenate([np.diff(one.start_s) for one in windows])
    return Pool(
        name=str(folder),
        clients=numbers,
        offsets=np.cumsum([0, *(len(one.start_s) for one in windows)]).astype(np.int64),
        start_s=np.concatenate([one.start_s for one in windows]),
        rate=np.concatenate([one.rate for one in windows]),
        cv=np.concatenate([one.cv for one in windows]),
        family=np.concatenate([one.family for one in windows]),
        parameters=np.concatenate([one.parameters for one in windows]),
        lengths=lengths,
        window_s=float(steps.min()) if len(steps) else WINDOW_S,
        notes=_notes(numbers, datasets),
    )


def _notes(numbers: list[int], datasets: set[int]) -> list[str]:
    notes = ["the fields of a window are drawn apart: a pool does not say how input and output go together"]
    bare = [str(number) for number in numbers if number not in datasets]
    if bare:
        notes.append(f"clients without a data set, so without lengths: {', '.join(bare)} (a partial copy?)")
    lone = [str(number) for number in sorted(datasets - set(numbers))]
    if lone:
        notes.append(f"data sets without a trace file, not used: {', '.join(lone)}")
    return notes


def draw(
    pool: Pool, client: int, window_s: float, count: int, *, seed: int
) -> dict[str, npt.NDArray[np.int64] | npt.NDArray[np.float64]]:
    """Draw the lengths of `count` requests of a client in a window.

    client    number, as in the file names
    window_s  start of the window
    returns   field -> array[count]: int64 tokens and counts, float64 ratios

    The same arguments give the same draws. Raises UsageError for an unknown client or window and
    for a window whose distributions are empty.
    """
    drawn: dict[str, npt.NDArray[np.int64] | npt.NDArray[np.float64]] = {}
    random = np.random.default_rng([seed, client, int(window_s)])
    for name, known in pool.in_force(client, window_s).items():
        uniform = random.random(count)
        if not len(known.values):
            raise UsageError(
                f"{pool.name}: client {client}, window {window_s:g}: {name} is empty; it sends nothing then."
            )
        edges = np.cumsum(known.probabilities)
        index = np.searchsorted(edges, uniform * edges[-1], side="right")
        picked = known.values[np.minimum(index, len(known.values) - 1)]
        drawn[name] = picked.astype(np.int64) if name in LENGTH_FIELDS else picked
    return drawn


def detect(sample: Sample) -> str | None:
    """A folder of chunk-N-trace.csv, or one such file: six fields without a header, the fourth a family."""
    if sample.kind == "folder":
        count = sum(bool(TRACE_NAME.fullmatch(name)) for name in sample.files)
        return f"a folder with {count} chunk-N-trace.csv files" if count else None
    rows = [sample.header, *sample.rows] if sample.header else []
    if rows and all(len(row) == 6 and row[3] in FAMILIES for row in rows) and _is_number(rows[0][0]):
        return "lines of window start, rate, cv, family and two parameters"
    return None


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+(\.\d+)?", text))


def refuse(sources: list[Source], context: Context) -> Trace:
    """Always raises UsageError (DataError for a broken pool): a pool holds clients, not requests."""
    source = sources[0]
    if source.is_folder:
        clients = len(read_pool(source.path).clients)
        what = f"a ServeGen pool of {clients} clients"
    else:
        what = "the windows of one ServeGen client; its pool is the folder"
    raise UsageError(
        f"{source.name}: {what}. A pool holds clients and their rates, not requests, so there is no trace to "
        "read. `servescope info FOLDER` and `servescope check FOLDER` show what is in it."
    )


FORMAT = Format("servegen", "ServeGen client pool (folder; clients, not requests)", detect, open=refuse)
