"""What each command prints and writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from servescope import __version__

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.conftest import Finished

    Call = Callable[..., Finished]

DOCUMENT = {"command", "version", "inputs", "ledger", "notes", "tables"}


def document(done: Finished) -> dict[str, object]:
    """The one JSON document on stdout."""
    assert done.code == 0, done.err
    assert done.out.endswith("}\n") and done.out.count("\n") == 1
    found = json.loads(done.out)
    assert set(found) == DOCUMENT
    assert found["version"] == __version__
    return found


def test_info(servescope: Call, trace: Path) -> None:
    found = document(servescope("info", trace, "--json"))
    assert found["command"] == "info"
    assert found["ledger"] == {"read": 40, "kept": 40, "dropped": {}, "repaired": {}}
    (facts,) = found["tables"]["facts"]
    assert facts == {
        "requests": 40,
        "span_s": 1.95,
        "models": None,
        "users": None,
        "instances": None,
        "sessions": None,
        "input_tokens": sum(range(600, 640)),
        "output_tokens": sum(range(40)),
        "cached_tokens": None,
        "block_tokens": 512,
        "block_references": 80,
        "distinct_blocks": 41,
    }


def test_several_files_are_one_trace(servescope: Call, trace: Path) -> None:
    copy = trace.with_name("copy.jsonl")
    copy.write_bytes(trace.read_bytes())
    found = document(servescope("info", trace, copy, "--json"))
    assert found["ledger"]["kept"] == 80
    assert [source["name"] for source in found["inputs"]["sources"]] == [str(trace), str(copy)]
    assert found["tables"]["facts"][0]["span_s"] == 1.95


def test_skipping_counts_and_lists_what_it_left_out(servescope: Call, bad_trace: Path) -> None:
    out = bad_trace.with_name("out.parquet")
    found = document(servescope("convert", bad_trace, "-o", out, "--on-bad-row", "skip", "--json"))
    assert found["ledger"]["read"] == 40
    assert found["ledger"]["kept"] == 38
    assert sum(found["ledger"]["dropped"].values()) == 2
    rejects = found["tables"]["rejects"]
    assert [(row["line"], row["field"]) for row in rejects] == [(3, ""), (5, "input_length")]
    listed = out.with_name("out.parquet.rejects.jsonl")
    assert [json.loads(line) for line in listed.read_text().splitlines()] == rejects
    assert [row["file"] for row in found["tables"]["written"]] == [str(out), str(listed)]
    assert pq.read_metadata(out).num_rows == 38


def test_a_report_says_where_the_rejected_rows_are(servescope: Call, bad_trace: Path) -> None:
    out = bad_trace.with_name("report")
    done = servescope("report", bad_trace, "-o", f"{out}/", "--on-bad-row", "skip", "--no-figures")
    assert done.code == 0, done.err
    listed = out.with_name("report.rejects.jsonl")
    assert len(listed.read_text().splitlines()) == 2
    assert done.out.endswith(f"\nRejected rows: {listed}\n\n{out}/report.html\n")


def test_a_clean_run_removes_the_rejects_of_an_earlier_one(servescope: Call, trace: Path) -> None:
    out = trace.with_name("out.parquet")
    stale = trace.with_name("out.parquet.rejects.jsonl")
    stale.write_text("{}\n")
    assert servescope("convert", trace, "-o", out).code == 0
    assert out.exists() and not stale.exists()


def test_convert_to_shards(servescope: Call, trace: Path) -> None:
    folder = trace.with_name("shards")
    assert servescope("convert", trace, "-o", folder, "--shard-rows", 10).code == 0
    assert sum(pq.read_metadata(path).num_rows for path in folder.iterdir()) == 40
    again = document(servescope("info", folder, "--json"))
    assert again["tables"]["facts"][0]["requests"] == 40


def test_export_lists_what_is_lost(servescope: Call, trace: Path) -> None:
    out = trace.with_name("out.csv")
    refused = servescope("export", trace, "--to", "azure", "-o", out)
    assert (refused.code, refused.out) == (2, "")
    assert "block_ids" in refused.err and "--lossy" in refused.err
    assert not out.exists()
    taken = document(servescope("export", trace, "--to", "azure", "-o", out, "--lossy", "--json"))
    assert taken["inputs"]["to"] == "azure"
    assert any("block_ids" in note for note in taken["notes"])
    assert len(out.read_text().splitlines()) == 41


def test_check_finds_what_no_row_shows(servescope: Call, trace: Path) -> None:
    found = document(servescope("check", trace, "--json"))
    checks = {row["check"]: row["failed"] for row in found["tables"]["checks"]}
    assert checks["arrives before the row above"] == 0
    assert checks["blocks do not cover the input"] == 0


def test_views_writes_only_the_wanted_table(servescope: Call, trace: Path) -> None:
    out = trace.with_name("views")
    found = document(servescope("views", trace, "-o", out, "--view", "rate", "--window-s", "1", "--json"))
    assert {row["window_s"] for row in found["tables"]["rate"]} == {1.0}
    assert [path.name for path in sorted((out / "tables").iterdir())] == ["rate.parquet"]
    (timing,) = found["tables"]["timing"]
    assert timing["rows"] == 40
    assert {"scan_s", "scan_rows_per_s", "peak_rss_bytes"} < set(timing)


def test_an_unknown_view_is_wrong_usage(servescope: Call, trace: Path) -> None:
    done = servescope("views", trace, "--view", "rates")
    assert done.code == 2
    assert "Did you mean rate?" in done.err


def test_report_and_redraw(servescope: Call, trace: Path) -> None:
    out = trace.with_name("report")
    done = servescope("report", trace, "-o", out)
    assert done.code == 0, done.err
    assert done.out.startswith("Rows: 40 read = 40 kept + 0 rejected")
    assert done.out.splitlines()[-1] == f"{out}/report.html"
    assert {path.name for path in out.iterdir()} == {"report.html", "report.json", "tables", "figures"}
    saved = json.loads((out / "report.json").read_bytes())
    assert set(saved) == DOCUMENT | {"meta"}
    assert saved["meta"]["columns"]
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    trace.unlink()
    again = servescope("report", "--from", out)
    assert again.code == 0, again.err
    assert again.out == done.out
    assert (out / "report.html").read_bytes() == page


def test_a_report_replaces_an_earlier_one_and_nothing_else(servescope: Call, trace: Path) -> None:
    out = trace.with_name("report")
    assert servescope("report", trace, "-o", out).code == 0
    assert servescope("report", trace, "-o", out, "--json").code == 0
    (out / "notes.txt").write_text("mine")
    refused = servescope("report", trace, "-o", out)
    assert refused.code == 2
    assert (out / "notes.txt").read_text() == "mine"


def test_a_report_without_figure_files_links_none(servescope: Call, trace: Path) -> None:
    out = trace.with_name("report")
    assert servescope("report", trace, "-o", out, "--no-figures").code == 0
    assert not (out / "figures").exists()
    assert 'href="figures/' not in (out / "report.html").read_text()
    assert servescope("report", "--from", out).code == 0
    assert 'href="figures/' in (out / "report.html").read_text()
    assert any((out / "figures").iterdir())


def test_redrawing_what_is_no_report_says_so(servescope: Call, tmp_path: Path) -> None:
    done = servescope("report", "--from", tmp_path)
    assert done.code == 2
    assert "report.json" in done.err


def test_demo_ends_with_the_path_of_the_page(
    servescope: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = servescope("demo")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "servescope-demo/report.html"
    assert (tmp_path / "servescope-demo" / "report.html").is_file()


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_tables_fit_the_terminal(
    servescope: Call, trace: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    done = servescope("check", trace)
    assert done.code == 0
    assert max(len(line) for line in done.out.splitlines()) <= columns
    assert "arrives before the row above" in " ".join(done.out.split())


def test_control_characters_of_a_trace_do_not_reach_the_terminal(servescope: Call, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("t,n,who\n1,5,a\x1b[31mred\n2,5,b\n")
    options = ("--map", "arrival=t", "--map", "input_tokens=n", "--map", "user=who", "--time-unit", "s")
    done = servescope("views", path, *options, "--view", "user_share")
    assert done.code == 0, done.err
    assert "a\\x1b[31mred" in done.out


def test_balance_options_of_views(servescope: Call, tmp_path: Path) -> None:
    rows = "".join(f"{second},{name},{second},7,3\n" for second, name in enumerate("aab"))
    table = tmp_path / "t.csv"
    table.write_text("time,model,user,in,out\n" + rows)
    read = ("views", table, "--format", "table", "--time-unit", "s", "--view", "user_hour", "--json")
    read += tuple(f"--map={pair}" for pair in ("arrival=time", "model=model", "user=user"))
    found = document(
        servescope(*read, "--lb-model", "b", "--lb-window", "0:0.5", "--rows", "-o", tmp_path / "o")
    )
    assert [(row["model"], row["user"]) for row in found["tables"]["user_hour"]] == [("b", "2")]
    assert found["inputs"]["lb_window_days"] == [0.0, 0.5]
    (slice_file,) = (tmp_path / "o" / "rows" / "lb_rows").iterdir()
    assert pq.read_table(slice_file)["request_id"].to_pylist() == [2]
    assert servescope(*read, "--lb-window", "1").code == 2
    done = servescope(*read, "--lb-model", "c")
    assert done.code == 2 and 'unknown model "c"' in done.err
    assert servescope(*read, "--rows").code == 2


def test_views_with_a_folder_draw_figures_unless_told_not_to(servescope: Call, trace: Path) -> None:
    out = trace.with_name("drawn")
    document(servescope("views", trace, "-o", out, "--view", "rate", "--view", "type_summary", "--json"))
    assert {path.suffix for path in (out / "figures").iterdir()} == {".svg", ".pdf"}
    assert (out / "figures" / "arrivals_10s.svg").exists()
    document(servescope("views", trace, "-o", out, "--view", "rate", "--no-figures", "--json"))
    assert not (out / "figures").exists()
