"""The public functions: the only place that composes formats, views and reports.

Each takes a trace and returns a `Result`; what it writes appears whole or not at all. A trace is a
`Trace`, the path of one, or a function that reads one, called once it is sure where to write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servescope.errors import UsageError
from servescope.files import PathLike, atomic, refuse_target
from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.ledger import Ledger
from servescope.opening import TraceLike, in_order, pool_result, read_all, trace_of
from servescope.provenance import document_of, result_of, written_result
from servescope.rejects import without_values, write_rejects
from servescope.result import Result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.trace import Trace


SAMPLE = Path(__file__).resolve().parent / "data" / "sample.jsonl.zst"
DEMO_FOLDER = "servescope-demo"
Progress = Callable[[int, int], None]
WINDOWS_S = (10, 300)
REPORT_ENTRIES = ("report.html", "report.json", "tables", "figures", "rows", "state")


def read(*sources: PathLike, **options: Any) -> Trace:
    """Read one or more sources of one format as one trace.

    sources  paths, "-" for standard input, remote addresses
    options  fields of `ReadOptions`: format, map, time_unit, block_tokens, on_bad_row, …

    Raises UsageError (unknown or ambiguous format, undeclared unit), BadRowError (first bad row of
    a strict read), DataError (broken file, nothing kept).
    """
    return read_trace([os.fspath(source) for source in sources], ReadOptions(**options))


def info(*traces: TraceLike, **options: Any) -> Result:
    """The facts of a trace: table `facts`, one row; `rejects` after a skipping read.

    traces   one trace, or sources that are read as one; a ServeGen pool gives tables of its clients
    options  as in `read`
    """
    from servescope.views.scan import run_views

    if (pool := pool_result("info", traces)) is not None:
        return pool
    whole = read_all(traces, options)
    tables, _, _ = run_views(whole, ["facts"])
    return result_of("info", whole, tables)


def check(*traces: TraceLike, **options: Any) -> Result:
    """Put every check that the columns allow to every row: table `checks`.

    traces   one trace, or sources that are read as one; every file of a ServeGen pool is read
    options  as in `read`

    Raises DataError where a check of severity "error" fails: the trace is not canonical.
    """
    from servescope.validate import refuse_errors, validate

    if (pool := pool_result("check", traces)) is not None:
        return pool
    whole = read_all(traces, options)
    checks = validate(whole)
    refuse_errors(whole, checks)
    return result_of("check", whole, [checks])


def convert(
    *traces: TraceLike,
    out: PathLike,
    shard_rows: int | None = None,
    written: Progress | None = None,
    **options: Any,
) -> Result:
    """Write canonical Parquet; sources that cannot be streamed for their order are sorted on disk first.

    traces      one trace, or sources that are read as one
    out         a file; a folder when `shard_rows` is given
    shard_rows  start a new file once one holds this many rows
    written     called with (rows written, rows in all)
    options     as in `read`
    """
    from servescope.trace_write import write_canonical

    refuse_target(out, folder=bool(shard_rows), own=("part-*.parquet",))
    with in_order(traces, Path(out).parent, options) as whole:
        tell = None if written is None else lambda rows: written(rows, whole.rows)
        write_canonical(whole, Path(out), shard_rows=shard_rows, progress=tell)
        return written_result("convert", whole, out, shard_rows=shard_rows)


def export(
    trace: TraceLike,
    *,
    out: PathLike,
    to: str,
    lossy: bool = False,
    delta_prompts: bool = False,
    objects: str | None = None,
    **sessions: Any,
) -> Result:
    """Write another tool's format.

    to             name of the format (`servescope.exports.EXPORTS`)
    lossy          accept that the format cannot hold everything; without it that is an error
    delta_prompts  write only what each turn adds to its parent's prompt and answer
    objects        "sessions": write sessions, stated or rebuilt; sessions: fields of `SessionOptions`

    Raises UsageError for an unknown format, or for what it cannot hold.
    """
    from servescope import exports
    from servescope.sessions.objects import with_objects

    refuse_target(out, folder=False)
    whole = with_objects(trace_of(trace), objects, **sessions)
    notes = exports.export(whole, Path(out), to=to, lossy=lossy, delta_prompts=delta_prompts)
    return written_result("export", whole, out, notes=notes, to=to, lossy=lossy, delta_prompts=delta_prompts)


def fingerprint(
    *log: PathLike,
    out: PathLike,
    tokenizer: PathLike,
    key_file: PathLike,
    chat_template: PathLike | None = None,
    no_chat_template: bool = False,
    block_tokens: int = 16,
    keep_ids: bool = False,
    **options: Any,
) -> Result:
    """Turn a log with messages into a canonical trace with keyed, chained block ids; no text leaves.

    log               one or more sources (litellm, openai_log, sharegpt)
    tokenizer         a local tokenizer.json
    key_file          file with the secret of at least 16 bytes; equal keys make ids comparable
    chat_template     Jinja file or tokenizer_config.json; or else `no_chat_template`
    keep_ids          keep users, sessions and request ids, which are replaced by keyed stand-ins otherwise
    options           fields of `ReadOptions`

    Rejected rows are listed without their values, which may hold text.
    """
    from servescope.fingerprint import fingerprint as write_fingerprint
    from servescope.fingerprint import read_key

    refuse_target(out, folder=False)
    trace = write_fingerprint(
        [os.fspath(source) for source in log],
        Path(out),
        tokenizer=os.fspath(tokenizer),
        key=read_key(os.fspath(key_file)),
        chat_template=None if chat_template is None else os.fspath(chat_template),
        no_chat_template=no_chat_template,
        block_tokens=block_tokens,
        keep_ids=keep_ids,
        options=ReadOptions(**options),
    )
    return written_result("fingerprint", replace(trace, rejects=without_values(trace.rejects)), out)


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
    from servescope.report.page import write_views
    from servescope.report.study.compare import compared_tables
    from servescope.views.presets import settled
    from servescope.views.run import RUNNING, view_tables

    if out is None and (rows or resume or address):
        raise UsageError("row slices, --resume and --address need a folder; name one with -o DIR.")
    if out is not None:
        refuse_target(out, folder=True, own=REPORT_ENTRIES)
    whole = trace_of(trace)
    chosen = dict(rasters, windows_s=windows_s, highlights=highlights, lb_models=lb_models)
    chosen |= {"lb_window_days": lb_window_days, "preset": preset, "compare": compare}
    compared_tables((), compare)  # an unknown name is refused before the scan
    options, named, said = settled(whole, chosen)
    how = (threads, engine, address, None if out is None else Path(out) / "state", resume, progress)
    with nullcontext(None) if out is None else atomic(out) as part:
        options["rows"] = part if rows else None
        tables, notes, timing = view_tables(whole, view, options | dict(zip(RUNNING, how, strict=True)))
        tables += compared_tables(tables, compare)
        result = result_of("views", whole, tables, notes=[*said, *notes], view=list(view), **named)
        if part is not None and out is not None:
            write_views(result.tables, document_of(result, whole), part, figures=figures)
            (Path(out) / "state").rename(part / "state")
    if out is not None:
        write_rejects(whole.rejects, out)
    return replace(result, tables={**result.tables, "timing": timing})


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
        tables += [*cached, *compared_tables(tables, compare)]
        notes = [*said, *notes, *session_notes, *rebuilt_notes, *cache_notes]
        result = result_of("report", whole, tables, notes=notes, kv_model=caches.kv_model, **named)
        write_page(result.tables, document_of(result, whole), part, figures=figures)
    write_rejects(whole.rejects, out)
    return result


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
    tables   folder for the tables as NAME.parquet
    against  "stated" or "blocks": also measure the rule against sessions that are known, with the options
             `look_backs` and `users` for each of these, too
    options  rule, look_back, parent_completed, max_gap_s, unique, model, window_days (the fields of
             `servescope.sessions.links.SessionOptions`); threads, engine, address, progress as in `views`

    Tables: summary, session_rows, limits, session_turns, link_ambiguity, think_time, prompt_growth.
    """
    from servescope.sessions.result import sessions_result

    if out is not None:
        refuse_target(out, folder=False)
    if tables is not None:
        refuse_target(tables, folder=True, own=("*.parquet",))
    whole = trace_of(trace)
    result = sessions_result(whole, out=out, tables=tables, against=against, options=options)
    if out is not None:
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


def simulate_cache(
    trace: TraceLike, *, out: PathLike | None = None, figures: bool = True, **options: Any
) -> Result:
    """Replay the trace on caches, every policy at every capacity: table `cache`, and those about it.

    out      folder for tables, figures and a page of their own; None writes nothing
    options  policy="lru,s3fifo", capacity="1%,64GiB", credit, warmup, model, rule, … (the fields of
             `servescope.cache.options.CacheOptions` and `SessionOptions`); threads, engine, address, progress
    """
    from servescope.cache.result import asked, cache_result

    return _with_page(trace, out, figures, partial(cache_result, **asked(options)))


def reproduce(
    trace: TraceLike, *, study: str, out: PathLike | None = None, figures: bool = True, **options: Any
) -> Result:
    """A study's sweep of caches on this trace, every published row beside ours: table `reproduce`.

    study         its name, "chutes"
    out, options  as in `simulate_cache`; what is left out is chosen as in the study
    """
    from servescope.cache.result import asked, reproduce_result

    return _with_page(trace, out, figures, partial(reproduce_result, **asked({**options, "preset": study})))


def check_policy(policy: str, **options: Any) -> Result:
    """Try a cache policy, FILE.py:NAME or one of the table, on random traces: table `policy_checks`.

    options  seed, traces as in `servescope.cache.check.check_policy`
    """
    from servescope.cache import check

    return check.check_policy(policy, **options)


def demo(*, out: PathLike = DEMO_FOLDER, **options: Any) -> Result:
    """`report` on the sample that ships in the package."""
    return report(SAMPLE, out=out, **options)


def kv_models(**options: Any) -> Result:
    """Table `kv_models`: bytes of KV cache by model, the whole catalogue; no trace is needed.

    options  kv_dtype, tensor_parallel as in `servescope.cache.memory.models_result`
    """
    from servescope.cache.memory import models_result

    return models_result(**options)


def kv_size(model: str, **options: Any) -> Result:
    """Bytes of KV cache of one model, of its sequences, and the time to move them or compute them again.

    model    name or alias in the catalogue, whatever the case
    options  kv_dtype, tensor_parallel, tokens, … as in `servescope.cache.memory.size_result`
    """
    from servescope.cache.memory import size_result

    return size_result(model, **options)


def _with_page(
    trace: TraceLike, out: PathLike | None, figures: bool, work: Callable[[Trace], Result]
) -> Result:
    """What `work` finds in the trace; written to the folder `out` with a page, if one is named."""
    from servescope.report.page import write_page

    if out is not None:
        refuse_target(out, folder=True, own=REPORT_ENTRIES)
    whole = trace_of(trace)
    with nullcontext(None) if out is None else atomic(out) as part:
        result = work(whole)
        if part is not None:
            write_page(result.tables, document_of(result, whole), part, figures=figures)
    if out is not None:
        write_rejects(whole.rejects, out)
    return result
