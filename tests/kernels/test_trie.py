"""The prefix tree and its owners against sets of whole prefixes."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from servescope.kernels.owners import Owners
from servescope.kernels.trie import SMALLEST, Trie, shared_depths
from tests.reference import prefix as slow

IDS = st.sampled_from((0, 1, 2, 3, 2**63, 2**64 - 1))
PROMPTS = st.lists(st.tuples(st.integers(-1, 2), st.lists(IDS, max_size=6)), max_size=20)


def arrays(prompts: list[tuple[int, list[int]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scopes = np.array([scope for scope, _ in prompts], np.int64)
    offsets = np.cumsum([0, *(len(blocks) for _, blocks in prompts)]).astype(np.int64)
    return scopes, offsets, np.array([b for _, blocks in prompts for b in blocks], np.uint64)


@given(PROMPTS, st.integers(0, 20))
def test_tree_and_set_find_what_was_there(prompts: list[tuple[int, list[int]]], cut: int) -> None:
    tree, flat, slower = Trie(), Trie(flat=True), slow.Prefixes()
    expected = [slower.insert(scope, blocks) for scope, blocks in prompts]
    leading, anywhere = [], []
    for piece in (prompts[:cut], prompts[cut:]):
        leading += tree.insert(*arrays(piece)).found.tolist()
        anywhere += flat.insert(*arrays(piece)).found.tolist()
    assert leading == [a for a, _ in expected]
    assert anywhere == [b for _, b in expected]
    assert tree.used == len(slower.prefixes)
    assert flat.used == len(slower.ids)


@given(PROMPTS)
def test_nodes_tell_which_blocks_were_there(prompts: list[tuple[int, list[int]]]) -> None:
    scopes, offsets, values = arrays(prompts)
    for trie in (Trie(), Trie(flat=True)):
        got = trie.insert(scopes, offsets, values)
        was = got.nodes < np.repeat(got.before, np.diff(offsets))
        sums = [int(was[a:b].sum()) for a, b in itertools.pairwise(offsets)]
        assert sums == got.found.tolist()
        assert np.array_equal(trie.blocks[got.nodes], values)


@given(PROMPTS)
def test_skipping_a_prefix_changes_nothing_but_the_count(prompts: list[tuple[int, list[int]]]) -> None:
    scopes, offsets, values = arrays(prompts)
    leading = Trie().insert(scopes, offsets, values).found
    whole, rest = Trie(flat=True), Trie(flat=True)
    expected = whole.insert(scopes, offsets, values).found
    assert np.array_equal(leading + rest.insert(scopes, offsets, values, leading).found, expected)
    assert rest.used == whole.used


@given(PROMPTS, st.randoms(use_true_random=False))
def test_owners_equal_a_tree_of_each_group(prompts: list[tuple[int, list[int]]], random: object) -> None:
    groups = [random.choice((-3, 0, 1, 2, 10**15)) for _ in prompts]  # type: ignore[attr-defined]
    scopes, offsets, values = arrays(prompts)
    tree, owners, slower = Trie(), Owners(), slow.Prefixes()
    nodes = tree.insert(scopes, offsets, values).nodes
    found = owners.visit(tree, np.array(groups, np.int64), offsets, nodes)
    expected = [
        slower.insert((group, scope), blocks)[0] if group >= 0 else 0
        for group, (scope, blocks) in zip(groups, prompts, strict=True)
    ]
    assert found.tolist() == expected


@given(PROMPTS)
def test_shared_depths(prompts: list[tuple[int, list[int]]]) -> None:
    scopes, offsets, values = arrays(prompts)
    tree = Trie()
    nodes = tree.insert(scopes, offsets, values).nodes
    ends = [int(nodes[b - 1]) if b > a else -1 for a, b in itertools.pairwise(offsets)]
    pairs = [(i, j) for i in range(len(prompts)) for j in range(len(prompts))]
    first, second = (np.array([ends[p[at]] for p in pairs], np.int64) for at in (0, 1))
    expected = [
        slow.shared(prompts[i][1], prompts[j][1]) if prompts[i][0] == prompts[j][0] else 0 for i, j in pairs
    ]
    assert shared_depths(tree.parents, tree.depths, first, second).tolist() == expected


def test_growth_far_beyond_the_first_arrays() -> None:
    rng = np.random.default_rng(7)
    length = 3 * SMALLEST
    long = rng.integers(0, 2**63, length).astype(np.uint64)
    groups = np.array([0, 1, 0, 1])
    offsets = np.arange(5, dtype=np.int64) * length
    values = np.concatenate([long, long, long, long[::-1]])
    tree, owners = Trie(), Owners()
    got = tree.insert(np.full(4, -1, np.int64), offsets, values)
    assert got.found.tolist() == [0, length, length, 0]
    assert tree.used == 2 * length
    assert int(tree.depths[: tree.used].max()) == length
    assert owners.visit(tree, groups, offsets, got.nodes).tolist() == [0, 0, length, 0]
