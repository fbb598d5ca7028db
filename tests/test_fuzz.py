"""Mutated inputs of every format: a ServescopeError or a whole trace, never anything else, never late."""

from __future__ import annotations

import random
import re
import signal
from typing import TYPE_CHECKING

import pytest

from servescope import api, formats
from servescope.errors import ServescopeError
from tests.format_samples import FormatSample, format_samples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import FrameType

SEED = 10
LIMIT_S = 10.0
YEAR_S = 366 * 86_400
QUICK, THOROUGH = 300, 10_000
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
NUMBERS = (
    *b'0 -1 -0 1.5 1e3 1e309 -1e309 NaN nan Infinity null true "7" [] {} 0x10 1_000'.split(),
    *b"2147483648 -2147483649 9223372036854775807 9223372036854775808 18446744073709551616".split(),
    b"",
    b"1" + b"0" * 40,
    b"1" + b"0" * 400,
    b"\xc2\xb2",  # a superscript two, a digit to some parsers
)
PIECES = (
    *rb'" \ \ud800 { } [ ] , ; PAR1 BZh 9999-12-31T23:59:59 0000-00-00T00:00:00'.split(),
    *b"\0 \r \n \r\n\r\n".split(b" "),
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xe2\x80\xa8",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"[" * 3000,
    b'{"a":' * 3000,
    b"2023-02-30 25:61:61+99:99",
)


def flip_bytes(chance: random.Random, data: bytearray) -> None:
    """Change one to eight bytes."""
    for _ in range(chance.randint(1, 8)):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)


def cut(chance: random.Random, data: bytearray) -> None:
    """Lose a piece: the end, the start, or something between."""
    low = chance.randrange(len(data) + 1)
    high = len(data) if chance.random() < 0.5 else min(len(data), low + chance.randint(1, 80))
    del data[low:high]


def cut_lines(chance: random.Random, data: bytearray) -> None:
    """Cut, lose, double or swap lines."""
    lines = bytes(data).split(b"\n")
    index, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    what = chance.randrange(4)
    if what == 0:
        lines[index] = lines[index][: chance.randrange(len(lines[index]) + 1)]
    elif what == 1:
        del lines[index]
    elif what == 2:
        lines.insert(index, lines[other])
    else:
        lines[index], lines[other] = lines[other], lines[index]
    data[:] = b"\n".join(lines)


def blow_up_numbers(chance: random.Random, data: bytearray) -> None:
    """Replace one to three numbers by odd ones."""
    for _ in range(chance.randint(1, 3)):
        found = list(NUMBER.finditer(bytes(data)))
        if found:
            low, high = chance.choice(found).span()
            data[low:high] = chance.choice(NUMBERS)


def insert_piece(chance: random.Random, data: bytearray) -> None:
    """Put something odd somewhere."""
    place = chance.randrange(len(data) + 1)
    data[place:place] = chance.choice(PIECES)


MUTATIONS: tuple[Callable[[random.Random, bytearray], None], ...] = (
    flip_bytes,
    cut,
    cut_lines,
    blow_up_numbers,
    insert_piece,
)


def mutate(chance: random.Random, source: FormatSample, folder: Path) -> Path:
    """A mutated copy of a source; of a folder, one of its files is mutated."""
    files = [source.path] if source.path.is_file() else sorted(source.path.iterdir())
    target = folder / source.path.name
    if source.path.is_dir():
        target.mkdir(exist_ok=True)
    chosen = chance.choice(files)
    for file in files:
        data = bytearray(file.read_bytes())
        if file is chosen:
            for _ in range(chance.choice((1, 1, 1, 2, 4))):
                chance.choice(MUTATIONS)(chance, data)
        (target / file.name if source.path.is_dir() else target).write_bytes(data)
    return target


def too_late(number: int, frame: FrameType | None) -> None:
    """Ends a read that hangs."""
    raise TimeoutError(f"over {LIMIT_S} s")


def attempt(chance: random.Random, source: FormatSample, folder: Path) -> bool:
    """Read and convert one mutated input; whether it was still readable. Checks what is left behind."""
    path = mutate(chance, source, folder)
    out = folder / "out.parquet"
    options = {**source.options, "on_bad_row": chance.choice(("strict", "skip"))}
    if chance.random() < 0.5:
        options["format"] = source.format
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        trace = api.read(path, **options)
        api.convert(trace, out=out)
        span_s = api.info(trace)["facts"].rows()[0]["span_s"] or 0
        if span_s < YEAR_S and chance.random() < 0.1:  # a longer span has millions of windows, and takes long
            api.views(trace)
    except ServescopeError as error:
        assert str(error)
        assert not out.exists()
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert [entry.name for entry in folder.iterdir() if entry.name.startswith(".")] == []
    assert trace.meta.ledger.balanced()
    assert api.info(out)["facts"].rows()[0]["requests"] == trace.rows
    out.unlink()
    return True


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[FormatSample]:
    return format_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture(autouse=True)
def _alarm() -> object:
    before = signal.signal(signal.SIGALRM, too_late)
    yield
    signal.signal(signal.SIGALRM, before)


def test_there_is_a_sample_of_every_format_and_it_reads(samples: list[FormatSample]) -> None:
    assert {sample.format for sample in samples} == set(formats.FORMATS)
    for sample in samples:
        if sample.reads:
            trace = api.read(sample.path, **sample.options)
            assert trace.meta.format in (sample.format, "bailian" if sample.format == "canonical" else "")
            assert trace.rows >= 2 and not trace.meta.ledger.dropped


@pytest.mark.parametrize("name", formats.FORMATS)
def test_few_mutations(samples: list[FormatSample], tmp_path: Path, name: str) -> None:
    fuzz(samples, tmp_path, name, QUICK // len(formats.FORMATS))


@pytest.mark.slow
@pytest.mark.parametrize("name", formats.FORMATS)
def test_many_mutations(samples: list[FormatSample], tmp_path: Path, name: str) -> None:
    fuzz(samples, tmp_path, name, -(-THOROUGH // len(formats.FORMATS)))


def fuzz(samples: list[FormatSample], folder: Path, name: str, count: int) -> None:
    """`count` mutated inputs of one format; the failing one is named by its number."""
    mine = [sample for sample in samples if sample.format == name]
    refused = 0
    for index in range(count):
        place = folder / str(index)
        place.mkdir()
        try:
            refused += not attempt(random.Random(f"{SEED} {name} {index}"), mine[index % len(mine)], place)
        except Exception as error:
            raise AssertionError(f"{name} {index}: {type(error).__name__}: {error}") from error
    assert refused > 0
