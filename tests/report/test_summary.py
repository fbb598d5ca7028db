"""The ten lines: what each says, and what it says when its data is missing."""

from __future__ import annotations

import math

import pytest

from servescope.report import summary
from servescope.report.charts_blocks import curve_points, knee
from servescope.report.figure import number, percent
from servescope.report.saved import Saved, printable, saved_of
from servescope.report.summary import summarise
from tests.report import block_sample, sample

LABELS = ["Rows", "Span", "Load", "Tokens", "Sizes", "Types", "Sessions", "Reuse", "Users", "Limits"]


def _line(saved: Saved, label: str) -> str:
    return dict(summarise(saved))[label]


def test_there_are_always_ten_lines_in_one_order() -> None:
    assert [line.label for line in summarise(sample.saved())] == LABELS
    assert [line.label for line in summarise(Saved())] == LABELS


def test_rows_add_up_and_name_their_rules() -> None:
    assert _line(sample.saved(), "Rows") == (
        "1,100 read = 1,080 kept + 20 rejected (bad_time 15, no_number 5); repaired: sorted 2."
    )


def test_load_states_rate_peak_and_regularity() -> None:
    assert _line(sample.saved(), "Load") == (
        "0.45 requests/s; the busiest 10 s reach 0.6/s, 1.33 × the mean; "
        "CV of the gaps 1.5 (burstier than Poisson, which has 1)."
    )


def test_batched_arrivals_are_said_beside_the_gaps() -> None:
    saved = sample.saved(arrival_stats=[{"request_type": "*", "distinct_timestamps": 100}])
    assert "Only 100 distinct times" in _line(saved, "Load")
    assert "distinct times" not in _line(sample.saved(), "Load")


@pytest.mark.parametrize(
    ("read", "made", "kind"),
    [
        (1000.0, 100.0, "prefill-heavy"),
        (999.0, 100.0, "mixed"),
        (201.0, 100.0, "mixed"),
        (200.0, 100.0, "decode-heavy"),
    ],
)
def test_tokens_say_which_phase_they_weigh_on(read: float, made: float, kind: str) -> None:
    row = {"request_type": "*", "input_tokens_per_s": read, "output_tokens_per_s": made}
    line = _line(sample.saved(type_summary=[row]), "Tokens")
    assert line.startswith(f"{read:,.0f} tokens/s in, 100 tokens/s out; ")
    assert f", {kind} (" in line


def test_tokens_without_outputs_do_not_guess_the_balance() -> None:
    row = {"request_type": "*", "input_tokens_per_s": 10.0, "output_tokens_per_s": None}
    assert "10 input tokens/s; the other side is not stated" in _line(
        sample.saved(type_summary=[row]), "Tokens"
    )


def test_reuse_sets_whole_and_last_half_side_by_side_split_by_session() -> None:
    assert _line(sample.saved(), "Reuse") == (
        "ceiling with an unlimited cache: whole trace 40.0% of tokens, 40.0% of blocks "
        "(tokens: 30.0% same session, 10.0% cross session); steady state (last half) 50.0% of tokens, "
        "50.0% of blocks (tokens: 30.0% same session, 20.0% cross session)."
    )


def test_reuse_without_sessions_says_that_it_is_not_split() -> None:
    rows = sample.tables()["reuse_ceiling"].rows()
    for row in rows:
        row |= dict.fromkeys([name for name in row if name.startswith(("same", "cross"))])
    line = _line(sample.saved(reuse_ceiling=rows), "Reuse")
    assert "whole trace 40.0% of tokens, 40.0% of blocks; steady state (last half) 50.0% of tokens" in line
    assert line.endswith("the trace states no sessions.")


def test_sessions_users_and_limits() -> None:
    saved = sample.saved()
    assert _line(saved, "Sessions").startswith(
        "100 sessions; 1.9 turns in the mean, 2 in the median, 3 at P99"
    )
    assert _line(saved, "Users") == (
        "the heaviest sends 50.0% of the requests and 50.0% of the input tokens; "
        "the 3 heaviest of 9 send 85.0%."
    )
    assert _line(saved, "Limits").startswith("no daily rhythm; nothing on what ")


@pytest.mark.parametrize(
    ("label", "table", "missing"),
    [
        ("Span", "facts", "no table facts"),
        ("Load", "type_summary", "no arrival times"),
        ("Tokens", "type_summary", "no token counts"),
        ("Sizes", "type_summary", "input not stated; output not stated"),
        ("Types", "type_share", "not stated"),
        ("Sessions", "session_summary", "not stated"),
        ("Reuse", "reuse_ceiling", "no prefix blocks"),
        ("Users", "user_share", "not stated"),
        ("Limits", "limits", "no table limits"),
    ],
)
def test_a_line_without_its_table_says_what_is_missing(label: str, table: str, missing: str) -> None:
    assert missing in _line(sample.saved(without=(table,)), label)
    assert missing not in _line(sample.saved(), label)


def test_names_of_the_trace_cannot_steer_a_terminal_or_fill_a_line() -> None:
    assert printable("a\x1b[31mb\nc\u202ed") == "a\\x1b[31mb\\nc\\u202ed"
    text = " ".join(line.text for line in summarise(sample.saved()))
    assert text.isprintable()
    assert summary.shown("x" * 41) == "x" * 39 + "…"


def test_texts_of_tables_and_document_are_made_printable() -> None:
    saved = saved_of(sample.tables(), {"notes": ["a\tb"], "meta": {"sources": [{"name": "c\x07"}]}})
    assert saved.document == {"notes": ["a\\tb"], "meta": {"sources": [{"name": "c\\x07"}]}}
    assert saved.types() == ["text", printable(sample.HOSTILE)]


def test_types_are_named_with_both_shares() -> None:
    line = _line(sample.saved(), "Types")
    assert line.startswith("text 66.7% of requests (66.7% of input tokens), </script><img src=")
    rows = [{"request_type": f"t{i}", "request_share": 0.125, "input_share": None} for i in range(8)]
    assert _line(sample.saved(type_share=rows), "Types").endswith("t4 12.5% of requests; 3 more.")


def test_span_says_what_is_in_the_trace_and_what_is_not() -> None:
    assert _line(sample.saved(), "Span") == (
        "1,080 requests over 40 minutes on a clock from 0; 12 models, 9 users, instances not stated."
    )
    rows = [{**sample.tables()["facts"].rows()[0], "models": 1, "users": None}]
    assert _line(sample.saved(facts=rows), "Span").endswith("; 1 model, users and instances not stated.")


def _of_blocks(cached: float | None = None, **options: object) -> Saved:
    """A report with the tables of a sweep of blocks."""
    found, made = block_sample.saved(cached, **options), sample.saved()
    document = {**made.document, "command": "report", "notes": found.document["notes"]}
    return Saved({**made.tables, **found.tables}, document)


def test_a_report_with_prefix_blocks_says_knee_and_advice_after_its_ten_lines() -> None:
    saved = _of_blocks()
    lines = summarise(saved)
    assert [line.label for line in lines] == [*LABELS, "Knee", "Advice, chat", "Advice, api"]
    knee_at, ratio = knee(curve_points(saved, "*")[0]) or (0, 0)
    last = max(row["block_hits"] for row in saved.rows("curve")) / saved.rows("cache")[0]["block_references"]
    most = max(row["active_tokens_max"] for row in saved.rows("active_kv"))
    said = _line(saved, "Knee")
    assert said.startswith(f"LRU finds {percent(ratio)} of the blocks at {number(knee_at)} tokens, ")
    assert f"{percent(last)} of the blocks" in said
    cells = saved.rows("cache", policy="belady_bypass")
    near = min(cells, key=lambda row: abs(math.log(row["capacity_tokens"] / knee_at)))
    future = f"at {number(near['capacity_tokens'])} tokens knowing the future would find "
    assert future + percent(near["block_hit_ratio"]) in said
    assert said.endswith(f"running requests hold up to {number(most)} tokens on top.")
    share = saved.row("reuse_advice", request_type="chat")["same_session_share"]
    assert _line(saved, "Advice, chat") == (
        f"sessions carry {percent(share)} of what a cache can find: keep the turns of a session together."
    )
    assert "have shared prefixes everywhere" in _line(saved, "Advice, api")


def test_the_knee_is_in_gib_where_a_token_has_bytes() -> None:
    saved = _of_blocks(bytes_per_token=2**20)
    assert "GiB" in _line(saved, "Knee") and "tokens on top" in _line(saved, "Knee")


def test_advice_is_withheld_where_logged_hits_are_far_from_predicted_ones() -> None:
    lines = dict(summarise(_of_blocks(cached=0.1)))
    assert "advice is withheld. Likely causes:" in lines["Advice"] and "above the logged" in lines["Advice"]
    assert not [label for label in lines if label.startswith("Advice, ")]
    saved = _of_blocks(cached=0.1)
    apart = saved.row("trust", dimension="all", prediction="unlimited, engine")["difference"]
    assert f"is {apart:.3f} above" in lines["Advice"]
    near = saved.row("trust", dimension="all", prediction="unlimited, engine")["predicted_ratio"]
    assert "Advice, chat" in dict(summarise(_of_blocks(cached=round(near, 2))))


def test_the_page_of_a_sweep_has_its_own_lines() -> None:
    labels = [line.label for line in summarise(block_sample.saved())]
    assert labels == ["Rows", "Workload", "Knee", "Advice, chat", "Advice, api", "Policies", "Differences"]


def test_a_sample_says_the_knee_with_its_error() -> None:
    alone = block_sample.saved(sample=1.0, policy=(), capacity=())
    assert [line.label for line in summarise(alone)] == ["Rows", "Knee", "Advice"]
    assert "standard error" in _line(alone, "Knee") and "from a sample" in _line(alone, "Knee")
