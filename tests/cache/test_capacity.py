"""Sizes of caches as people write them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.cache.capacity import Size, parse_capacities, parse_capacity, resolve
from servescope.errors import UsageError
from tests.shared import CASES, needs_cases

CASE = {"unit": "block", "whole": 200, "block_tokens": 16, "bytes_per_token": 131_072}
BLOCKS = {
    "10%": 20, "110%": 220, "4096tokens": 256, "4100tokens": 256, "8blocks": 8, "2GiB": 1024, "2GB": 953,
    "0blocks": 0,
}  # fmt: skip
REFUSED = ("0.1", "100", "-1blocks", "1.5blocks", "ten")


def one(text: str, **context: object) -> tuple[Size, list[str]]:
    sizes, notes = resolve([parse_capacity(text)], **{**CASE, **context})  # type: ignore[arg-type]
    assert len(sizes) == 1
    return sizes[0], notes


@pytest.mark.parametrize("text", BLOCKS)
def test_sizes_of_the_case(text: str) -> None:
    size, _ = one(text)
    assert size == Size(BLOCKS[text] * 16, BLOCKS[text], BLOCKS[text] * 16 * 131_072, (text,))


@needs_cases
def test_every_text_of_the_case_is_tested() -> None:
    lines = (CASES / "37-cache-size-units.txt").read_text().split()
    assert set(lines) == {*BLOCKS, *REFUSED}


def test_notes_of_the_case() -> None:
    assert one("10%")[1] == one("8blocks")[1] == one("0blocks")[1] == []
    assert one("110%")[1] == ["110% is larger than everything touched: 220 blocks, the trace has 200"]
    wide = {"whole": 5000}
    assert one("4096tokens", **wide)[1] == one("2GiB", **wide)[1] == []
    assert one("4100tokens", **wide)[1] == ["4100tokens is 256 blocks, 4 tokens left over"]
    assert one("2GB", **wide)[1] == ["2GB is 953 blocks, rounded down (1,414,144 bytes left over)"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0.1", '"0.1" has no unit: say %, tokens, blocks or bytes'),
        ("100", '"100" has no unit: say %, tokens, blocks or bytes'),
        ("-1blocks", '"-1blocks" is negative'),
        ("1.5blocks", '"1.5blocks" is not whole'),
        ("2.5tokens", '"2.5tokens" is not whole'),
        ("ten", '"ten" is no size'),
        ("", '"" is empty'),
        (" ", '" " is empty'),
        ("10%%", '"10%%" is no size'),
        ("1e3blocks", '"1e3blocks" is no size'),
        ("1_0blocks", '"1_0blocks" is no size'),
        ("٣blocks", "is no size"),
        ("2gib", "did you mean GiB?"),
        ("2Gb", "did you mean GB?"),
        ("9" * 30 + "blocks", "has too many digits"),
        ("9223372036854775808tokens", "is too large"),
        ("9223372036854775808%", None),
        ("9999PiB", "is too large"),
    ],
)
def test_other_texts_are_refused(text: str, reason: str | None) -> None:
    if reason is None:  # the share itself can be counted, what it is of cannot
        with pytest.raises(UsageError, match="more than can be counted"):
            resolve([parse_capacity(text)], unit="session", whole=10**9)
        return
    with pytest.raises(UsageError) as refused:
        parse_capacity(text)
    assert reason in str(refused.value)
    assert "--capacity" in str(refused.value)


def test_lists() -> None:
    assert [c.text for c in parse_capacities("10%, 8blocks,2 GiB")] == ["10%", "8blocks", "2 GiB"]
    assert [c.text for c in parse_capacities(["10%", "1%,2%"])] == ["10%", "1%", "2%"]
    with pytest.raises(UsageError, match="is empty"):
        parse_capacities("10%,,8blocks")


def test_decimal_and_binary_bytes() -> None:
    units = {"1B": 1, "1kB": 10**3, "1KB": 10**3, "1MB": 10**6, "1GB": 10**9, "1TB": 10**12, "1PB": 10**15}
    units |= {"1KiB": 2**10, "1MiB": 2**20, "1GiB": 2**30, "1TiB": 2**40, "1PiB": 2**50}
    for text, count in units.items():
        assert parse_capacity(text).value == count
    assert parse_capacity("1.5GiB").value == 3 * 2**29
    assert parse_capacity("0.1kB").value == 100
    assert parse_capacity("0.5%").value == Fraction(1, 200)


def test_equal_sizes_are_one_row() -> None:
    texts = parse_capacities("10%,4100tokens,20blocks,4096tokens")
    sizes, notes = resolve(texts, unit="block", whole=200, block_tokens=16)
    assert [(size.blocks, size.texts) for size in sizes] == [
        (20, ("10%", "20blocks")),
        (256, ("4100tokens", "4096tokens")),
    ]
    assert "10% and 20blocks mean the same size, 20 blocks: one row" in notes
    assert "4100tokens and 4096tokens mean the same size, 256 blocks: one row" in notes


def test_a_size_that_rounds_to_nothing_says_so() -> None:
    size, notes = one("1%", whole=50)
    assert (size.blocks, notes) == (0, ["1% rounds down to 0 blocks: no cache"])
    assert one("5tokens")[1] == ["5tokens is 0 blocks, 5 tokens left over"]


def test_sessions_count_tokens() -> None:
    context = {"unit": "session", "whole": 1000, "block_tokens": None, "bytes_per_token": None}
    assert one("12.34%", **context)[0] == Size(123, None, None, ("12.34%",))
    assert one("77tokens", **context)[0].tokens == 77
    assert one("4blocks", **{**context, "block_tokens": 16})[0] == Size(64, None, None, ("4blocks",))
    assert one("1kB", **{**context, "bytes_per_token": 3})[0] == Size(333, None, 999, ("1kB",))
    assert one("1kB", **{**context, "bytes_per_token": Fraction(7, 2)})[0].tokens == 285
    assert one("2000tokens", **context)[1] == [
        "2000tokens is larger than everything touched: 2,000 tokens, the trace has 1,000"
    ]


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=r"--kv-model NAME .* or give --bytes-per-token N"):
        one("2GB", bytes_per_token=None)
    with pytest.raises(UsageError, match=r"counts blocks, .* give --block-tokens N"):
        one("8blocks", unit="session", block_tokens=None)
    with pytest.raises(UsageError, match="needs the tokens of a block"):
        one("8blocks", block_tokens=None)
    with pytest.raises(UsageError, match="give a number above 0"):
        one("2GB", bytes_per_token=0)


TEXTS = st.one_of(
    st.decimals(0, 500, places=3).map(lambda share: f"{share}%"),
    st.integers(0, 10**12).map(lambda count: f"{count}tokens"),
    st.integers(0, 10**9).map(lambda count: f"{count}blocks"),
    st.tuples(st.decimals(0, 5000, places=2), st.sampled_from(["MB", "GB", "MiB", "GiB"])).map(
        lambda pair: f"{pair[0]}{pair[1]}"
    ),
)
RATES = st.one_of(st.integers(1, 10**7), st.fractions(Fraction(1, 4), 10**6, max_denominator=512))


@given(TEXTS, st.integers(0, 10**10), st.integers(1, 2048), RATES, st.sampled_from(["session", "block"]))
def test_a_size_is_never_more_than_was_asked(
    text: str, whole: int, block_tokens: int, rate: int | Fraction, unit: str
) -> None:
    capacity = parse_capacity(text)
    sizes, _ = resolve(
        [capacity], unit=unit, whole=whole, block_tokens=block_tokens, bytes_per_token=rate  # type: ignore[arg-type]
    )  # fmt: skip
    size = sizes[0]
    count = size.tokens if size.blocks is None else size.blocks
    grain = 1 if size.blocks is None else block_tokens
    asked = {
        "share": Fraction(capacity.value) * whole,
        "tokens": Fraction(capacity.value, grain),
        "blocks": Fraction(capacity.value * block_tokens, grain) if capacity.kind == "blocks" else 0,
        "bytes": Fraction(capacity.value) / rate / grain,
    }[capacity.kind]
    assert count <= asked < count + 1
    assert size.tokens == count * grain
    assert size.bytes is not None
    assert size.bytes <= size.tokens * rate < size.bytes + 1


@given(
    st.sampled_from(["%", "tokens", "blocks", "GB", "MiB"]),
    st.lists(st.integers(0, 10**6), min_size=2, max_size=5),
    st.integers(0, 10**6),
    st.integers(1, 512),
    RATES,
)
def test_more_is_never_less(
    unit: str, numbers: list[int], whole: int, block_tokens: int, rate: int | Fraction
) -> None:
    rising = [parse_capacity(f"{number}{unit}") for number in sorted(numbers)]
    sizes, _ = resolve(rising, unit="block", whole=whole, block_tokens=block_tokens, bytes_per_token=rate)
    blocks = [size.blocks for size in sizes]
    assert blocks == sorted(set(blocks))  # type: ignore[type-var]
    assert [text for size in sizes for text in size.texts] == [capacity.text for capacity in rising]
