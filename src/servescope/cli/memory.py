"""How this process asks the system for memory: what one step of a scan lets go, the next one takes."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

ARENAS = "MALLOC_ARENA_MAX"
M_ARENA_MAX = -8  # in glibc's malloc.h
SELDOM = (50_000, 20, 20)  # new objects, rounds, rounds of rounds between looks for unused cycles


def share_one_heap() -> None:
    """Let Arrow, NumPy and all threads take memory from one heap; call it before Arrow is imported.

    Apart, none of them takes what another has let go, and each asks for new pages, which the system clears:
    in `benchmarks/views.py` half of the system's time and a sixth of the peak memory at 10 M rows. What the
    user has set by the variables of Arrow and glibc holds. Without glibc only Arrow's memory moves.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux" and ARENAS not in os.environ:
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_ARENA_MAX, 1)


def collect_seldom() -> None:
    """Look for cycles of unused objects more seldom: what is loaded makes many objects and leaves none."""
    gc.set_threshold(*SELDOM)


def leave_at_end() -> None:
    """Let Python look for no cycles as it ends, among all that was ever loaded: 0.3 s of every command."""
    gc.freeze()
