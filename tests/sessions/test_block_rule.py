"""Sessions from block ids: the twin, the definition on small traces, what is left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servescope import read
from servescope.errors import UsageError
from servescope.sessions import block_rule
from servescope.sessions.block_rule import SHARED_BY, block_links
from servescope.sessions.links import Links, SessionOptions
from tests.reference.block_sessions import link
from tests.shared import DATA, needs_data
from tests.traces import build, rows_of, traces

if TYPE_CHECKING:
    from servescope.trace import Trace


def as_rows(links: Links) -> list[tuple[int, ...]]:
    """The links row by row, as the twin gives them."""
    columns = (links.session, links.parent, links.turn, links.prefix_tokens, links.candidates)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def small(*prompts: list[int] | None, **columns: list[object]) -> Trace:
    """A trace of prompts, one a second."""
    arrival = [1_000_000 * at for at in range(len(prompts))]
    return build({"arrival_us": arrival, "block_ids": list(prompts), **columns})


@settings(max_examples=150)
@given(traces(need=("block_ids",)), st.integers(1, 6), st.integers(1, 5))
def test_twin(trace: Trace, shared_by: int, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_rule, "PIECE_ROWS", piece)
        links = block_links(trace, shared_by=shared_by)
    assert as_rows(links) == link(rows_of(trace), shared_by, 16)


def test_turns_follow_the_request_that_made_the_deepest_block() -> None:
    links = block_links(small([1, 2], [1, 2, 3], [9], [1, 2, 3, 4], [1, 2, 5], None, []))
    assert links.parent.tolist() == [-1, 0, -1, 1, 0, -1, -1]
    assert links.turn.tolist() == [1, 2, 1, 3, 2, 0, 1]
    assert links.session.tolist() == [0, 0, 2, 0, 0, -1, 6]
    assert links.prefix_tokens.tolist() == [0, 32, 0, 48, 32, 0, 0]
    assert links.candidates.tolist() == [0, 1, 0, 1, 3, 0, 0]


def test_a_block_of_many_requests_is_a_template() -> None:
    prompts = [[7, 10 + at] for at in range(SHARED_BY + 2)]
    links = block_links(small(*prompts, [7, 10, 99]))
    assert links.parent.tolist() == [-1, 0, 0, 0, 0, -1, -1, 0]
    assert block_links(small(*prompts), shared_by=1).parent.tolist() == [-1] * len(prompts)


def test_nothing_crosses_a_scope_and_input_bounds_the_prefix() -> None:
    trace = small([1, 2], [1, 2], [1, 2, 3], cache_scope=["a", "b", "a"], input_tokens=[32, 32, 20])
    links = block_links(trace)
    assert links.parent.tolist() == [-1, -1, 0] and links.prefix_tokens.tolist() == [0, 0, 20]


def test_one_model_or_window() -> None:
    trace = small([1, 2], [1, 2, 3], [1, 2, 3, 4], model=["m", "n", "m"])
    links = block_links(trace, SessionOptions(model="m"))
    assert links.session.tolist() == [0, -1, 0] and links.turn.tolist() == [1, 0, 2]
    windowed = block_links(trace, SessionOptions(window_days=(1 / 86_400, 1.0)))
    assert windowed.session.tolist() == [-1, 1, 1]
    with pytest.raises(UsageError, match="unknown model"):
        block_links(trace, SessionOptions(model="x"))


def test_refusals() -> None:
    with pytest.raises(UsageError, match="needs block ids"):
        block_links(build({"arrival_us": [0]}))
    with pytest.raises(UsageError, match="shared_by is 0"):
        block_links(small([1]), shared_by=0)
    with pytest.raises(UsageError, match="no models"):
        block_links(small([1]), SessionOptions(model="x"))


@needs_data
def test_mooncake_conversation() -> None:
    links = block_links(read(DATA / "mooncake_conversation.jsonl"))
    assert (links.turn > 0).all()
    assert int((links.parent >= 0).sum()) > 3_000
    assert int(links.turn.max()) > 10
