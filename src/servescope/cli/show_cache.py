"""What a sweep of caches prints for people: findings, and hit ratios by capacity and policy."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import typer

from servescope.cli.show import print_notes, print_wrapped, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.result import Result

    Row = dict[str, Any]

RATIOS = {"token_hit_ratio": "token hit ratio", "request_hit_ratio": "request hit ratio"}
TIE = "="  # behind a ratio that ties with LRU's
FIRST, NEXT = 16, 9  # widths of the columns
SHOWN = 40


def show_cache(result: Result, folder: str | None, *, json: bool) -> None:
    """Print a sweep: one JSON document on stdout, or lines, grids and the path of the page."""
    if json:
        show(result, json=True)
        return
    from servescope.report.saved import saved_of
    from servescope.report.summary_blocks import sampled_lines
    from servescope.report.summary_cache import cache_lines

    width = shutil.get_terminal_size().columns
    saved = saved_of(result.tables, {"notes": result.notes})
    if "cache" not in result.tables:  # a sample has its curve alone
        show(result, json=False)
        typer.echo("")
        _print_lines(sampled_lines(saved), width)
        _print_page(folder)
        return
    print_notes(result, width)
    _print_lines(cache_lines(saved), width)
    rows = result["cache"].rows()
    ties = _ties(result)
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        for metric, title in RATIOS.items():
            of = "" if model == "*" else f", {model}"
            _print_grid(f"{title}{of} ({TIE} ties with lru)", own, metric, ties, width)
    if "reproduce" in result.tables:
        _print_reproduced(result["reproduce"].rows(), width)
    _print_page(folder)


def _print_lines(lines: Sequence[tuple[str, str]], width: int) -> None:
    for label, text in lines:
        print_wrapped(f"{label}: {text}", width)


def _print_page(folder: str | None) -> None:
    if folder is not None:
        typer.echo(f"\n{folder.rstrip('/')}/report.html")


def _ties(result: Result) -> set[tuple[str, str, int, str]]:
    """(model, metric, capacity, policy) of what ties with LRU."""
    if "policy_differences" not in result.tables:
        return set()
    return {
        (row["model"], row["metric"], row["capacity_tokens"], row["policy_a"])
        for row in result["policy_differences"].rows()
        if row["policy_b"] == "lru" and row["tie"]
    }


def _print_grid(
    title: str, rows: Sequence[Row], metric: str, ties: set[tuple[str, str, int, str]], width: int
) -> None:
    """Capacities downwards, policies across, as many side by side as fit."""
    from servescope.report.saved import printable

    policies = list(dict.fromkeys(row["policy"] for row in rows))
    found = {(row["policy"], row["capacity_tokens"]): row for row in rows}
    for here in _side_by_side(policies, width):
        typer.echo("\n" + printable(title))
        typer.echo("tokens".ljust(FIRST) + "".join(printable(name).rjust(wide) for name, wide in here))
        for tokens in dict.fromkeys(row["capacity_tokens"] for row in rows):
            cells = [(_cell(found.get((name, tokens)), metric, ties), wide) for name, wide in here]
            typer.echo(f"{tokens:,}".ljust(FIRST) + "".join(cell.rjust(wide) for cell, wide in cells))


def _side_by_side(policies: Sequence[str], width: int) -> list[list[tuple[str, int]]]:
    """Policies with the widths of their columns, in groups that fit beside the capacities."""
    groups: list[list[tuple[str, int]]] = []
    for name in policies:
        wide = max(NEXT, len(name) + 2)
        if not groups or FIRST + sum(other for _, other in groups[-1]) + wide > width:
            groups.append([])
        groups[-1].append((name, wide))
    return groups


def _cell(row: Row | None, metric: str, ties: set[tuple[str, str, int, str]]) -> str:
    if row is None or row[metric] is None:
        return "– "
    tied = (row["model"], metric, row["capacity_tokens"], row["policy"]) in ties
    return f"{100 * row[metric]:.2f}%{TIE if tied else ' '}"


def _print_reproduced(rows: Sequence[Row], width: int) -> None:
    """Published rows beside ours: how many agree, and the causes where they do not."""
    known = [row for row in rows if row["byte_miss_ratio_deviation"] is not None]
    agree = sum(row["cause"] == "" for row in known)
    typer.echo(f"\n{len(rows)} published rows, {len(known)} run here, {agree} agree to four decimals")
    typer.echo("workload      policy      share of set   published byte miss    ours      deviation")
    for row in known[:SHOWN]:
        typer.echo(
            f"{row['workload']:<14}{row['published_policy']:<12}{row['capacity_share']:<15.3%}"
            f"{row['published_byte_miss_ratio']:<23.4f}{row['byte_miss_ratio']:<10.4f}"
            f"{row['byte_miss_ratio_deviation']:+.4f}"
        )
    if len(known) > SHOWN:
        typer.echo(f"… {len(known) - SHOWN:,} more rows; --json or the Parquet file has all")
    causes = Counter(cause for row in rows if row["cause"] for cause in row["cause"].split("; "))
    for cause, count in causes.items():
        print_wrapped(f"cause of {count} rows: {cause}", width)
