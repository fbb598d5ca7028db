"""The one error handler: exit codes, one message on stderr, nothing on stdout, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from servescope import opening
from servescope.errors import EndpointError, VoidResultError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]

HEAVY = ("numba", "pyarrow", "numpy", "altair", "duckdb", "rich")


def shell(*arguments: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    """`servescope ARGUMENTS…` in a process of its own."""
    call = [sys.executable, "-c", "from servescope.cli import main; main()", *arguments]
    return subprocess.run(call, capture_output=True, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


def only_sources(folder: Path) -> bool:
    """Whether a folder holds nothing but the test's own inputs, hidden files included."""
    return all(path.suffix == ".jsonl" for path in folder.iterdir())


def test_help_is_fast_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from servescope.cli import run; run(['--help'], {}); "
        f"print('loaded', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    spent = []
    for _ in range(5):
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        spent.append(time.perf_counter() - begin)
        assert "loaded []" in done.stdout
    assert min(spent) < 0.3


@pytest.mark.parametrize("command", ["report", "demo", "views", "info", "check", "convert", "export"])
def test_each_command_has_help_with_an_example(servescope: Call, command: str) -> None:
    done = servescope(command, "--help")
    assert done.code == 0
    assert f"Example: servescope {command}" in done.out


def test_version(servescope: Call) -> None:
    from servescope import __version__

    done = servescope("--version")
    assert (done.code, done.out) == (0, f"servescope {__version__}\n")


def test_no_command_shows_the_help(servescope: Call) -> None:
    done = servescope()
    assert done.code in (0, 2)
    assert "Commands:" in done.out + done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bogus"], "No such command"),
        (["info"], "Missing argument"),
        (["info", "{trace}", "--nonsense"], "No such option"),
        (["info", "{trace}", "--on-bad-row", "maybe"], "--on-bad-row"),
        (["info", "{trace}", "--block-tokens", "0"], "--block-tokens"),
        (["info", "{trace}", "--block-tokens", "many"], "--block-tokens"),
        (["info", "{trace}", "--format", "mooncaek"], "Did you mean mooncake?"),
        (["info", "{trace}", "--map", "arrival"], "FIELD=COLUMN"),
        (["info", "{folder}/absent.jsonl"], "no such file"),
        (["convert", "{trace}"], "Missing option"),
        (["convert", "{trace}", "-o", "{folder}"], "a folder stands there"),
        (["convert", "{trace}", "-o", "{trace}/x.parquet"], "is a file"),
        (["convert", "{trace}", "-o", "/dev/null"], "not a regular file"),
        (["convert", "{trace}", "-o", "{folder}", "--shard-rows", "9"], "holds other files"),
        (["report", "{trace}"], "-o DIR"),
        (["report", "-o", "{folder}/out"], "no trace given"),
        (["report", "{trace}", "--from", "{folder}"], "--from"),
        (["report", "{trace}", "-o", "{folder}"], "holds other files"),
        (["report", "{trace}", "-o", "."], "current folder"),
    ],
)
def test_wrong_usage_is_exit_2(servescope: Call, trace: Path, arguments: list[str], says: str) -> None:
    done = servescope(*(text.format(trace=trace, folder=trace.parent) for text in arguments))
    assert done.code == 2
    assert says in done.err
    assert done.out == ""
    assert "Traceback" not in done.err
    assert only_sources(trace.parent)


def test_bad_data_is_exit_3_and_leaves_no_output(servescope: Call, bad_trace: Path) -> None:
    out = bad_trace.with_name("out.parquet")
    done = servescope("convert", bad_trace, "-o", out, "--json")
    assert (done.code, done.out) == (3, "")
    assert f"{bad_trace}:3: " in done.err
    assert "invalid JSON" in done.err
    assert len(done.err.splitlines()) == 1
    assert only_sources(bad_trace.parent)


def test_an_empty_file_is_no_trace(servescope: Call, tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.touch()
    done = servescope("info", empty)
    assert (done.code, done.out) == (3, "")
    assert "empty" in done.err
    assert servescope("info", empty, "--format", "mooncake").code == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_wrong_usage(servescope: Call, trace: Path) -> None:
    trace.chmod(0)
    done = servescope("info", trace)
    assert done.code == 2
    assert "no permission" in done.err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (EndpointError("the endpoint is away"), 4, "the endpoint is away"),
        (VoidResultError("late"), 5, "late"),
        (OSError(28, "No space left on device", "big.parquet"), 3, "big.parquet: No space left on device"),
        (PermissionError(13, "Permission denied", "x"), 2, "x: Permission denied"),
        (MemoryError(), 1, "unexpected MemoryError"),
        (
            ZeroDivisionError("division by zero\nsecond line"),
            1,
            "unexpected ZeroDivisionError: division by zero.",
        ),
    ],
)
def test_every_error_becomes_one_line_and_its_code(
    servescope: Call, trace: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, says: str
) -> None:
    def fail(*sources: str, **options: object) -> None:
        raise error

    monkeypatch.setattr(opening, "read_trace", fail)
    done = servescope("info", trace)
    assert (done.code, done.out) == (code, "")
    assert says in done.err
    assert len(done.err.splitlines()) == 1


def test_debug_shows_the_traceback_of_an_unexpected_error(
    servescope: Call, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "read_trace", lambda *sources, **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        servescope("--debug", "info", trace)


def test_a_closed_pipe_is_no_error(trace: Path) -> None:
    call = f"{sys.executable} -c 'from servescope.cli import main; main()' check {trace} --json"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {call} | true"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_standard_input_and_output(trace: Path) -> None:
    done = shell("check", "-", "--json", input=trace.read_bytes())
    assert done.returncode == 0
    document = json.loads(done.stdout)
    assert document["inputs"]["sources"][0]["name"] == "-"
    assert document["ledger"]["kept"] == 40
    assert done.stderr == b""


def test_progress_is_shown_on_a_terminal_only(trace: Path) -> None:
    out = str(trace.with_name("out.parquet"))
    assert shell("convert", str(trace), "-o", out).stderr == b""
    ours, its = os.openpty()
    call = [sys.executable, "-c", "from servescope.cli import main; main()", "convert", str(trace), "-o", out]
    with os.fdopen(its, "wb") as terminal:
        done = subprocess.run(call, stdout=subprocess.PIPE, stderr=terminal, timeout=60, check=True)
    shown = os.read(ours, 1 << 16)
    os.close(ours)
    assert b"reading" in shown and b"writing" in shown
    assert b"reading" not in done.stdout.split(b"\n")[0]


@pytest.mark.parametrize("arguments", [["convert"], ["export", "--to", "csv"], ["report"], ["views"]])
def test_a_wrong_place_is_refused_before_hours_of_reading(
    servescope: Call, trace: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    def late(*sources: str, **options: object) -> None:
        raise AssertionError("read before the place was checked")

    monkeypatch.setattr(opening, "read_trace", late)
    done = servescope(arguments[0], trace, *arguments[1:], "-o", trace / "inside")
    assert done.code == 2
    assert "is a file" in done.err
