"""The findings of a sweep of caches in plain lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from servescope.report.charts_cache import BOUND, CREDITS, LRU, models
from servescope.report.figure import number, percent
from servescope.report.saved import ALL
from servescope.report.summary_blocks import block_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.report.saved import Saved

    Row = dict[str, Any]


def cache_lines(saved: Saved) -> list[tuple[str, str]]:
    """Label and text of each line."""
    lines = []
    names = models(saved)
    for model in names:
        of = "" if model == ALL or len(names) == 1 else f" ({model})"
        rows = saved.rows("cache", model=model)
        about = saved.row("workload", model=model)
        if about:
            lines.append((f"Workload{of}", _workload(about)))
        if blocks := saved.row("block_workload", model=model):
            lines += [(f"{label}{of}", text) for label, text in block_lines(saved, model, blocks)]
        lines += [(f"Policies{of}", _policies(rows)), (f"Differences{of}", _differences(saved, model))]
    rows = saved.rows("cache")
    if rows and rows[0]["credit"] is not None:
        credit = str(rows[0]["credit"])
        lines.append(("Credit", f"{credit}: {CREDITS.get(credit, 'as its name says')}."))
    return lines


def _workload(about: Row) -> str:
    text = (
        f"{about['requests']:,} requests of {about['sessions']:,} sessions (rule {about['rule']}); working "
        f"set {number(about['working_set_tokens'])} tokens, largest prompt "
        f"{number(about['largest_tokens'])}; a cache without limit would hit "
        f"{percent(about['request_hit_ceiling'])} of requests and {percent(about['token_hit_ceiling'])} of "
        "input tokens"
    )
    if about["heaviest_share"] is not None:
        text += f"; the heaviest user makes {percent(about['heaviest_share'])} of the requests"
    return text + "."


def _policies(rows: Sequence[Row]) -> str:
    """Token hit ratios at the middle capacity, best first."""
    sizes = sorted({row["capacity_tokens"] for row in rows})
    if not sizes:
        return "none was run."
    middle = sizes[len(sizes) // 2]
    here = [row for row in rows if row["capacity_tokens"] == middle and row["token_hit_ratio"] is not None]
    here.sort(key=lambda row: (row["policy"] == BOUND, -row["token_hit_ratio"]))
    found = ", ".join(f"{row['policy']} {percent(row['token_hit_ratio'])}" for row in here)
    return f"token hit ratio at {number(middle)} tokens: {found or 'no request was counted'}."


def _differences(saved: Saved, model: str) -> str:
    rows = saved.rows("policy_differences", model=model, metric="token_hit_ratio", policy_b=LRU)
    if not rows:
        return "none: it takes lru and another policy."
    judged = [row for row in rows if row["tie"] is not None]
    if not judged:
        return "no interval: fewer than two users to draw from."
    ties = sum(row["tie"] for row in judged)
    better = sum(not row["tie"] and row["difference"] > 0 for row in judged)
    text = (
        f"of {len(judged)} with LRU in token hit ratio, {better} are above it, "
        f"{len(judged) - ties - better} below, {ties} are ties"
    )
    both = [row for row in judged if row["tie_without_heaviest"] is not None]
    turned = sum(_verdict(row, "") != _verdict(row, "_without_heaviest") for row in both)
    if both:
        text += f"; without the heaviest {both[0]['groups']} {turned} read differently"
    return text + "."


def _verdict(row: Row, end: str) -> int:
    if row[f"tie{end}"]:
        return 0
    return 1 if row[f"difference{end}"] > 0 else -1
