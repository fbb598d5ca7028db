"""ServeGen pools: case 20, exact places of faults, draws, and the real pools."""

from __future__ import annotations

import json
import math
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

from servescope.errors import DataError, UsageError
from servescope.formats.servegen import draw, read_pool
from servescope.formats.servegen_facts import pool_facts
from servescope.formats.servegen_files import FAMILIES
from tests.formats.reading import read
from tests.shared import CASES, DATA, needs_cases, needs_data

if TYPE_CHECKING:
    from pathlib import Path

CASE = CASES / "20-servegen-empty-windows"
LINES = "0,0.5,1.2,Gamma,0.69,2.88\n600,0,0,,0,0\n"
SETS = {"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{4: 1.0}"}}


def pool_of(folder: Path, lines: str = LINES, sets: object = SETS) -> Path:
    """A pool of one client, number 7."""
    folder.mkdir(exist_ok=True)
    (folder / "chunk-7-trace.csv").write_text(lines)
    text = sets if isinstance(sets, str) else json.dumps(sets)
    (folder / "chunk-7-dataset.json").write_text(text)
    return folder


@needs_cases
def test_a_busy_window_without_lengths_is_an_error() -> None:
    with pytest.raises(DataError) as caught:
        read_pool(CASE)
    message = str(caught.value)
    assert "chunk-7-dataset.json" in message and "window 1200" in message
    assert 'field "input_tokens": empty, but the rate is 0.25' in message


@needs_cases
def test_probabilities_must_sum_to_one(tmp_path: Path) -> None:
    folder = shutil.copytree(CASE, tmp_path / "pool")
    _without(folder, ["1200"])
    with pytest.raises(
        DataError, match=r'window 1800, field "output_tokens": probabilities sum to 1\.001, not 1'
    ):
        read_pool(folder)


@needs_cases
def test_the_rest_loads_and_draws(tmp_path: Path) -> None:
    folder = shutil.copytree(CASE, tmp_path / "pool")
    _without(folder, ["1200", "1800"])
    pool = read_pool(folder)
    assert pool.clients == [7] and pool.start_s.tolist() == [0, 600] and pool.rate.tolist() == [0.5, 0]
    drawn = draw(pool, 7, 0, 500, seed=3)
    assert set(drawn["input_tokens"].tolist()) == {10, 20} and set(drawn["output_tokens"].tolist()) == {4}
    assert drawn["input_tokens"].dtype == np.int64
    again = draw(pool, 7, 0, 500, seed=3)
    assert np.array_equal(drawn["input_tokens"], again["input_tokens"])
    assert not np.array_equal(drawn["input_tokens"], draw(pool, 7, 0, 500, seed=4)["input_tokens"])
    with pytest.raises(UsageError, match="input_tokens is empty"):
        draw(pool, 7, 600, 1, seed=3)


def _without(folder: Path, windows: list[str]) -> None:
    """Take windows out of both files; a copy of the case is read-only."""
    trace, sets = folder / "chunk-7-trace.csv", folder / "chunk-7-dataset.json"
    lines = [line for line in trace.read_text().splitlines() if line.split(",")[0] not in windows]
    known = {start: one for start, one in json.loads(sets.read_text()).items() if start not in windows}
    folder.chmod(0o755)
    for path, text in ((trace, "\n".join(lines)), (sets, json.dumps(known))):
        path.chmod(0o644)
        path.write_text(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("600,1,5,1,Gamma,1,1", r"trace\.csv:2: 7 fields, 6 were expected"),
        ("600,N/A,1,Gamma,1,1", r'trace\.csv:2: field "rate" is "N/A": a number of at least 0'),
        ("600,-1,1,Gamma,1,1", r'trace\.csv:2: field "rate" is "-1"'),
        ("600,inf,1,Gamma,1,1", r'trace\.csv:2: field "rate" is "inf"'),
        ("600,1_0,1,Gamma,1,1", r'trace\.csv:2: field "rate" is "1_0"'),
        ("600,1,x,Gamma,1,1", r'trace\.csv:2: field "cv" is "x"'),
        ("600,1,1,Pareto,1,1", r'trace\.csv:2: field "family" is "Pareto": known families are Gamma'),
        ("600,1,1,,1,1", r'trace\.csv:2: field "family" is "": empty, but the rate is 1'),
        (
            "600,1,1,Gamma,0,1",
            r'trace\.csv:2: field "parameter_1" is "0, 1": shape and scale must be',
        ),
        (
            "0,1,1,Gamma,1,1",
            r"trace\.csv:2: field \"window_start\" is \"0\": windows must follow",
        ),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    folder = pool_of(tmp_path / "pool", f"0,0.5,1.2,Gamma,0.69,2.88\n{line}\n")
    with pytest.raises(DataError, match=message):
        read_pool(folder)


@pytest.mark.parametrize(
    ("field", "text", "message"),
    [
        ("input_tokens", "{10: 0.5, 20: }", "is no text like"),
        ("input_tokens", "__import__('os')", "is no text like"),
        ("input_tokens", "{10: 1.0, }", "is no text like"),
        ("input_tokens", "{10: 1.0: 2}", "is no text like"),
        ("input_tokens", "{1.5: 1.0}", "whole numbers of at least 0"),
        ("input_tokens", "{-1: 1.0}", "whole numbers of at least 0"),
        ("input_tokens", "{nan: 1.0}", "whole numbers of at least 0"),
        ("output_tokens", "{1: 1.5, 2: -0.5}", "a probability is no number from 0 to 1"),
        ("output_tokens", "{1: nan}", "a probability is no number from 0 to 1"),
        ("output_tokens", "{1: 0.5, 1: 0.5}", "a value is there twice"),
        ("output_tokens", {"1": 1}, "a text like"),
        ("reason_ratio", "{1.5: 1.0}", "a ratio from 0 to 1"),
        ("colour", "{1: 1.0}", "unknown field; known are input_tokens"),
    ],
)
def test_a_wrong_distribution_is_named(tmp_path: Path, field: str, text: object, message: str) -> None:
    folder = pool_of(tmp_path / "pool", sets={"0": {**SETS["0"], field: text}})
    with pytest.raises(DataError, match=rf'dataset\.json: window 0, field "{field}": .*{message}'):
        read_pool(folder)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ("{", "invalid JSON"),
        ("[]", "an object of windows was expected"),
        ('{"0": 1}', "window 0: an object of fields was expected"),
        ('{"x": {}}', "window x: a window start in seconds"),
        ('{"0": {}, "0": {}}', '"0" is there twice'),
        ('{"0": {}}', 'window 0, field "input_tokens": missing'),
        ('{"1": {}}', "window 0: no lengths by then, but the rate is 0.5"),
    ],
)
def test_a_wrong_data_set_is_named(tmp_path: Path, sets: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_pool(pool_of(tmp_path / "pool", sets=sets))


def test_coarse_lengths_hold_until_the_next(tmp_path: Path) -> None:
    lines = "".join(f"{start},0.5,1.2,Gamma,0.69,2.88\n" for start in (0, 600, 1200, 1800))
    late = {"input_tokens": "{99: 1.0}", "output_tokens": "{1: 1.0}"}
    pool = read_pool(pool_of(tmp_path / "pool", lines, {"1200": late, **SETS}))
    firsts = [draw(pool, 7, start, 1, seed=1)["output_tokens"][0] for start in (0, 600, 1200, 1800)]
    assert firsts == [4, 4, 1, 1]


def test_a_pool_is_no_trace(tmp_path: Path) -> None:
    folder = pool_of(tmp_path / "pool")
    with pytest.raises(UsageError, match=r"a ServeGen pool of 1 clients\. A pool holds clients.*info"):
        read(folder)
    with pytest.raises(UsageError, match="the windows of one ServeGen client; its pool is the folder"):
        read(folder / "chunk-7-trace.csv")
    with pytest.raises(UsageError, match=r"no chunk-N-trace\.csv"):
        read_pool(tmp_path)


def test_unknown_clients_and_windows(tmp_path: Path) -> None:
    pool = read_pool(pool_of(tmp_path / "pool"))
    with pytest.raises(UsageError, match="no client 8"):
        draw(pool, 8, 0, 1, seed=1)
    with pytest.raises(UsageError, match="no window that starts at 5 s"):
        draw(pool, 7, 5, 1, seed=1)


@needs_data
@pytest.mark.parametrize(
    ("name", "clients", "bare", "fields"),
    [
        ("language/m-small", 43, [1, 5, 8, 11, 38], {"input_tokens", "output_tokens"}),
        ("reason/deepseek-r1", 73, [], {"input_tokens", "output_tokens", "reason_ratio"}),
        (
            "multimodal/mm-image",
            35,
            [],
            {
                *("text_tokens", "image_tokens", "audio_tokens", "video_tokens", "output_tokens"),
                *("image_count", "audio_count", "video_count"),
            },
        ),
    ],
)
def test_real_pools(name: str, clients: int, bare: list[int], fields: set[str]) -> None:
    pool = read_pool(DATA / "servegen" / name)
    assert len(pool.clients) == clients and pool.without_lengths == bare and pool.window_s == 600
    assert any("without lengths: 1, 5, 8, 11, 38" in note for note in pool.notes) == bool(bare)
    # the first parameter is the shape: it gives the variation that stands beside it
    held = pool.family == FAMILIES.index("Gamma")
    assert np.allclose(1 / np.sqrt(pool.parameters[held, 0]), pool.cv[held], rtol=1e-6)
    facts = pool_facts(pool)
    row = facts["pool"].rows()[0]
    assert row["expected_requests"] == pytest.approx(float((pool.rate * 600).sum()))
    assert {one["field"] for one in facts["pool_lengths"].rows()} == fields
    assert sum(one["active_windows"] for one in facts["pool_clients"].rows()) == row["active_windows"]
    client = next(i for i in range(clients) if i in pool.lengths and pool.rate[pool.offsets[i] :][:144].any())
    busy = pool.offsets[client] + int(np.flatnonzero(pool.rate[pool.offsets[client] :])[0])
    drawn = draw(pool, pool.clients[client], float(pool.start_s[busy]), 4_000, seed=1)
    known = pool.in_force(pool.clients[client], float(pool.start_s[busy]))
    assert set(drawn) == fields
    for field, values in drawn.items():
        spread = math.sqrt(max(known[field].values.var(), 1e-12))
        assert abs(values.mean() - known[field].mean) <= 0.2 * spread + 1e-9
        assert set(values.tolist()) <= set(known[field].values.tolist())
