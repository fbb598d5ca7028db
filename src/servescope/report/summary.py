"""Ten plain lines that a decision can rest on, the same on the terminal and on the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from servescope.report.figure import number, percent, time_unit
from servescope.report.saved import ALL
from servescope.report.summary_blocks import report_lines, sampled_lines
from servescope.report.summary_cache import cache_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.report.saved import Saved

PREFILL_RATIO, DECODE_RATIO = 10, 2  # input tokens to one output token
FIRST_LIMITS = ("load", "latency", "reliability", "reuse", "population")  # the first of each view is named
NAME_CHARS = 40
LISTED = 5  # types and limits that a line names before it only counts


class Line(NamedTuple):
    """One line: what it is about, and the finding or what is missing for it."""

    label: str
    text: str


def summarise(saved: Saved) -> list[Line]:
    """The ten lines, always in the same order; a line without its data says what is missing.

    Where prefix blocks were replayed, the knee and advice by type follow. A sweep of caches has lines of its
    own.
    """
    if saved.document.get("command") != "report":
        if saved.has("cache"):
            return [Line("Rows", _said(rows_line, saved)), *(Line(*line) for line in cache_lines(saved))]
        if saved.has("curve_sample"):
            return [Line("Rows", _said(rows_line, saved)), *(Line(*line) for line in sampled_lines(saved))]
    ten = [Line(label, _said(say, saved)) for label, say in LINES]
    return [*ten, *(Line(*line) for line in report_lines(saved))]


def _said(say: Callable[[Saved], str], saved: Saved) -> str:
    try:
        return say(saved)
    except KeyError as missing:  # a result of another version
        return f"not known: its table lacks a column: {missing.args[0]}."


def shown(name: str) -> str:
    """A name from the trace, cut where it would fill the line.

    >>> shown("x" * 50) == "x" * 39 + "…"
    True
    """
    return name if len(name) <= NAME_CHARS else name[: NAME_CHARS - 1] + "…"


def _rules(counts: dict[str, int]) -> str:
    return ", ".join(f"{rule} {n:,}" for rule, n in sorted(counts.items()))


def rows_line(saved: Saved) -> str:
    """Rows read = kept + rejected, by rule; rows repaired by rule."""
    ledger = saved.document.get("ledger")
    if not ledger:
        return "not known: the result has no ledger."
    dropped = ledger["dropped"]
    text = f"{ledger['read']:,} read = {ledger['kept']:,} kept + {sum(dropped.values()):,} rejected"
    text += f" ({_rules(dropped)})" if dropped else ""
    return text + (f"; repaired: {_rules(ledger['repaired'])}." if ledger["repaired"] else "; none repaired.")


def span_line(saved: Saved) -> str:
    """How long, on which clock, and what is in it."""
    facts = saved.row("facts")
    if not facts:
        return "not known: no table facts."
    kind = (saved.meta.get("origin") or {}).get("kind", "unknown")
    clock = {
        "calendar": "a calendar clock",
        "nominal": "a shifted calendar",
        "relative": "a clock from 0",
    }.get(kind)
    stated = [name for name in ("models", "users", "instances") if facts[name] is not None]
    counts = [f"{facts[name]:,} {name if facts[name] != 1 else name[:-1]}" for name in stated]
    absent = [name for name in ("models", "users", "instances") if name not in stated]
    if absent:
        counts.append(f"{' and '.join(filter(None, [', '.join(absent[:-1]), absent[-1]]))} not stated")
    if clock is None:
        return f"{facts['requests']:,} requests without arrival times; {', '.join(counts)}."
    return f"{facts['requests']:,} requests over {duration(facts['span_s'])} on {clock}; {', '.join(counts)}."


def duration(seconds: float) -> str:
    """A span in the unit in which it reads well.

    >>> duration(3537.0), duration(1.0)
    ('59 minutes', '1 second')
    """
    unit, per = time_unit(seconds)
    text = number(seconds / per)
    return f"{text} {unit if text != '1' else unit[:-1]}"


def load_line(saved: Saved) -> str:
    """Requests per second, peak to mean, regularity of the gaps."""
    row = saved.row("type_summary", request_type=ALL)
    if not row or row["requests_per_s"] is None:
        return "not known: the trace states no arrival times."
    text = f"{number(row['requests_per_s'])} requests/s"
    if row["peak_10s_per_s"] is not None:
        text += (
            f"; the busiest 10 s reach {number(row['peak_10s_per_s'])}/s, "
            f"{number(row['peak_to_mean'])} × the mean"
        )
    if row["iat_cv"] is None:
        return text + "; too few gaps for a CV."
    text += f"; CV of the gaps {number(row['iat_cv'])} ({_regularity(row['iat_cv'])})."
    stamps = saved.row("arrival_stats", request_type=ALL).get("distinct_timestamps")
    if stamps is not None and stamps * 2 < row["requests"]:
        text += f" Only {stamps:,} distinct times: arrivals come in batches, so the gaps are the recorder's."
    return text


def _regularity(cv: float) -> str:
    if cv > 1.2:
        return "burstier than Poisson, which has 1"
    return "steadier than Poisson, which has 1" if cv < 0.8 else "close to Poisson, which has 1"


def tokens_line(saved: Saved) -> str:
    """Tokens per second in and out, and which of the two phases they weigh on."""
    row = saved.row("type_summary", request_type=ALL)
    read, made = row.get("input_tokens_per_s"), row.get("output_tokens_per_s")
    if read is None and made is None:
        return "not known: the trace states no token counts, or no arrival times."
    if read is None or made is None:
        known, word = (read, "input") if made is None else (made, "output")
        return f"{number(known)} {word} tokens/s; the other side is not stated, so the balance is unknown."
    text = f"{number(read)} tokens/s in, {number(made)} tokens/s out"
    if not made:
        return text + "; nothing is generated: prefill only."
    ratio = read / made
    if ratio >= PREFILL_RATIO:
        kind = "prefill-heavy"
    else:
        kind = "decode-heavy" if ratio <= DECODE_RATIO else "mixed"
    return (
        f"{text}; {number(ratio)}:1, {kind} "
        f"(prefill from {PREFILL_RATIO}:1 on, decode up to {DECODE_RATIO}:1)."
    )


def sizes_line(saved: Saved) -> str:
    """Median and 99th percentile of prompts and answers."""
    row = saved.row("type_summary", request_type=ALL)
    texts = []
    for metric in ("input", "output"):
        middle, high = row.get(f"{metric}_p50"), row.get(f"{metric}_p99")
        if middle is None:
            texts.append(f"{metric} not stated")
        else:
            texts.append(f"{metric} median {number(middle)}, P99 {number(high)} tokens")
    return "; ".join(texts) + "."


def types_line(saved: Saved) -> str:
    """Share of requests and of input tokens by type."""
    shares = [row for row in saved.rows("type_share") if row["request_type"] is not None]
    if not shares:
        return "not stated: the trace does not tell kinds of request apart."
    texts = []
    for row in shares[:LISTED]:
        tokens = "" if row["input_share"] is None else f" ({percent(row['input_share'])} of input tokens)"
        texts.append(f"{shown(row['request_type'])} {percent(row['request_share'])} of requests{tokens}")
    more = f"; {len(shares) - LISTED} more" if len(shares) > LISTED else ""
    return ", ".join(texts) + more + "."


def sessions_line(saved: Saved) -> str:
    """Sessions and their turns."""
    row = saved.row("session_summary")
    if not row and (rebuilt := saved.row("rebuilt_summary")):
        return (
            f"not stated; rebuilt from users, lengths and order: {rebuilt['sessions']:,} sessions, "
            f"{number(rebuilt['turns_mean'])} turns in the mean, {percent(rebuilt['single_turn_fraction'])} "
            f"have a single turn, {percent(rebuilt['prefix_fraction'])} of the input tokens repeat a parent."
        )
    if not row:
        return "not stated: without sessions in the source, turns and think times are unknown here."
    text = (
        f"{row['sessions']:,} sessions; {number(row['turns_mean'])} turns in the mean, "
        f"{number(row['turns_median'])} in the median, {number(row['turns_p99'])} at P99, "
        f"{row['turns_max']:,} at most; {percent(row['single_turn_fraction'])} have a single turn"
    )
    if row.get("cut_at_start_sessions"):
        text += f"; {row['cut_at_start_sessions']:,} began before the trace"
    return text + "."


def reuse_line(saved: Saved) -> str:
    """Reuse ceiling, whole trace and last half side by side, split by session."""
    whole, half = (saved.row("reuse_ceiling", part=part) for part in ("whole", "last_half"))
    if not whole or not whole["block_references"]:
        return "not known: the trace has no prefix blocks, so its prefix reuse cannot be known."
    text = f"ceiling with an unlimited cache: whole trace {_ceiling(whole)}"
    text += f"; steady state (last half) {_ceiling(half)}" if half else "; no last half"
    if whole["same_session_blocks"] is None:
        return text + ". Not split into same and cross session: the trace states no sessions."
    return text + "."


def _ceiling(row: dict[str, Any]) -> str:
    tokens, blocks = row["token_prefix_reuse_ratio"], row["prefix_reuse_ratio"]
    text = f"{percent(blocks)} of blocks"
    if tokens is not None:
        text = f"{percent(tokens)} of tokens, {text}"
    if row["same_session_blocks"] is None:
        return text
    same, cross, total = row["same_session_tokens"], row["cross_session_tokens"], row["input_tokens"]
    unit = "tokens"
    if same is None or cross is None or not total:
        same, cross, total = row["same_session_blocks"], row["cross_session_blocks"], row["block_references"]
        unit = "blocks"
    if not total:
        return text
    return f"{text} ({unit}: {percent(same / total)} same session, {percent(cross / total)} cross session)"


def users_line(saved: Saved) -> str:
    """Share of the heaviest user."""
    ranked = {row["rank"]: row for row in saved.rows("user_share") if row["rank"] is not None}
    if 1 not in ranked:
        return "not stated: the trace does not tell users apart, so concentration and fairness are unknown."
    first = ranked[1]
    text = f"the heaviest sends {percent(first['request_share'])} of the requests"
    if first["input_share"] is not None:
        text += f" and {percent(first['input_share'])} of the input tokens"
    count = min(10, len(ranked))
    share = sum(ranked[rank]["request_share"] for rank in range(1, count + 1))
    users = saved.row("facts").get("users")
    of = f" of {users:,}" if users is not None else ""
    return f"{text}; the {count} heaviest{of} send {percent(share)}."


def limits_line(saved: Saved) -> str:
    """What the trace cannot tell."""
    if "limits" not in saved.tables:
        return "not listed: the result has no table limits."
    limits = saved.rows("limits")
    if not limits:
        return "none found from its columns and span."
    by_view: dict[str, str] = {}
    for row in limits:
        by_view.setdefault(str(row["view"]), str(row["limit"]).rstrip("."))
    order = [view for view in FIRST_LIMITS if view in by_view]
    order += [view for view in by_view if view not in FIRST_LIMITS]
    texts = [by_view[view] for view in order[:LISTED]]
    more = len(limits) - len(texts)
    return "; ".join(texts) + (f"; and {more} more, listed on the page." if more else ".")


LINES: tuple[tuple[str, Callable[[Saved], str]], ...] = (
    ("Rows", rows_line),
    ("Span", span_line),
    ("Load", load_line),
    ("Tokens", tokens_line),
    ("Sizes", sizes_line),
    ("Types", types_line),
    ("Sessions", sessions_line),
    ("Reuse", reuse_line),
    ("Users", users_line),
    ("Limits", limits_line),
)
