"""The two files of a ServeGen client, parsed as data, with an exact place for everything that is wrong."""

from __future__ import annotations

import bisect
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope.errors import DataError, shorten

if TYPE_CHECKING:
    from pathlib import Path

FAMILIES = ("", "Gamma", "Weibull", "Exponential")
TRACE_FIELDS = ("window_start", "rate", "cv", "family", "parameter_1", "parameter_2")
TOKEN_FIELDS = (
    "input_tokens",
    "output_tokens",
    "text_tokens",
    "image_tokens",
    "audio_tokens",
    "video_tokens",
)
COUNT_FIELDS = ("image_count", "audio_count", "video_count")
LENGTH_FIELDS = (*TOKEN_FIELDS, *COUNT_FIELDS)  # whole numbers
RATIO_FIELDS = ("reason_ratio",)  # share of the output that is reasoning, 0 to 1
INPUT_FIELDS = ("input_tokens", "text_tokens")  # one of them, and output_tokens, in every window
TOLERANCE = 1e-6  # of the sum of probabilities


@dataclass(frozen=True)
class Windows:
    """Windows of one client, in time; the arrays of `Pool`."""

    start_s: npt.NDArray[np.float64]
    rate: npt.NDArray[np.float64]
    cv: npt.NDArray[np.float64]
    family: npt.NDArray[np.int8]
    parameters: npt.NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """Values with their probabilities, both float64[k] in the file's order; empty where nothing is sent."""

    values: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Expected value, NaN if empty."""
        if not len(self.values):
            return float("nan")
        return float(self.values @ self.probabilities / self.probabilities.sum())


@dataclass(frozen=True)
class Lengths:
    """Distributions of one client.

    start_s  when each set of them comes into force, increasing
    fields   one dict a start: field -> distribution
    """

    start_s: list[float] = field(default_factory=list)
    fields: list[dict[str, Distribution]] = field(default_factory=list)

    def at(self, window_s: float) -> dict[str, Distribution] | None:
        """The set in force at `window_s`: the latest that starts at or before it; None if there is none."""
        index = bisect.bisect_right(self.start_s, window_s) - 1
        return self.fields[index] if index >= 0 else None


def read_windows(path: Path) -> Windows:
    """The windows in a `chunk-N-trace.csv`. Raises DataError with file, line, field and value."""
    try:
        lines = path.read_text("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as text ({error}).") from error
    rows: list[tuple[float, float, float, int, float, float]] = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            rows.append(_window(path, number, line.strip().split(",")))
            if len(rows) > 1 and rows[-1][0] <= rows[-2][0]:
                raise _wrong_line(path, number, 0, line.split(",")[0], "windows must follow one another")
    if not rows:
        raise DataError(f"{path}: no windows; the file is empty.")
    table = np.array([[row[0], row[1], row[2], row[4], row[5]] for row in rows])
    family = np.array([row[3] for row in rows], np.int8)
    return Windows(table[:, 0], table[:, 1], table[:, 2], family, table[:, 3:])


def _window(path: Path, number: int, fields: list[str]) -> tuple[float, float, float, int, float, float]:
    if len(fields) != len(TRACE_FIELDS):
        raise DataError(f"{path}:{number}: {len(fields)} fields, {len(TRACE_FIELDS)} were expected.")
    start, rate, cv, first, second = (_number(path, number, i, fields[i]) for i in (0, 1, 2, 4, 5))
    if fields[3] not in FAMILIES:
        raise _wrong_line(path, number, 3, fields[3], f"known families are {', '.join(FAMILIES[1:])}")
    if rate > 0 and not fields[3]:
        raise _wrong_line(path, number, 3, fields[3], f"empty, but the rate is {rate:g}")
    if rate > 0 and not (first > 0 and second > 0) and fields[3] != "Exponential":
        raise _wrong_line(path, number, 4, f"{first:g}, {second:g}", "shape and scale must be above 0")
    return start, rate, cv, FAMILIES.index(fields[3]), first, second


def _number(path: Path, number: int, index: int, text: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else float("nan")
    except ValueError:
        value = float("nan")
    if not 0 <= value < float("inf"):
        raise _wrong_line(path, number, index, text, "a number of at least 0 was expected")
    return value


def _wrong_line(path: Path, number: int, index: int, text: str, reason: str) -> DataError:
    return DataError(
        f'{path}:{number}: field "{TRACE_FIELDS[index]}" is {shorten(text)}: {reason}. Mend the file.'
    )


def read_lengths(path: Path, windows: Windows) -> Lengths:
    """The distributions in a `chunk-N-dataset.json`, window by window.

    windows  of the same client: a window with a rate must not meet an empty distribution

    Raises DataError with file, window and field.
    """
    sets = _sets(path)
    starts = sorted(sets)
    busy = windows.start_s[windows.rate > 0]
    rates = windows.rate[windows.rate > 0]
    early = busy < (starts[0] if starts else np.inf)
    if early.any():
        raise _wrong(path, busy[early][0], "", f"no lengths by then, but the rate is {rates[early][0]:g}")
    force = np.searchsorted(np.array(starts), busy, side="right") - 1
    fields: list[dict[str, Distribution]] = []
    for index, start in enumerate(starts):
        fields.append(_fields(path, start, sets[start]))
        served = np.flatnonzero(force == index)
        for name, known in fields[-1].items():
            if len(served) and not len(known.values):
                raise _wrong(path, start, name, _but_rate(start, busy[served[0]], rates[served[0]]))
    return Lengths(starts, fields)


def _but_rate(start: float, window: float, rate: float) -> str:
    return f"empty, but the rate is {rate:g}" + (f" in window {window:g}" if window != start else "")


def _sets(path: Path) -> dict[float, dict[str, Any]]:
    """Window start -> field -> text, as the JSON has it."""
    try:
        read = json.loads(path.read_bytes(), object_pairs_hook=_unique)
    except (ValueError, RecursionError, OSError) as error:
        raise DataError(f"{path}: invalid JSON ({error}). Fetch the file again.") from error
    if not isinstance(read, dict):
        raise DataError(f"{path}: an object of windows was expected.")
    sets: dict[float, dict[str, Any]] = {}
    for text, fields in read.items():
        if not (text.isascii() and text.replace(".", "", 1).isdigit()):
            raise _wrong(path, text, "", "a window start in seconds was expected")
        if not isinstance(fields, dict):
            raise _wrong(path, text, "", "an object of fields was expected")
        if sets.setdefault(float(text), fields) is not fields:
            raise _wrong(path, text, "", "the window is there twice")
    return sets


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{shorten(next(name for name in names if names.count(name) > 1))} is there twice")
    return found


def _fields(path: Path, start: float, texts: dict[str, Any]) -> dict[str, Distribution]:
    for needed in (INPUT_FIELDS, ("output_tokens",)):
        if not any(name in texts for name in needed):
            raise _wrong(path, start, needed[0], "missing")
    for name in texts:
        if name not in LENGTH_FIELDS and name not in RATIO_FIELDS:
            known = ", ".join((*LENGTH_FIELDS, *RATIO_FIELDS))
            raise _wrong(path, start, name, f"unknown field; known are {known}")
    return {name: _distribution(path, start, name, text) for name, text in texts.items()}


def _distribution(path: Path, start: float, name: str, text: Any) -> Distribution:
    """Parse "{10: 0.5, 20: 0.5}": numbers, colons and commas, nothing else; it is never run."""
    if not isinstance(text, str):
        raise _wrong(path, start, name, "a text like {10: 0.5, 20: 0.5} was expected")
    body = text.strip()
    if not (body.startswith("{") and body.endswith("}")) or "_" in body or not body.isascii():
        raise _wrong(path, start, name, f"{shorten(text)} is no text like {{10: 0.5, 20: 0.5}}")
    body = body[1:-1].strip()
    if not body:
        return Distribution(np.zeros(0), np.zeros(0))
    try:
        pairs = np.array([[float(part) for part in pair.split(":")] for pair in body.split(",")])
        values, probabilities = pairs.T
    except ValueError:
        raise _wrong(path, start, name, f"{shorten(text)} is no text like {{10: 0.5, 20: 0.5}}") from None
    _check_values(path, start, name, values)
    if not (np.isfinite(probabilities).all() and (probabilities >= 0).all()):
        raise _wrong(path, start, name, "a probability is no number from 0 to 1")
    total = float(probabilities.sum())
    if abs(total - 1) > TOLERANCE:
        raise _wrong(path, start, name, f"probabilities sum to {total:.9g}, not 1")
    return Distribution(values, probabilities)


def _check_values(path: Path, start: float, name: str, values: npt.NDArray[np.float64]) -> None:
    if name in RATIO_FIELDS:
        if not ((values >= 0) & (values <= 1)).all():
            raise _wrong(path, start, name, "a ratio from 0 to 1 was expected")
    elif not ((values >= 0) & (values < 2**31) & (np.floor(values) == values)).all():
        raise _wrong(path, start, name, "whole numbers of at least 0 were expected")
    if len(np.unique(values)) != len(values):
        raise _wrong(path, start, name, "a value is there twice")


def _wrong(path: Path, window: object, name: str, reason: str) -> DataError:
    shown = f"{window:g}" if isinstance(window, float) else str(window)
    named = f', field "{name}"' if name else ""
    return DataError(f"{path}: window {shown}{named}: {reason}. Mend the file, or leave the client out.")
