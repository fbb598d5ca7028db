"""Several lists in one pair of arrays, against Python lists."""

from __future__ import annotations

import numpy as np
import pytest

from servescope.kernels import linked_list

ITEMS, LISTS = 12, 3


def in_order(after: linked_list.Places, root: int) -> list[int]:
    """Items of a list, the oldest first."""
    items, item = [], int(after[root])
    while item != root:
        items.append(item)
        item = int(after[item])
    return items


@pytest.mark.parametrize("seed", range(20))
def test_any_appends_and_removals_as_in_lists(seed: int) -> None:
    random = np.random.default_rng(seed)
    after, before = linked_list.rings(ITEMS, LISTS)
    lists: list[list[int]] = [[] for _ in range(LISTS)]
    for item in random.integers(0, ITEMS, 200).tolist():
        holding = [items for items in lists if item in items]
        if holding:
            linked_list.remove(after, before, item)
            holding[0].remove(item)
        else:
            into = int(random.integers(LISTS))
            linked_list.append(after, before, ITEMS + into, item)
            lists[into].append(item)
        for number, items in enumerate(lists):
            assert in_order(after, ITEMS + number) == items
            assert in_order(before, ITEMS + number) == items[::-1]
            assert linked_list.is_empty(after, ITEMS + number) == (not items)


def test_more_than_two_billion_items_are_refused() -> None:
    with pytest.raises(OverflowError, match="fewer than 2"):
        linked_list.rings(2**31 - 1, 1)
