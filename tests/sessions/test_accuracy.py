"""Accuracy of a rule: the twin, the definitions on small traces, what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope.errors import UsageError
from servescope.sessions.accuracy import EDGES, accuracy, accuracy_notes, deal
from servescope.sessions.accuracy_counts import compare, link_counts, read_facts, session_counts
from servescope.sessions.links import Links, SessionOptions
from tests.reference import accuracy as twin
from tests.traces import build, rows_of

if TYPE_CHECKING:
    from servescope.trace import Trace

SHARES = {"exact_parent_share": "exact", "purity": "pure", "completeness": "complete"}


@st.composite
def forests(draw: st.DrawFn, rows: int) -> list[twin.Link]:
    """Sessions, parents, turns and prefix tokens of rows; some take no part."""
    found: list[twin.Link] = []
    for at in range(rows):
        inside = [i for i in range(at) if found[i][0] >= 0]
        choice = draw(st.sampled_from([-2, -1, -1, *inside, *inside[-2:]]))
        if choice == -2:
            found.append((-1, -1, 0, 0))
        elif choice == -1:
            found.append((at, -1, 1, 0))
        else:
            tokens = draw(st.sampled_from((0, 5, 30)))
            found.append((found[choice][0], choice, found[choice][2] + 1, tokens))
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[Trace, list[twin.Link], list[twin.Link]]:
    rows = draw(st.integers(1, 14))

    def column(*items: Any) -> list[Any]:
        return draw(st.lists(st.sampled_from(items), min_size=rows, max_size=rows))

    columns: dict[str, list[Any]] = {
        "arrival_us": np.cumsum(column(0, 1, 2_000_000)).tolist(),
        "user": column("u", "v", None),
        "model": column("m", "m", "n"),
        "endpoint": column("chat", "chat", "completion"),
        "input_tokens": column(None, 1, 5, 10, 40),
        "output_tokens": column(None, 1, 5),
    }
    for name in draw(st.sets(st.sampled_from(("user", "model", "endpoint")))):
        del columns[name]
    return build(columns), draw(forests(rows)), draw(forests(rows))


def links_of(rows: list[twin.Link], rule: str = "paper") -> Links:
    """The same as arrays."""
    session, parent, turn, tokens = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    return Links(session, parent, turn.astype(np.int32), tokens, np.zeros(len(rows), np.int32), rule)


@settings(max_examples=200)
@given(cases())
def test_twin(case: tuple[Trace, list[twin.Link], list[twin.Link]]) -> None:
    trace, rule, truth = case
    found = compare(links_of(rule), links_of(truth), read_facts(trace))
    rows = rows_of(trace)
    expected = twin.measure(rows, rule, truth)
    got = {**link_counts(found), **session_counts(found)}
    n = len(found.rows)
    for name, value in got.items():
        if name in expected and name not in SHARES:
            assert value == expected[name], name
    for name, counted in SHARES.items():
        assert got[name] == (expected.get(counted, 0) / n if n else None), name
    assert got["recall_ceiling"] == (expected["findable"] / got["links_true"] if got["links_true"] else None)
    whole = expected.get("reuse_tokens_true", 0)
    assert got["reuse_token_error"] == (expected["error"] / whole if whole else None)
    part = [a[0] >= 0 and b[0] >= 0 for a, b in zip(rule, truth, strict=True)]
    sessions = [link[0] if part[at] else -1 for at, link in enumerate(truth)]
    assert found.active.tolist() == [a for a, p in zip(twin.active(rows, sessions), part, strict=True) if p]
    for at, (row, parent) in enumerate(zip(found.rows.tolist(), found.true_parent.tolist(), strict=True)):
        wanted = twin.distance(rows, part, row, parent) if parent >= 0 else -1
        assert found.distance[at] == wanted


# two chains of one user that take turns, the longer one first: 100, 10, 120, 20, 140, 30
INTERLEAVED: dict[str, list[Any]] = {
    "arrival_us": [1_000_000 * at for at in range(6)],
    "user": ["u"] * 6,
    "input_tokens": [100, 10, 120, 20, 140, 30],
    "output_tokens": [5] * 6,
    "session_id": [0, 1, 0, 1, 0, 1],
    "parent_id": [None, None, 0, 1, 2, 3],
    "turn": [1, 1, 2, 2, 3, 3],
}


def rows_by_name(trace: Trace, *args: Any, **options: Any) -> dict[str, list[dict[str, Any]]]:
    """The tables' rows."""
    return {table.name: table.rows() for table in accuracy(trace, *args, **options)}


def test_look_back_decides() -> None:
    tables = rows_by_name(build(INTERLEAVED), look_backs=(1, 2))
    one, two = tables["accuracy_look_back"]
    assert (two["links_right"], two["precision"], two["recall"], two["purity"]) == (4, 1.0, 1.0, 1.0)
    assert (two["reuse_tokens_true"], two["reuse_token_error"]) == (105 + 15 + 125 + 25, 0.0)
    # with one request to look back 120 and 140 continue 10 and 20
    assert (one["links_rule"], one["links_right"], one["recall"], one["merges"]) == (2, 0, 0.0, 2)
    assert one["reuse_tokens_rule"] == 15 + 25
    assert (one["recall_ceiling"], one["active_mean"], one["sessions_equal"]) == (1.0, 10 / 6, 0)
    whole = tables["accuracy"][0]
    assert (whole["rule"], whole["truth"], whole["look_back"]) == ("paper", "stated", 10)


def test_bins_hold_all_requests() -> None:
    tables = rows_by_name(build(INTERLEAVED))
    for dimension in EDGES:
        rows = [row for row in tables["accuracy_by"] if row["dimension"] == dimension]
        assert sum(row["requests"] for row in rows) == 6
        assert sum(row["links_true"] for row in rows) == 4
    by_gap = [
        (r["low"], r["high"], r["links_true"]) for r in tables["accuracy_by"] if r["dimension"] == "gap_s"
    ]
    assert by_gap == [(None, None, 0), (1, 3, 4)]


def test_dealing_sessions_to_users_separates_them() -> None:
    columns = {name: values for name, values in INTERLEAVED.items() if name != "user"}
    trace = build(columns, cuts=(2, 5))
    assert "no users" in accuracy_notes(trace)[0]
    rows = rows_by_name(trace, look_backs=(1,), users=(1, 64))["accuracy_users"]
    assert [(row["users"], row["links_right"]) for row in rows] == [(1, 0), (64, 4)]
    dealt = [deal(trace, np.array(columns["session_id"]), 64, seed=3) for _ in range(2)]
    users = [[row["user"] for row in rows_of(one)] for one in dealt]
    assert users[0] == users[1] and len(set(users[0])) == 2
    assert not trace.has("user") and dealt[0].has("user")


def test_refusals() -> None:
    plain = build({name: INTERLEAVED[name] for name in ("arrival_us", "input_tokens", "output_tokens")})
    with pytest.raises(UsageError, match="needs stated sessions"):
        accuracy(plain)
    with pytest.raises(UsageError, match="needs block ids"):
        accuracy(plain, truth="blocks")
    with pytest.raises(UsageError, match="against itself"):
        accuracy(build(INTERLEAVED), SessionOptions(rule="stated"))
    with pytest.raises(UsageError, match="unknown truth"):
        accuracy(plain, truth="guessed")


def test_the_rule_of_blocks_is_measured_too() -> None:
    blocks = [[1, 2], [7], [1, 2, 3], [7, 8], [1, 2, 3, 4], [7, 9]]
    trace = build({**INTERLEAVED, "block_ids": blocks})
    row = rows_by_name(trace, SessionOptions(rule="blocks"))["accuracy"][0]
    # the last prompt shares [7] with the first of its chain, not with the one before
    assert (row["rule"], row["look_back"], row["links_rule"], row["links_right"]) == ("blocks", None, 4, 3)
    assert (row["same_session_share"], row["purity"], row["sessions_equal"]) == (1.0, 1.0, 2)
    row = rows_by_name(trace, truth="blocks")["accuracy"][0]
    assert (row["rule"], row["truth"], row["links_true"], row["links_right"]) == ("paper", "blocks", 4, 3)
    assert "whole blocks" in accuracy_notes(trace, rule="blocks")[0]
    assert accuracy_notes(trace) == []
