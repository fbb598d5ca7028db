"""The loop that drives a Numba file's policy: the same steps as for a plain class, compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servescope.cache.policies.counts import CAPACITY, EVICTIONS, PEAK, USED
from servescope.kernels.jit import kernel_of_functions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from servescope.cache.requests import Requests


@kernel_of_functions
def drive(
    counts: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    own: Any,
    requests: Requests,
    hits: npt.NDArray[np.uint8],
    first: int,
    stop: npt.NDArray[np.int64],
    on_hit: Any,
    on_insert: Any,
    victim: Any,
) -> None:
    """Access requests from `first` to before stop[0]. Changes counts, sizes, own, hits and stop.

    stop  int64[2]: where to stop. Where `victim` names no resident object, it is set to the number of
          that request and to the answer
    """
    for number in range(first, stop[0]):
        item, size, time_us = requests.objects[number], requests.sizes[number], requests.arrival_us[number]
        held = sizes[item]
        hits[number] = held >= 0
        if held >= 0:
            counts[USED] += size - held
            sizes[item] = size
            on_hit(own, item, size, time_us)
        elif size > counts[CAPACITY]:
            continue
        incoming = 0 if held >= 0 else size
        while counts[USED] + incoming > counts[CAPACITY]:
            leaving = victim(own)
            if not 0 <= leaving < len(sizes) or sizes[leaving] < 0:
                stop[0], stop[1] = number, leaving
                return
            counts[USED] -= sizes[leaving]
            sizes[leaving] = -1
            counts[EVICTIONS] += 1
        if held < 0:
            counts[USED] += size
            sizes[item] = size
            on_insert(own, item, size, time_us)
        counts[PEAK] = max(counts[PEAK], counts[USED])
