"""How many requests only fill the cache."""

from __future__ import annotations

import pytest

from servescope.cache.warmup import warm_requests
from servescope.errors import UsageError


def test_it_is_the_fraction_as_written_rounded_down() -> None:
    assert [warm_requests(f, 100) for f in (0.0, 0.07, 0.29, 0.5, 0.999)] == [0, 7, 29, 50, 99]
    assert warm_requests(0.5, 7) == 3


@pytest.mark.parametrize("fraction", [1.0, -0.1, float("nan")])
def test_outside_0_to_below_1_is_refused(fraction: float) -> None:
    with pytest.raises(UsageError, match="--warmup"):
        warm_requests(fraction, 10)
