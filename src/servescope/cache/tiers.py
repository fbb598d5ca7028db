"""Two tiers of memory for prefix blocks, device and host, both LRU, written back.

A block that leaves the device goes to the host; when that is full its oldest leaf is dropped. A block
found on the host goes back to the device. So a block is in one tier, and the two together are one order of
last use: the device holds its first blocks and the host those behind (exclusive caching), which makes the
hits of every pair of sizes a matter of positions. Vendors that keep a copy on the host as well have less
room in all; what moves between the tiers is counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.cache.block_curve import Order
from servescope.kernels.jit import kernel
from servescope.tables import ratio, stacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.capacity import Size
    from servescope.cache.prompts import Prompts
    from servescope.result import Table

    Ints = npt.NDArray[np.int64]

# what is counted for a pair of sizes
DEVICE, HOST, DEVICE_TOKENS, HOST_TOKENS, REQUESTS_DEVICE, REQUESTS_HOST, BACK, DROPPED = range(8)
I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
TIERS = {
    "policy": TEXT,
    "device_blocks": I64,
    "host_blocks": I64,
    "block_references": I64,
    "device_block_hits": I64,
    "host_block_hits": I64,
    "device_hit_ratio": F64,
    "host_hit_ratio": F64,
    "block_hit_ratio": F64,
    "device_hit_tokens": I64,
    "host_hit_tokens": I64,
    "requests_with_device_hits": I64,
    "requests_with_host_hits": I64,
    "written_back_blocks": I64,
    "promoted_blocks": I64,
    "dropped_blocks": I64,
    "model": TEXT,
}
DOC = (
    "Hits of an LRU cache in two tiers, after the warm-up: found on the device, found on the host and moved "
    "back (promoted). written_back: blocks that left the device for the host; dropped: those that left the "
    "host. Ratios are of all block references."
)


@dataclass(frozen=True)
class Tiers:
    """Capacities of one pair, in blocks."""

    device: int
    host: int


def count_tiers(prompts: Prompts, pairs: Sequence[Tiers], *, first: int = 0) -> Ints:
    """int64[pairs, 8] in the order of this module's numbers; requests before `first` warm up.

    Requests hold nothing while they run.
    """
    counts = np.zeros((len(pairs), 8), np.int64)
    sizes = np.array([(pair.device, pair.device + pair.host) for pair in pairs], np.int64).reshape(-1, 2)
    known = np.zeros(1, np.int64)
    for piece in Order().pieces(prompts):
        _count(
            piece.positions, piece.offsets, piece.tails, prompts.block_tokens,
            sizes, known, max(0, first - piece.first), counts,
        )  # fmt: skip
    return counts


def tiers_table(
    prompts: Prompts, devices: Sequence[Size], hosts: Sequence[Size], *, first: int = 0, model: str = "*"
) -> Table:
    """Table `tiers`, a row for every pair of a device and a host size."""
    pairs = [Tiers(device.blocks or 0, host.blocks or 0) for device in devices for host in hosts]
    references = int(prompts.offsets[-1] - prompts.offsets[first])
    rows = []
    for pair, found in zip(pairs, count_tiers(prompts, pairs, first=first).tolist(), strict=True):
        rows.append(
            [
                "lru", pair.device, pair.host, references, found[DEVICE], found[HOST],
                ratio(found[DEVICE], references), ratio(found[HOST], references),
                ratio(found[DEVICE] + found[HOST], references), found[DEVICE_TOKENS], found[HOST_TOKENS],
                found[REQUESTS_DEVICE], found[REQUESTS_HOST], found[BACK], found[HOST], found[DROPPED], model,
            ]
        )  # fmt: skip
    return stacked("tiers", TIERS, rows, DOC)


@kernel
def _count(
    positions: npt.NDArray[np.int32],
    offsets: Ints,
    tails: npt.NDArray[np.int32],
    block_tokens: int,
    sizes: Ints,
    known: Ints,
    first: int,
    counts: Ints,
) -> None:
    """Count prompts from `first` on for every pair. Changes `known`, the distinct blocks, and counts."""
    for row in range(len(tails)):
        low, high = offsets[row], offsets[row + 1]
        fresh = 0
        while fresh < high - low and positions[high - 1 - fresh] == 0:
            fresh += 1
        before = known[0]
        known[0] += fresh
        if row < first:
            continue
        for pair in range(len(sizes)):
            device, both = sizes[pair]
            found = counts[pair]
            on_device, on_host = 0, 0
            for place in range(low, high - fresh):
                if positions[place] > both:
                    break
                tokens = tails[row] if place == high - 1 else block_tokens
                on_host += positions[place] > device
                on_device += positions[place] <= device
                found[HOST_TOKENS if positions[place] > device else DEVICE_TOKENS] += tokens
            found[DEVICE] += on_device
            found[HOST] += on_host
            found[REQUESTS_DEVICE] += on_device > 0
            found[REQUESTS_HOST] += on_host > 0
            # what comes into a tier pushes as much out of it, once it is full
            found[BACK] += _pushed(high - low - on_device, before, device, on_device)
            on_both = on_device + on_host
            found[DROPPED] += _pushed(high - low - on_both, before, both, on_both)


@kernel
def _pushed(coming: int, before: int, size: int, kept: int) -> int:
    """Blocks that leave the first `size` places when `coming` blocks that were not there come in.

    before  distinct blocks so far; kept: blocks of the prompt that were there. What of a long prompt
    finds no place has not been in and does not leave.
    """
    held = min(before, size)
    return max(0, min(held + coming - size, held - kept))
