"""Active KV cache in plain Python: integers for the mean, fractions for the peak."""

from __future__ import annotations

from fractions import Fraction

Request = tuple[int, int, int, int, int]  # start_us, first_us, end_us, input_tokens, output_tokens


def whole(request: Request, at_us: int) -> int:
    """Whole tokens of the answer at a time between first token and end."""
    _, first, end, _, output = request
    return output if at_us >= end else output * (at_us - first) // (end - first)


def mean(requests: list[Request], step_us: int, rows: int) -> tuple[list[int], list[int]]:
    """Twice the integral of active tokens, and the integral of running requests, in each window."""
    twice, running = [0] * rows, [0] * rows
    for request in requests:
        start, first, end, prompt, _ = request
        for row in range(rows):
            low, high = max(start, row * step_us), min(end, (row + 1) * step_us)
            if low < high:
                running[row] += high - low
                twice[row] += 2 * prompt * (high - low)
                begin = max(low, first)
                if begin < high:
                    twice[row] += (whole(request, begin) + whole(request, high)) * (high - begin)
    return twice, running


def held(requests: list[Request], at_us: int) -> Fraction:
    """Active tokens just before a time, exactly."""
    total = Fraction(0)
    for start, first, end, prompt, output in requests:
        if start < at_us <= end:
            total += prompt
            if first < at_us:
                total += Fraction(output * (at_us - first), end - first)
    return total


def peak(requests: list[Request], step_us: int, rows: int) -> tuple[list[Fraction], list[int]]:
    """Greatest active tokens and number of running requests in each window.

    The sum rises but for completions, so it is looked at just before each of them and each border.
    """
    tokens, counts = [], []
    for row in range(rows):
        low, high = row * step_us, (row + 1) * step_us
        moments = {high, *(time for request in requests for time in request[:3] if low < time < high)}
        tokens.append(max(held(requests, moment) for moment in moments))
        begun = {low, *(request[0] for request in requests if low <= request[0] < high)}
        counts.append(max(sum(r[0] <= moment < r[2] for r in requests) for moment in begun))
    return tokens, counts
