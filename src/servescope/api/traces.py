"""Public functions that read a trace, look at it, or write it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servescope.files import PathLike, refuse_sources, refuse_target
from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.opening import TraceLike, in_order, pool_result, read_all, source_paths, trace_of
from servescope.provenance import result_of, written_result
from servescope.rejects import without_values

if TYPE_CHECKING:
    from servescope.result import Result
    from servescope.trace import Trace

Progress = Callable[[int, int], None]


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
    refuse_sources(out, source_paths(traces))
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
    refuse_sources(out, source_paths([trace]))
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
    refuse_sources(out, log)
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
