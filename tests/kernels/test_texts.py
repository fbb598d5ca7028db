"""The table of texts against a dict."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.category import text_buffers
from servescope.kernels.texts import MISSING, Texts, ended

TEXTS = st.lists(st.text(alphabet="ab@é\0", max_size=20), max_size=40)


@given(st.lists(st.tuples(TEXTS, st.randoms()), max_size=4), TEXTS, st.integers(0, 3))
def test_codes_are_those_of_a_dict(
    pieces: list[tuple[list[str], object]], asked: list[str], cut: int
) -> None:
    held, slow = Texts(), dict[str, int]()
    for texts, random in pieces:
        used = np.array([random.random() < 0.7 for _ in texts], np.bool_)  # type: ignore[attr-defined]
        array = pa.array(["lead"] * cut + texts, pa.string()).slice(cut)
        codes = held.add(*text_buffers(array), used)
        for text, code, one in zip(texts, codes.tolist(), used.tolist(), strict=True):
            assert code == (slow.setdefault(text, len(slow)) if one else MISSING)
    found = held.find(*text_buffers(pa.array(asked, pa.string())))
    assert found.tolist() == [slow.get(text, MISSING) for text in asked]
    edges = held.ends.tolist()
    raw = held.data.tobytes()
    assert [raw[a:b].decode() for a, b in itertools.pairwise(edges)] == list(slow)


def test_many_texts_of_equal_starts() -> None:
    texts = [f"00000000-{i:09d}@{i % 3}" for i in range(20_000)]
    held = Texts()
    assert held.add(*text_buffers(pa.array(texts, pa.string()))).tolist() == list(range(20_000))
    assert held.find(*text_buffers(pa.array(texts[::-1], pa.string()))).tolist() == list(range(20_000))[::-1]
    assert len(held) == 20_000


@given(TEXTS, st.text(alphabet="@é0", max_size=12), st.integers(0, 3))
def test_texts_get_an_ending(texts: list[str], ending: str, cut: int) -> None:
    array = pa.array(["lead"] * cut + texts, pa.string()).slice(cut)
    data, offsets = ended(*text_buffers(array), ending.encode())
    found = pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))
    assert found.to_pylist() == [text + ending for text in texts]


def test_an_ending_that_goes_beyond_offsets_is_refused() -> None:
    with pytest.raises(OverflowError):
        ended(np.zeros(0, np.uint8), np.array([0, 2**31 - 1], np.int32), b"@")
