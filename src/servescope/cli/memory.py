"""How this process asks the system for memory: what one step of a scan lets go, the next one takes."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

ARENAS = "MALLOC_ARENA_MAX"
M_ARENA_MAX = -8  # in glibc's malloc.h


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


def leave_at_end() -> None:
    """Let Python look for no unused cycles as it ends, among all that was loaded: 0.3 s of every command.

    While a command runs it looks as often as ever: more seldom, a scan of 50 M rows takes 0.3 GB more, since
    cycles hold arrays.
    """
    gc.freeze()
