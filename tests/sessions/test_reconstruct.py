"""The published rule against plain Python: links, options, who takes part, memory or files, any buckets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from servescope import schema
from servescope.errors import UsageError
from servescope.sessions.links import Links, SessionOptions, session_links
from servescope.sessions.reconstruct import paper_links
from servescope.trace import Origin, Trace
from tests.reference.reconstruction import chains, takes_part
from tests.traces import build, rows_of

TEXTS = {
    "model": ["m0", "m1", None],
    "user": ["u0", "u1", "u2", None],
    "instance": ["i0", "i1", None],
    "endpoint": ["chat", "chat_stream", "completion", "embed", None],
}
SHARES = {"model": [8, 3, 1], "user": [8, 4, 2, 1], "instance": [8, 8, 1], "endpoint": [8, 4, 2, 1, 1]}


def drawn(seed: int, *, held: tuple[str, ...] | None = None) -> Trace:
    """A small random trace of few lengths, so that many candidates fit, and fit equally well."""
    random = np.random.default_rng(seed)
    rows = int(random.integers(1, 80))
    held = tuple(name for name in TEXTS if random.random() < 0.8) if held is None else held
    arrival = np.cumsum(random.choice([0, 0, 1, 500_000, 30_000_000], rows))
    columns: dict[str, Any] = {"arrival_us": (arrival - arrival[0]).tolist()}
    for name in held:
        shares = np.array(SHARES[name]) / sum(SHARES[name])
        columns[name] = [TEXTS[name][at] for at in random.choice(len(shares), rows, p=shares)]
    top = int(random.integers(3, 40))
    columns["input_tokens"] = [None if x == 1 else int(x) for x in random.integers(0, top, rows)]
    columns["output_tokens"] = [None if x == 4 else int(x) for x in random.integers(0, 5, rows)]
    ends = (arrival - arrival[0] + random.integers(-5, 1_000_000, rows)).tolist()
    columns["completed_us"] = [None if x % 7 == 0 else x for x in ends]
    cuts = tuple(int(x) for x in random.integers(0, rows, 2) if x)
    return build(columns, cuts=cuts, origin=Origin("nominal", 0))


def by_request(links: Links) -> dict[int, dict[str, int]]:
    """Links of the rows that take part, as the slow twin gives them."""
    names = ("session", "parent", "turn", "prefix_tokens", "candidates")
    rows = np.flatnonzero(links.turn > 0).tolist()
    return {row: {name: int(getattr(links, name)[row]) for name in names} for row in rows}


def expected(trace: Trace, options: SessionOptions) -> dict[int, dict[str, int]]:
    held = set(trace.meta.columns)
    rows = [row for row in rows_of(trace) if takes_part(row, held)]
    gap = None if options.max_gap_s is None else round(options.max_gap_s * 1e6)
    return chains(
        rows,
        look_back=options.look_back,
        parent_completed=options.parent_completed,
        max_gap_us=gap,
        unique=options.unique,
    )


@pytest.mark.parametrize("part", range(4))
def test_links_are_those_of_plain_python(part: int) -> None:
    linked = several = 0
    for seed in range(part * 300, part * 300 + 300):
        random = np.random.default_rng([seed, 1])
        options = SessionOptions(
            rule="paper",
            look_back=int(random.choice([1, 2, 3, 5, 10, 10, 30])),
            parent_completed=bool(random.random() < 0.25),
            max_gap_s=float(random.choice([0, 0.5, 31])) if random.random() < 0.25 else None,
            unique=bool(random.random() < 0.25),
        )
        trace = drawn(seed)
        found = by_request(session_links(trace, options, threads=1))
        assert found == expected(trace, options), seed
        linked += sum(link["parent"] >= 0 for link in found.values())
        several += sum(link["candidates"] > 1 for link in found.values())
    assert linked > 1_000 and several > 200


def test_a_long_trace_of_few_users_fills_rings_and_tables() -> None:
    random = np.random.default_rng(3)
    rows = 60_000
    columns = {
        "arrival_us": np.sort(random.integers(0, 10**9, rows) // 10 * 10),
        "user": [f"u{x}" for x in random.zipf(1.2, rows) % 5_000],
        "endpoint": [("chat", "chat_stream")[x] for x in random.integers(0, 2, rows)],
        "input_tokens": random.integers(0, 3_000, rows).tolist(),
        "output_tokens": random.integers(0, 300, rows).tolist(),
    }
    columns["arrival_us"] = (columns["arrival_us"] - columns["arrival_us"][0]).tolist()
    trace = build(columns, cuts=(7, 20_000, 40_000))
    options = SessionOptions(rule="paper")
    assert by_request(session_links(trace, options)) == expected(trace, options)


@pytest.mark.parametrize("files", [False, True])
@pytest.mark.parametrize("buckets", [1, 3, 8])
@pytest.mark.parametrize("threads", [1, 2])
def test_links_do_not_depend_on_how_they_are_made(files: bool, buckets: int, threads: int) -> None:
    for seed in range(8):
        trace = drawn(seed)
        plain = session_links(trace, SessionOptions(rule="paper"), threads=1)
        other = paper_links(trace, SessionOptions(), files=files, buckets=buckets, threads=threads)
        for name in ("session", "parent", "turn", "prefix_tokens", "candidates"):
            assert np.array_equal(getattr(plain, name), getattr(other, name)), name


def test_links_through_ray_are_the_same() -> None:
    pytest.importorskip("ray")
    trace = drawn(5)
    plain = session_links(trace, SessionOptions(rule="paper"), threads=1)
    other = paper_links(trace, SessionOptions(), engine="ray", buckets=2, threads=2)
    for name in ("session", "parent", "turn", "prefix_tokens", "candidates"):
        assert np.array_equal(getattr(plain, name), getattr(other, name)), name


def test_model_and_window_leave_requests_out() -> None:
    day = 86_400_000_000
    columns = {
        "arrival_us": [0, day // 2, day, 2 * day],
        "model": ["a", "b", "b", "b"],
        "input_tokens": [1, 10, 20, 30],
        "output_tokens": [1, 1, 1, 1],
    }
    trace = build(columns, origin=Origin("nominal", 1_000 * day))  # a clock that begins a day late
    whole = session_links(trace, SessionOptions(model="b"))
    assert whole.turn.tolist() == [0, 1, 2, 3]
    part = session_links(trace, SessionOptions(window_days=(1.5, 3.0)))
    assert part.session.tolist() == [-1, 1, 1, -1]
    with pytest.raises(UsageError, match='unknown model "c"'):
        session_links(trace, SessionOptions(model="c"))


def test_stated_sessions_come_before_the_rule() -> None:
    columns = {
        "arrival_us": [0, 1, 2, 3, 4],
        "session_id": [7, 7, None, 3, 7],
        "parent_id": [None, 0, None, None, None],
        "turn": [1, 2, None, 2, 4],
        "input_tokens": [5, 20, 9, 9, 30],
        "output_tokens": [3, None, 1, 1, 1],
    }
    links = session_links(build(columns))
    assert links.rule == "stated"
    assert links.session.tolist() == [0, 0, -1, 3, 0]
    assert links.parent.tolist() == [-1, 0, -1, -1, -1]
    assert links.turn.tolist() == [1, 2, 0, 2, 4]
    assert links.prefix_tokens.tolist() == [0, 8, 0, 0, 0]
    del columns["parent_id"], columns["turn"]
    links = session_links(build(columns))  # a turn continues the one before it
    assert links.parent.tolist() == [-1, 0, -1, -1, 1]
    assert links.turn.tolist() == [1, 2, 0, 1, 3]
    assert links.prefix_tokens.tolist() == [0, 8, 0, 0, 0]  # the second one's answer is unknown


@pytest.mark.parametrize(
    ("lacking", "options", "says"),
    [
        ("output_tokens", {}, "no output_tokens"),
        ("completed_us", {"parent_completed": True}, "--parent-completed needs"),
        ("model", {"model": "m0"}, "states no models"),
        ("session_id", {"rule": "stated"}, "--rule paper"),
    ],
)
def test_what_a_trace_lacks_is_said_with_a_remedy(lacking: str, options: dict[str, Any], says: str) -> None:
    trace = drawn(1, held=("user",))
    columns = [name for name in trace.meta.columns if name != lacking]
    with pytest.raises(UsageError, match=says):
        session_links(trace.with_meta(columns=columns), SessionOptions(**options))


def test_unknown_ends_are_no_parents_where_ends_are_asked_for() -> None:
    columns = {
        "arrival_us": [0, 10],
        "completed_us": [None, None],
        "input_tokens": [1, 9],
        "output_tokens": [1, 1],
    }
    trace = build(columns)
    assert session_links(trace).parent.tolist() == [-1, 0]
    assert session_links(trace, SessionOptions(parent_completed=True)).parent.tolist() == [-1, -1]


def test_extreme_token_counts_survive_packing() -> None:
    top, least = 2**31 - 1, schema.NULL_INT32 + 1
    columns = {
        "arrival_us": [0, 1, 2, 3],
        "input_tokens": [least, 0, top, top],
        "output_tokens": [least, least, top, -5],
    }
    links = session_links(build(columns))
    assert links.prefix_tokens.tolist() == [0, 2 * least, least, 0]
    assert links.parent.tolist() == [-1, 0, 1, -1]


@pytest.mark.parametrize(
    "options",
    [
        {"look_back": 0},
        {"look_back": 10**9},
        {"max_gap_s": -1.0},
        {"max_gap_s": float("inf")},
        {"max_gap_s": float("nan")},
        {"window_days": (3.0, 3.0)},
        {"window_days": (0.0, float("inf"))},
        {"window_days": (float("nan"), 1.0)},
        {"rule": "tea leaves"},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"--|unknown rule"):
        SessionOptions(**options)
