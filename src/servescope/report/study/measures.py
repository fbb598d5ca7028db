"""The measures that published findings state, worked out from result tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from servescope.report.charts_lengths import quantile
from servescope.report.study.caching import coverage_at
from servescope.report.study.cells import equal, keys, numbers, sums, whole
from servescope.report.study.evolution import cohort_medians, month_medians, months_of, others_share
from servescope.report.study.gaps import correlations, valid_hours

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from servescope.report.saved import Saved

    Measure = Callable[[Saved], float | None]

MONTH_DAYS = 30
DAY_S = 86_400


def _fact(saved: Saved, name: str) -> float | None:
    value: float | None = saved.row("facts")[name]
    return value


def _days(saved: Saved) -> float:
    """Days that the trace touches: begun days from its first request."""
    return float(np.floor(saved.row("facts")["span_s"] / DAY_S) + 1)


def _ratio(saved: Saved, part: str, of: str) -> float | None:
    row = saved.row("facts")
    return row[part] / row[of] if row[part] is not None and row[of] else None


def _peak_day(saved: Saved) -> float:
    data = saved.arrow("load_hour")
    day = whole(data, "hour") // 24
    return float(np.argmax(sums(day - day.min(), whole(data, "requests"), int(day.max() - day.min()) + 1)))


def _models_a_day(saved: Saved, last: bool) -> float:
    data = saved.arrow("model_day")
    day = whole(data.filter(pc.is_valid(data["model"])), "day")
    found = np.bincount(day - day.min())
    return float(np.median(found[-MONTH_DAYS:] if last else found[:MONTH_DAYS]))


def _share_change(saved: Saved, groups: tuple[str, ...]) -> float | None:
    """Share of some endpoints in the last month less that in the first; None for a single month."""
    data = saved.arrow("load_hour")
    month = months_of(whole(data, "hour") // 24)
    of = keys(data, "endpoint_group")
    chosen = np.isin(of.codes, [at for at, name in enumerate(of.names) if name in groups])
    requests = numbers(data, "requests")
    if month.min() == month.max():
        return None
    first, last = (
        float(requests[(month == one) & chosen].sum() / requests[month == one].sum())
        for one in (month.min(), month.max())
    )
    return last - first


def _hist(saved: Saved, metric: str, series: str = "global") -> pa.Table:
    return equal(equal(saved.arrow("value_hist"), "metric", metric), "series", series)


def _share_between(saved: Saved, metric: str, low: float, high: float) -> float | None:
    """Share of values in [low, high); both must be bin edges."""
    data = _hist(saved, metric)
    count, edge = numbers(data, "count"), numbers(data, "bin_low")
    inside = (edge >= low * (1 - 1e-9)) & (edge < high * (1 - 1e-9))
    return float(count[inside].sum() / count.sum()) if count.sum() else None


def _median(saved: Saved, metric: str) -> float:
    return quantile(_hist(saved, metric).to_pylist(), 0.5)


def _hits_at_ends(saved: Saved) -> float | None:
    data = _hist(saved, "hit_pos")
    count, edge = numbers(data, "count"), numbers(data, "bin_low")
    ends = (edge < 0.1 - 1e-9) | (edge >= 0.9 - 1e-9)
    return float(count[ends].sum() / count.sum()) if count.sum() else None


def _mean_hit(saved: Saved, series: str) -> float:
    data = _hist(saved, "hit", series)
    middle = (numbers(data, "bin_low") + numbers(data, "bin_high")) / 2
    count = numbers(data, "count")
    return float((middle * count).sum() / count.sum()) if count.sum() else float("nan")


def _correlated(saved: Saved) -> float:
    value = correlations(saved, valid_hours(saved).names)
    return float(np.mean(value[np.isfinite(value)] > 0))


def _of_list(values: list[float], pick: Callable[[list[float]], float]) -> float | None:
    return pick(values) if len(values) > 1 else None


MEASURES: dict[str, tuple[tuple[str, ...], Measure]] = {
    "requests": (("facts",), partial(_fact, name="requests")),
    "days": (("facts",), _days),
    "peak_day": (("load_hour",), _peak_day),
    "input_tokens": (("facts",), partial(_fact, name="input_tokens")),
    "output_tokens": (("facts",), partial(_fact, name="output_tokens")),
    "output_per_input": (("facts",), partial(_ratio, part="output_tokens", of="input_tokens")),
    "models": (("facts",), partial(_fact, name="models")),
    "models_early": (("model_day",), partial(_models_a_day, last=False)),
    "models_late": (("model_day",), partial(_models_a_day, last=True)),
    "chat_change": (("load_hour",), partial(_share_change, groups=("chat", "chat_stream"))),
    "completion_change": (("load_hour",), partial(_share_change, groups=("completion", "completion_stream"))),
    "stream_change": (("load_hour",), partial(_share_change, groups=("chat_stream", "completion_stream"))),
    "inputs_usual": (("value_hist",), partial(_share_between, metric="it", low=1e2, high=1e5)),
    "outputs_usual": (("value_hist",), partial(_share_between, metric="ot", low=1e1, high=1e3)),
    "outputs_shorter": (("value_hist",), partial(_share_between, metric="ratio", low=0.0, high=1.0)),
    "prefill_median": (("value_hist",), partial(_median, metric="prefill_frac")),
    "users": (("facts",), partial(_fact, name="users")),
    "bursty_models": (("model_hour",), lambda saved: float(np.mean(valid_hours(saved).cv > 1))),
    "correlated_models": (("model_hour", "model_gap_pair"), _correlated),
    "others_change": (("model_day",), lambda saved: _of_list(others_share(saved), lambda x: x[-1] - x[0])),
    "input_median_least": (("month_shape",), lambda saved: _of_list(month_medians(saved, "it"), min)),
    "input_median_most": (("month_shape",), lambda saved: _of_list(month_medians(saved, "it"), max)),
    "output_median_first": (("month_shape",), lambda s: _of_list(month_medians(s, "ot"), lambda x: x[0])),
    "output_median_last": (("month_shape",), lambda s: _of_list(month_medians(s, "ot"), lambda x: x[-1])),
    "cohort_growth": (("user_stats",), lambda s: _of_list(cohort_medians(s), lambda x: x[-1] / x[0])),
    "hits_at_ends": (("value_hist",), _hits_at_ends),
    "short_reuse": (("value_hist",), lambda saved: _mean_hit(saved, "lt1k") - _mean_hit(saved, "ge8k")),
    "return_100ms": (("pair_gap_hist",), partial(coverage_at, ttl_s=0.1)),
    "return_10s": (("pair_gap_hist",), partial(coverage_at, ttl_s=10.0)),
    "return_15min": (("pair_gap_hist",), partial(coverage_at, ttl_s=900.0)),
    "instances": (("facts",), partial(_fact, name="instances")),
}  # measure -> tables that it needs, and how it is worked out
