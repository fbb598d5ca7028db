"""Reuse rates and probabilities by category from a file, as the authors of the policy exchange them.

One JSON object with the maps `a` (1/s, the inverse of the mean reuse time) and `p`, both from a category
such as `text_1` (request type and turn) to a number (kv-reuse, A.3).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from servescope.errors import DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

UNKNOWN = (0.0, 1.0)  # what the authors' code takes for a category that the file does not name: score 0


class RateFile(msgspec.Struct, forbid_unknown_fields=True):
    """The two maps of a file."""

    a: dict[str, float]
    p: dict[str, float] = {}


def given_rates(path: str, names: Sequence[str]) -> tuple[npt.NDArray[np.float64], list[str]]:
    """float64[categories, 2], rate and probability of each category, and notes on names that do not match.

    names  categories of the trace, by code

    A category without a probability has 1, one without a rate 0, as in the authors' code. Raises UsageError
    for a file that cannot be read, DataError for what is no such object or a value out of range.
    """
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"--reuse-rates {path}: {error.strerror or error}. Check the path.") from None
    try:
        found = msgspec.json.decode(text, type=RateFile)
    except msgspec.DecodeError as error:
        raise DataError(
            f'{path}: {error}. Give one JSON object, {{"a": {{"text_1": 0.01}}, "p": {{"text_1": 0.8}}}}.'
        ) from None
    for name, rate in found.a.items():
        if not 0 <= rate < np.inf:
            raise DataError(f'{path}: the rate of "{name}" is {rate}; rates are 1/s, at least 0.')
    for name, p in found.p.items():
        if not 0 <= p <= 1:
            raise DataError(f'{path}: the probability of "{name}" is {p}; it lies from 0 to 1.')
    rates = [(found.a.get(name, UNKNOWN[0]), found.p.get(name, UNKNOWN[1])) for name in names]
    notes = []
    if missing := [name for name in names if name not in found.a]:
        notes.append(f"{path} gives no rate for {', '.join(missing)}: their blocks go first")
    if unused := sorted({*found.a, *found.p} - set(names)):
        notes.append(f"{path} names categories that the trace has not: {', '.join(unused)}")
    return np.array(rates, np.float64).reshape(-1, 2), notes
