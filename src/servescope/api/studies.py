"""Public functions that say what the traffic of a trace is like: views, sessions, the report."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servescope.errors import UsageError
from servescope.files import PathLike, atomic, refuse_sources, refuse_target
from servescope.ledger import Ledger
from servescope.opening import TraceLike, source_paths, trace_of
from servescope.provenance import document_of, result_of
from servescope.rejects import write_rejects
from servescope.result import Result, write_tables
from servescope.tables import joined

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.api.traces import Progress
    from servescope.result import Table
    from servescope.trace import Trace

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "sample.jsonl.zst"
DEMO_FOLDER = "servescope-demo"
WINDOWS_S = (10, 300)
REPORT_ENTRIES = ("report.html", "report.json", "tables", "figures", "rows", "state")
SESSION_TABLES = (
    "summary",
    "session_rows",
    "limits",
    "session_turns",
    "link_ambiguity",
    "think_time",
    "prompt_growth",
    "accuracy*",
    "rejects",
)
SESSION_ENTRIES = (*(f"{name}.parquet" for name in SESSION_TABLES), "figures")


def views(
    trace: TraceLike,
    *,
    out: PathLike | None = None,
    view: Sequence[str] = (),
    threads: int | None = None,
    windows_s: Sequence[float] = WINDOWS_S,
    highlights: Sequence[str] = (),
    lb_models: Sequence[str] = (),
    lb_window_days: tuple[float, float] | None = None,
    rows: bool = False,
    figures: bool = False,
    preset: str | None = None,
    compare: str | None = None,
    progress: Progress | None = None,
    engine: str = "local",
    address: str | None = None,
    resume: bool = False,
    **rasters: Any,
) -> Result:
    """The views as tables, and the table `timing`: how fast this scan ran (never saved).

    out             folder for `tables/NAME.parquet` and the merged state, `state/`; None writes nothing
    view            names of tables (`servescope.views.VIEWS`); empty = all that the columns allow
    threads         of the scan, None = one a core; progress: called with (rows done, rows in all)
    windows_s       lengths of rate windows, seconds
    highlights      models with series of their own, lb_models: of the balance tables; empty = the top three
    lb_window_days  of the latter, their half-open window in days of the trace clock; None = the last 59 days
    rows            also write row slices, rows/ and tables/raster_rows.parquet; figures: also draw figures/
    preset          study whose choices stand for those left out; compare: table `compare_NAME` of its numbers
    engine          "local": threads; "ray": tasks of a cluster at `address`; resume: from the state in `out`
    rasters         the fields of `servescope.views.ViewOptions` whose names begin with raster
    """
    from servescope.views.presets import settled
    from servescope.views.run import RUNNING, view_tables

    if out is None and (rows or resume or address):
        raise UsageError("row slices, --resume and --address need a folder; name one with -o DIR.")
    if out is not None:
        refuse_target(out, folder=True, own=REPORT_ENTRIES)
    whole = trace_of(trace)
    chosen = dict(rasters, windows_s=windows_s, highlights=highlights, lb_models=lb_models)
    chosen |= {"lb_window_days": lb_window_days, "preset": preset, "compare": compare}
    _compared((), compare)  # an unknown name is refused before the scan
    options, named, said = settled(whole, chosen)
    how = (threads, engine, address, None if out is None else Path(out) / "state", resume, progress)
    with nullcontext(None) if out is None else atomic(out) as part:
        options["rows"] = part if rows else None
        tables, notes, timing = view_tables(whole, view, options | dict(zip(RUNNING, how, strict=True)))
        tables += _compared(tables, compare)
        result = result_of("views", whole, tables, notes=[*said, *notes], view=list(view), **named)
        if part is not None and out is not None:
            _write(result, whole, part, figures=figures)
            (Path(out) / "state").rename(part / "state")
    if out is not None:
        write_rejects(whole.rejects, out)
    return replace(result, tables={**result.tables, "timing": timing})


def _write(result: Result, trace: Trace, folder: Path, *, figures: bool) -> None:
    """Write tables/ into the folder, and figures/: what draws is loaded only for these."""
    write_tables(result.tables, folder / "tables")
    if figures:
        from servescope.report.page import draw_files

        draw_files(folder, document_of(result, trace))


def _compared(tables: Sequence[Table], name: str | None) -> list[Table]:
    """As `compared_tables`, which draws, too: loaded only where there is something to compare with."""
    if not name:
        return []
    from servescope.report.study.compare import compared_tables

    return compared_tables(tables, name)


def report(trace: TraceLike, *, out: PathLike, figures: bool = True, **options: Any) -> Result:
    """Everything that the trace's columns allow: tables, figures and one page.

    out      folder that gets report.html, report.json, tables/ and figures/
    figures  whether to draw figures/*.svg and *.pdf beside the page
    options  threads, windows_s, highlights, lb_models, preset, compare, …, progress as in `views`;
             kv_model: of the catalogue, for the sizes of caches in GiB
    """
    from servescope.cache.in_report import report_options, report_tables
    from servescope.report.page import write_page
    from servescope.report.study.compare import compared_tables
    from servescope.sessions.find import with_rebuilt
    from servescope.sessions.reconstruct import Running
    from servescope.sessions.stated import stated_sessions
    from servescope.views.presets import settled
    from servescope.views.run import view_tables

    refuse_target(out, folder=True, own=REPORT_ENTRIES)
    whole = trace_of(trace)
    compare = options.get("compare")
    compared_tables((), compare)  # an unknown name is refused before the scan
    caches = report_options(options.pop("kv_model", None))
    options, named, said = settled(whole, options)
    with atomic(out) as part:
        options = {**options, "rows": part if options.get("rows") else None}
        tables, notes, _ = view_tables(whole, (), options)
        sessions, session_notes = stated_sessions(whole)
        tables, rebuilt_notes = with_rebuilt([*tables, *sessions], whole, Running(options.get("threads")))
        cached, cache_notes = report_tables(whole, tables, caches, threads=options.get("threads"))
        tables = joined([*tables, *cached, *compared_tables(tables, compare)])  # limits of both
        notes = [*said, *notes, *session_notes, *rebuilt_notes, *cache_notes]
        result = result_of("report", whole, tables, notes=notes, kv_model=caches.kv_model, **named)
        write_page(result.tables, document_of(result, whole), part, figures=figures)
    write_rejects(whole.rejects, out)
    return result


def report_from(folder: PathLike, *, figures: bool = True, compare: str | None = None) -> Result:
    """Draw the page and the figures again from the saved tables of a report; no trace is needed.

    folder   what `report` wrote; its tables and report.json stay as they are
    compare  a study whose published numbers are laid over; None: as the report was made
    """
    from servescope.report.page import render
    from servescope.report.saved import read_saved

    saved = read_saved(Path(folder))
    render(Path(folder), figures=figures, compare=compare)
    made = saved.document
    return Result("report", made["inputs"], Ledger(**made["ledger"]), made["notes"], dict(saved.tables))


def demo(*, out: PathLike = DEMO_FOLDER, **options: Any) -> Result:
    """`report` on the sample that ships in the package."""
    return report(SAMPLE, out=out, **options)


def sessions(
    trace: TraceLike,
    *,
    out: PathLike | None = None,
    tables: PathLike | None = None,
    against: str | None = None,
    **options: Any,
) -> Result:
    """Sessions: stated ones as they are, or rebuilt from users, models, lengths and order.

    out      canonical Parquet of all requests with session_id, turn, parent_id and prefix_tokens
    tables   folder for the tables as NAME.parquet; with `against`, also for its figures, figures/
    against  "stated" or "blocks": also measure the rule against sessions that are known, with the options
             `look_backs` and `users` for each of these, too
    options  rule, look_back, parent_completed, max_gap_s, unique, model, window_days (the fields of
             `servescope.sessions.links.SessionOptions`); threads, engine, address, progress as in `views`

    Tables: summary, session_rows, limits, session_turns, link_ambiguity, think_time, prompt_growth.
    """
    from servescope.report.page import draw_accuracy
    from servescope.sessions.result import sessions_result

    if out is not None:
        refuse_target(out, folder=False)
        refuse_sources(out, source_paths([trace]))
    if tables is not None:
        refuse_sources(tables, source_paths([trace]))
        refuse_target(tables, folder=True, own=SESSION_ENTRIES)
    whole = trace_of(trace)
    result = sessions_result(whole, out=out, tables=tables, against=against, options=options)
    if tables is not None and against is not None:
        draw_accuracy(result.tables, Path(tables) / "figures")
    if out is not None:
        write_rejects(whole.rejects, out)
    return result
