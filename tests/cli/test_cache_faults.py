"""What a stranger may ask of the commands of caches: one message that helps, nothing on stdout, no defect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from servescope.trace_write import write_canonical
from tests.cache.sessions import growing_trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]

HUGE = "99999999999999999999999"
ENDS = """
import sys

class Quits:
    def on_hit(self, object, size_tokens, time_us):
        pass

    def on_insert(self, object, size_tokens, time_us):
        pass

    def victim(self):
        sys.exit(0)


class Talks(Quits):
    def __init__(self):
        self.held = []

    def on_insert(self, object, size_tokens, time_us):
        print("inserted", object)
        self.held.append(object)

    def victim(self):
        return self.held.pop(0)
"""


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A canonical file of growing conversations."""
    path = tmp_path / "grown.parquet"
    write_canonical(growing_trace(300), path)
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--pin", "1e300"), "--pin is 1e+300"),
        (("--pin", "inf"), "--pin is inf"),
        (("--ttl", "1e300"), "--ttl is 1e+300"),
        (("--policy", "ttl:ttl_s=1e300"), "ttl_s is 1e+300"),
        (("--seed", HUGE), "below 2^63"),
        (("--resamples", HUGE), f"--resamples is {HUGE}"),
        (("--window", "0:1e300"), "--window 0:1e+300"),
        (("--bytes-per-token", HUGE), f"--bytes-per-token is {HUGE}"),
        (("--block-tokens", HUGE), f"--block-tokens is {HUGE}"),
        (("--reorder-window", "1e300"), "--reorder-window is 1e+300"),
        (
            ("--capacity", "9000000000000000blocks", "--bytes-per-token", 1000),
            "more bytes than can be counted",
        ),
        (("--host-capacity", "-1blocks"), '--host-capacity "-1blocks" is negative'),
        (("--host-capacity", "2GiB"), '--host-capacity "2GiB" is in bytes'),
        (("--reuse-rates", "absent.json"), "--reuse-rates absent.json: No such file"),
        (("--policy", "arc"), 'the policy "arc" is one of --unit session'),
        (("--policy", "bound"), 'the policy "bound" is one of --unit session'),
        (("--policy", "mine.py:Mine"), 'the policy "mine.py:Mine" caches whole sessions; add --unit session'),
        (("--rule", "paper"), "--rule belongs to --unit session"),
        (("--look-back", 3), "--look-back belongs to --unit session"),
        (("--credit", "prompt"), "--credit belongs to --unit session; a hit of blocks saves their tokens"),
        (("--sample", "0.5", "--window", "0:1", "--warmup", "0.5"), "cannot take --window, --warmup into"),
    ],
)
def test_blocks_refuse_what_cannot_be(
    servescope: Call, trace: Path, arguments: tuple[object, ...], says: str
) -> None:
    done = servescope("cache", trace, *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err and "defect" not in done.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--pin", 3), "--pin belongs to --unit block; it changes nothing in a cache of sessions"),
        (("--host-capacity", "5%"), "--host-capacity belongs to --unit block"),
        (("--reuse-rates", "rates.json"), "--reuse-rates belongs to --unit block"),
        (("--sample", "0.5"), "--sample belongs to --unit block; it follows a part of the prefix tree"),
        (("--policy", "vllm"), 'the policy "vllm" is one of --unit block'),
        (("--policy", "lhd:x=1"), 'no parameter "x"'),
    ],
)
def test_sessions_refuse_what_is_of_blocks(
    servescope: Call, grown: Path, arguments: tuple[object, ...], says: str
) -> None:
    done = servescope("cache", grown, "--unit", "session", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_a_sample_is_printed_for_people_and_as_a_document(servescope: Call, trace: Path) -> None:
    done = servescope("cache", trace, "--sample", "0.9", "--policy", "lru")
    assert done.code == 0, done.err
    assert "curve_sample" in done.out and "--policy not used" in done.out
    document = json.loads(servescope("cache", trace, "--sample", "0.9", "--json").out)
    assert set(document["tables"]) == {"curve_sample", "curve_sample_about"}


def test_a_model_named_twice_is_swept_once(servescope: Call, grown: Path) -> None:
    own = ("--policy", "lru", "--capacity", "10%", "--json")
    document = json.loads(servescope("cache", grown, *own, "--model", "m1", "--model", "m1").out)
    assert [row["model"] for row in document["tables"]["cache"]] == ["m1"]
    assert "the model m1 is named more than once and swept once" in document["notes"]


def test_a_policy_cannot_end_the_run_as_if_all_were_well(
    servescope: Call, grown: Path, tmp_path: Path
) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    (tmp_path / "stops.py").write_text("raise SystemExit(0)\n")
    for command in (("cache", grown, "--capacity", "1%", "--policy"), ("check-policy",)):
        done = servescope(*command, tmp_path / "stops.py:Mine")
        assert (done.code, done.out) == (2, "")
        assert "running the file failed (line 1): SystemExit" in done.err
    done = servescope("cache", grown, "--capacity", "1%", "--policy", tmp_path / "ends.py:Quits")
    assert (done.code, done.out) == (2, "")
    assert "victim at request" in done.err and "SystemExit" in done.err
    assert servescope("check-policy", tmp_path / "ends.py:Quits").code == 3


def test_what_a_policy_prints_stays_out_of_the_document(
    servescope: Call, grown: Path, tmp_path: Path
) -> None:
    (tmp_path / "ends.py").write_text(ENDS)
    own = tmp_path / "ends.py:Talks"
    done = servescope("cache", grown, "--capacity", "1%", "--policy", own, "--json")
    assert json.loads(done.out)["tables"]["cache"][0]["policy"] == str(own)
    assert "inserted 0" in done.err
    done = servescope("check-policy", own, "--json")
    assert json.loads(done.out)["command"] == "check-policy"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("minimax-m2.5", "--tokens", HUGE), f"--tokens is {HUGE}"),
        (("--tensor-parallel", HUGE), "ranks cannot hold a model"),
        (("minimax-m2.5", "--tensor-parallel", HUGE), "ranks cannot hold a model"),
    ],
)
def test_sizes_beyond_counting(servescope: Call, arguments: tuple[str, ...], says: str) -> None:
    done = servescope("kv", *arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


@pytest.mark.parametrize("verb", ["sessions", "views"])
def test_windows_beyond_the_clock(servescope: Call, grown: Path, verb: str) -> None:
    option = "--window" if verb == "sessions" else "--lb-window"
    done = servescope(verb, grown, option, "0:1e300")
    assert (done.code, done.out) == (2, "")
    assert f"{option}" in done.err and "0:1e+300" in done.err


def test_nobody_at_the_address_of_a_cluster(servescope: Call, grown: Path) -> None:
    pytest.importorskip("ray")
    own = ("--policy", "lru", "--capacity", "1%", "--engine", "ray", "--address", "127.0.0.1:1")
    done = servescope("cache", grown, *own)
    assert (done.code, done.out) == (2, "")
    assert "no Ray cluster at 127.0.0.1:1" in done.err
