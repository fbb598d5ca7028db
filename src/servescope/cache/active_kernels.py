"""Loops over running requests: what they hold in each window of time, as a mean and as a peak."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from servescope.kernels.jit import kernel

Ints = npt.NDArray[np.int64]
PRODUCT = 1 << 62  # products below this are formed in 64 bits
NEVER = np.iinfo(np.int64).max
FINE = 32  # growth is summed in 2^-32 tokens


@kernel
def grown(tokens: int, past_us: int, span_us: int) -> int:
    """Whole tokens of an answer of `tokens` after `past_us` of the `span_us` it takes: rounded down.

    Long division where the product would not fit into 64 bits, so that no clock of a trace overflows it.
    """
    if past_us >= span_us:
        return tokens
    if past_us == 0 or tokens <= PRODUCT // past_us:
        return tokens * past_us // span_us
    whole = 0
    rest = 0
    for bit in range(31, -1, -1):
        rest = 2 * rest + (past_us if (tokens >> bit) & 1 else 0)
        whole = 2 * whole + rest // span_us
        rest = rest % span_us
    return whole


@kernel
def active_mean(
    start_us: Ints,
    first_us: Ints,
    end_us: Ints,
    input_tokens: Ints,
    output_tokens: Ints,
    step_us: int,
    rows: int,
) -> tuple[Ints, Ints]:
    """Twice the integral of active tokens (token · µs), and of running requests (µs), in each window.

    start_us, first_us, end_us  int64[n], 0 <= start <= first <= end
    input_tokens, output_tokens  int64[n], from 0
    step_us, rows               windows [k · step, (k + 1) · step), k < rows; no end lies beyond the last
    returns                     int64[rows] twice; answers grow linearly between window borders, where they
                                have the whole tokens of `grown`: integers throughout, so the order of the
                                requests does not matter

    Raises nothing. Slow twin: tests/reference/active.py.
    """
    twice = np.zeros(rows, np.int64)
    running = np.zeros(rows, np.int64)
    for at in range(len(start_us)):
        low, first, end = start_us[at], first_us[at], end_us[at]
        while low < end:
            row = low // step_us
            high = min(end, (row + 1) * step_us)
            running[row] += high - low
            twice[row] += 2 * input_tokens[at] * (high - low)
            begin = max(low, first)
            if begin < high and output_tokens[at]:
                span = end - first
                held = grown(output_tokens[at], begin - first, span)
                held += grown(output_tokens[at], high - first, span)
                twice[row] += held * (high - begin)
            low = high
    return twice, running


@kernel
def active_peak(
    start_us: Ints,
    first_us: Ints,
    end_us: Ints,
    input_tokens: Ints,
    output_tokens: Ints,
    by_start: Ints,
    by_first: Ints,
    by_end: Ints,
    step_us: int,
    rows: int,
) -> tuple[Ints, Ints, int]:
    """Greatest active tokens and greatest number of running requests inside each window: int64[rows] twice.

    Arguments as in `active_mean`; by_*  int64[n], order of the requests by that time. Between events the sum
    only rises, so it is looked at just before each completion and each window's end. Growth is summed in
    whole 2^-32 tokens a µs and taken back exactly, so nothing drifts: off by at most span / 8,590 s tokens
    for each running answer, then rounded. The third result is the most tokens that answers running at once
    will have; sums are right while it is below 2^30. Raises nothing. Slow twin: tests/reference/active.py.
    """
    peak, most = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    starts, firsts = _in_order(start_us, by_start), _in_order(first_us, by_first)
    ends = _in_order(end_us, by_end)
    begun = answering = done = 0
    now = running = prompts = growth = slope = owed = highest = 0
    for row in range(rows):
        border = (row + 1) * step_us
        while now < border:
            # what has ended is gone before what begins at the same time is there
            while ends[done] == now:
                at = by_end[done]
                done += 1
                if start_us[at] < now:
                    running -= 1
                    prompts -= input_tokens[at]
                    owed -= output_tokens[at]
                    if first_us[at] < now:
                        pace = _pace(output_tokens[at], now - first_us[at])
                        growth -= pace * (now - first_us[at])
                        slope -= pace
            while starts[begun] == now:
                at = by_start[begun]
                begun += 1
                if end_us[at] > now:
                    running += 1
                    prompts += input_tokens[at]
                    owed += output_tokens[at]
            while firsts[answering] == now:
                at = by_first[answering]
                answering += 1
                if end_us[at] > now:
                    slope += _pace(output_tokens[at], end_us[at] - now)
            most[row] = max(most[row], running)
            highest = max(highest, owed)
            coming = min(border, starts[begun], firsts[answering], ends[done])
            growth += slope * (coming - now)
            now = coming
            peak[row] = max(peak[row], prompts + ((growth + (1 << (FINE - 1))) >> FINE))
    return peak, most, highest


@kernel
def _in_order(times_us: Ints, order: Ints) -> Ints:
    """The times in that order, then NEVER: a place past the last may be asked for."""
    times = np.empty(len(order) + 1, np.int64)
    for at in range(len(order)):
        times[at] = times_us[order[at]]
    times[len(order)] = NEVER
    return times


@kernel
def _pace(tokens: int, span_us: int) -> int:
    """Tokens a µs in units of 2^-32, rounded to the nearest."""
    return ((tokens << FINE) + span_us // 2) // span_us
