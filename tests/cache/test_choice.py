"""What `--policy` says."""

from __future__ import annotations

import pytest

from servescope.cache.choice import BOUND, parse_choice, parse_choices
from servescope.errors import UsageError

TABLE = {"lru": "servescope.cache.policies.lru", "s3fifo": "servescope.cache.policies.s3fifo"}


def test_lists_keep_their_order_and_take_each_policy_once() -> None:
    found, notes = parse_choices(["lru, s3fifo:threshold=2", "bound,lru"], TABLE)
    assert [choice.text for choice in found] == ["lru", "s3fifo:threshold=2", BOUND]
    assert notes == ["the policy lru is named twice and run once"]
    assert found[1].parameters == (("threshold", 2),)


def test_a_default_that_is_given_is_the_same_policy() -> None:
    assert parse_choice("s3fifo:threshold=1") == parse_choice("s3fifo")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lrru", r'unknown policy "lrru". Did you mean lru\? Known: bound, lru, s3fifo\.'),
        ("", "a policy has no name"),
        ("threshold=2", '"threshold=2" is no policy'),
        ("s3fifo:treshold=2", r'no parameter "treshold". Did you mean threshold\?'),
        ("lru:size=2", 'the policy lru has no parameter "size". It has none.'),
        ("s3fifo:threshold=two", 'threshold is "two", not a number'),
        ("s3fifo:threshold", 'has a part "threshold"'),
        ("s3fifo:threshold=2:threshold=3", "gives threshold twice"),
        ("bound:x=1", 'the policy bound has no parameter "x"'),
    ],
)
def test_what_is_wrong_is_quoted_with_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_choice(text, TABLE)


def test_whole_numbers_stay_whole_where_the_default_is() -> None:
    ((_, value),) = parse_choice("s3fifo:threshold=3.0").parameters
    assert value == 3 and isinstance(value, int)
