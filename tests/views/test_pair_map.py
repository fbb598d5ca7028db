"""The map of pairs against dicts, over many pairs and any slices."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from servescope.kernels.histogram import LOG_BINS, log_bins
from servescope.views.pair_map import ENOUGH, GAPS, KEY, KEY_BITS, REQUESTS, Drawn, PairMap, Rows

MODELS = 9
DRAWN = Drawn(np.array([-1, 1, -1, 0, -1, -1, -1, -1, -1], np.int32), 2)


def drawn_rows(seed: int, rows: int, users: int) -> Rows:
    """Rows of many pairs, some of which come often, with gaps of 0 and codes of nobody."""
    random = np.random.default_rng(seed)
    user = np.minimum(random.geometric(4 / users, rows) - 1, users).astype(np.int32) - 1
    model = random.integers(-1, MODELS, rows).astype(np.int32)
    return Rows(user, model, np.cumsum(random.choice([0, 0, 1, 900, 10**6, 10**10], rows)))


def log_bin_of(gap_us: int) -> int:
    return int(np.flatnonzero(log_bins(np.array([gap_us / 1e6])))[0])


def expected(rows: Rows) -> tuple[Counter[int], dict[int, list[int]]]:
    """Requests and bins of the gaps above 0 of every pair."""
    requests: Counter[int] = Counter()
    gaps: dict[int, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    for user, model, arrival in zip(*(column.tolist() for column in rows), strict=True):
        if user < 0 or model < 0:
            continue
        key = user << KEY_BITS | model
        requests[key] += 1
        if arrival > last.get(key, arrival):
            gaps[key].append(log_bin_of(arrival - last[key]))
        last[key] = arrival
    return requests, gaps


def folded(pairs: PairMap, rows: Rows, batch: int, noted: Counter[tuple[int, int]]) -> None:
    for low in range(0, len(rows.user), batch):
        some = slice(low, low + batch)
        for keys, bins in pairs.update(Rows(rows.user[some], rows.model[some], rows.arrival[some]), DRAWN):
            noted.update(zip(keys.tolist(), bins.tolist(), strict=True))


@pytest.mark.parametrize("slices", [1, 2, 5])
def test_many_pairs(slices: int) -> None:
    rows = drawn_rows(slices, 30_000, 3_000)
    requests, gaps = expected(rows)
    whole, noted = PairMap(), Counter[tuple[int, int]]()
    for part in zip(*(np.array_split(column, slices) for column in rows), strict=True):
        later = PairMap()
        folded(later, Rows(*part), 7_001, noted)
        for keys, bins in whole.merge(later, DRAWN):
            noted.update(zip(keys.tolist(), bins.tolist(), strict=True))
    held = whole.held
    assert len(requests) > 5_000
    assert dict(zip(held[:, KEY].tolist(), held[:, REQUESTS].tolist(), strict=True)) == requests
    assert {key: n for key, n in held[:, [KEY, GAPS]].tolist() if n} == {k: len(v) for k, v in gaps.items()}
    pooled = np.concatenate([own for own in gaps.values() if len(own) >= ENOUGH])
    assert whole.pooled.tolist() == np.bincount(pooled, minlength=LOG_BINS).tolist()
    lines = {code: line for code, line in enumerate(DRAWN.lines.tolist()) if line >= 0}
    assert noted == Counter(
        ((key >> KEY_BITS) * DRAWN.many + lines[key & 15], own)
        for key, bins in gaps.items() if key & 15 in lines for own in bins
    )  # fmt: skip


def test_records_begin_in_lines_of_the_cache_as_they_grow() -> None:
    pairs = PairMap()
    folded(pairs, drawn_rows(1, 5_000, 4_000), 1_000, Counter())
    assert pairs.used > 2_000 and pairs.records.ctypes.data % 64 == 0
    assert 3 * pairs.used <= 2 * len(pairs.slots)
