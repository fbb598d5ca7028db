"""KV cache of the requests that run: how much of a memory they take, and what is left for reuse.

A request holds its prompt from arrival to completion; its answer grows evenly from the first token to
completion (from arrival where no first token is known). Waiting counts as running, and a prefix that
running requests share counts once for each: both make this an upper bound of what an engine holds.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.cache.active_kernels import active_mean, active_peak
from servescope.errors import UsageError
from servescope.tables import table

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]
STEPS_S = (1, 10, 60, 300, 3600, 21_600, 86_400)
STEP_ROWS = 20_000  # the default step is the shortest of these that gives no more rows
MAX_ROWS = 10_000_000
ANSWERS = 1 << 30  # tokens that answers running at once may have: `active_peak`
LIMIT = (
    "The trace has no completion times: how much memory running requests take, and so how much is left for "
    "reuse, cannot be told; the whole capacity is taken as reusable, which overstates the hits."
)
DOC = (
    "KV cache of running requests in windows of equal length, tokens: mean to a token for each request, max "
    "the greatest value inside; left: memory minus these, negative where the requests alone need more."
)


class Running(NamedTuple):
    """Requests whose span and tokens are known: int64[n] each, µs and tokens.

    start_us, first_us, end_us  arrival, first token, completion; start <= first <= end
    input_tokens, output_tokens
    """

    start_us: Ints
    first_us: Ints
    end_us: Ints
    input_tokens: Ints
    output_tokens: Ints


@dataclass(frozen=True)
class Left:
    """Requests that are not, or not wholly, in the series.

    no_completion   no completion time, or one before arrival: left out
    no_input        input tokens unknown: left out
    no_output       output tokens unknown: only the prompt is counted
    no_first_token  first token unknown: the answer grows from arrival
    late_first      first token after completion: only the prompt is counted
    """

    no_completion: int
    no_input: int
    no_output: int
    no_first_token: int
    late_first: int

    def notes(self) -> list[str]:
        """A sentence for each kind that occurs."""
        said = {
            "without a completion time at or after arrival: not in the active KV": self.no_completion,
            "without input tokens: not in the active KV": self.no_input,
            "without output tokens: the active KV holds their prompts only": self.no_output,
            "without a first token: their answers grow from arrival": self.no_first_token,
            "with a first token after completion: the active KV holds their prompts only": self.late_first,
        }
        return [
            f"{count:,} {'request' if count == 1 else 'requests'} {what}"
            for what, count in said.items()
            if count
        ]


def running_requests(
    arrival_us: npt.NDArray[np.int64],
    completed_us: npt.NDArray[np.int64],
    ttft_s: npt.NDArray[np.float64] | None,
    input_tokens: npt.NDArray[Any],
    output_tokens: npt.NDArray[Any] | None,
) -> tuple[Running, Left]:
    """The requests whose memory is known, and counts of the others. Arrays are not modified.

    arrival_us     int64[n]
    completed_us   int64[n], negative for unknown (`schema.NULL_INT64`)
    ttft_s         float64[n], NaN for unknown; None where the trace has none
    input_tokens   int[n], negative for unknown; output_tokens the same, or None
    """
    rows = len(arrival_us)
    outputs = np.full(rows, -1, np.int64) if output_tokens is None else output_tokens.astype(np.int64)
    ttft = np.full(rows, np.nan) if ttft_s is None else ttft_s
    ended = completed_us >= arrival_us
    known = ended & (input_tokens >= 0)
    start, end = arrival_us[known], completed_us[known]
    first_known = np.isfinite(ttft[known]) & (ttft[known] >= 0)
    with np.errstate(invalid="ignore"):
        wait_us = np.where(first_known, np.minimum(ttft[known], 1e12) * 1e6, 0.0)
    first = start + np.floor(wait_us + 0.5).astype(np.int64)
    late = first > end
    answers = outputs[known]
    left = Left(
        no_completion=int(rows - ended.sum()),
        no_input=int(ended.sum() - known.sum()),
        no_output=int((answers < 0).sum()),
        no_first_token=int((~first_known & (answers > 0)).sum()),
        late_first=int(late.sum()),
    )
    prompts = input_tokens[known].astype(np.int64)
    return Running(start, np.minimum(first, end), end, prompts, np.maximum(answers, 0)), left


def default_step_us(span_us: int) -> int:
    """The shortest of `STEPS_S` that cuts the span into at most `STEP_ROWS` windows; else the longest."""
    fitting = [step for step in STEPS_S if span_us <= STEP_ROWS * step * 1_000_000]
    return (fitting or [STEPS_S[-1]])[0] * 1_000_000


def active_kv(
    trace: Trace, *, step_us: int | None = None, memory_tokens: int | None = None, code: int | None = None
) -> tuple[list[Table], list[str]]:
    """Table `active_kv` of a trace, and notes; no table but `LIMIT` where completions are not known.

    code                    of the one model to count (`Trace.codes("model")`), None = all
    step_us, memory_tokens  as in `active_tokens`, and the same errors

    Holds five numbers of 8 bytes for each request whose span is known.
    """
    if not (trace.has("completed_us") and trace.has("input_tokens")):
        return [], [LIMIT]
    columns = ["arrival_us", "completed_us", "ttft_s", "input_tokens", "output_tokens"]
    held: list[Running] = []
    counts = np.zeros(len(fields(Left)), np.int64)
    for batch in trace.batches(columns if code is None else [*columns, "model"]):
        of_model: Any = slice(None) if code is None else batch["model"] == code
        arrays: list[Any] = [batch[name][of_model] for name in columns]
        running, left = running_requests(*arrays)
        held.append(running)
        counts += astuple(left)
    notes = Left(*counts.tolist()).notes()
    if not any(len(running.start_us) for running in held):
        return [], [LIMIT, *notes]
    whole = Running(*(np.concatenate(parts) for parts in zip(*held, strict=True)))
    return [active_tokens(whole, step_us=step_us, memory_tokens=memory_tokens)], notes


def active_tokens(running: Running, *, step_us: int | None = None, memory_tokens: int | None = None) -> Table:
    """Table `active_kv`: a row a window of `step_us` from time 0 to the last completion.

    step_us        length of a window, None = `default_step_us` of the last completion
    memory_tokens  tokens that the memory holds; gives the columns left_tokens_mean, left_tokens_min

    Raises UsageError for a step below 1 µs, or one that gives more than `MAX_ROWS` rows or
    sums beyond 64 bits.
    """
    end_us = int(running.end_us.max(initial=0))
    step = default_step_us(end_us) if step_us is None else step_us
    if step < 1:
        raise UsageError(f"a step of {step} µs is none; name one above 0.")
    rows = -(-end_us // step)
    if rows > MAX_ROWS:
        raise UsageError(f"{rows:,} windows of {step / 1e6:g} s are too many; name a longer step.")
    held = Running(*(np.ascontiguousarray(column, np.int64) for column in running))
    orders = [np.argsort(column, kind="stable") for column in held[:3]]
    peak, most, answers = active_peak(*held, orders[0], orders[1], orders[2], step, rows)
    if answers >= ANSWERS or 2 * int(peak.max(initial=0)) * step >= 2**63:
        raise UsageError(
            f"running requests hold too many tokens at once to be added up in windows of {step / 1e6:g} s; "
            "name a shorter step, or one model of the trace."
        )
    twice, requests = active_mean(*held, step, rows)
    mean = twice / (2.0 * step)
    columns: dict[str, tuple[pa.DataType, Any]] = {
        "start_s": (pa.float64(), np.arange(rows) * (step / 1e6)),
        "active_tokens_mean": (pa.float64(), mean),
        "active_tokens_max": (pa.int64(), peak),
        "requests_running_mean": (pa.float64(), requests / step),
        "requests_running_max": (pa.int64(), most),
    }
    if memory_tokens is not None:
        columns["left_tokens_mean"] = (pa.float64(), memory_tokens - mean)
        columns["left_tokens_min"] = (pa.int64(), memory_tokens - peak)
    return table("active_kv", columns, DOC)
