"""Which running request lets go of its blocks next: what all block policies that hold blocks ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from servescope.kernels.jit import borrowing_kernel

if TYPE_CHECKING:
    from servescope.cache.prompts import Prompts


@borrowing_kernel
def next_ended(prompts: Prompts, ended: int, request: int) -> int:
    """The next request that has ended when `request` arrives, of those before it; -1 for none.

    ended  requests of `Prompts.ending` that have let go so far
    """
    if ended < request:
        done = prompts.ending[ended]
        if done < request and prompts.ends_us[done] <= prompts.arrival_us[request]:
            return int(done)
    return -1
