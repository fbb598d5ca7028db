"""Sessions of a trace by any rule: their tables, and the requests with their sessions as a file."""

from __future__ import annotations

from dataclasses import replace
from shutil import disk_usage
from tempfile import gettempdir
from typing import TYPE_CHECKING

from servescope.errors import DataError
from servescope.sessions.eligible import COUNTS, RULES
from servescope.sessions.held import held_sessions
from servescope.sessions.links import DAY_US, SessionOptions, rule_of, session_links
from servescope.sessions.reconstruct import IN_MEMORY_ROWS, Running, link, part, spool_folder
from servescope.sessions.spool import RECORD_BYTES
from servescope.sessions.summary import Found, notes, tables
from servescope.sessions.write import Memory, Rebuilt, write_sessions
from servescope.tables import joined

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from servescope.result import Table
    from servescope.trace import Trace


def find_sessions(
    trace: Trace, options: SessionOptions, running: Running, *, out: Path | None = None
) -> tuple[list[Table], list[str]]:
    """The tables of a trace's sessions and notes; with `out`, all requests are written there with them.

    Raises UsageError where the trace lacks what the rule needs, for a model that is not in it, or an
    unknown engine; DataError where no request lies in the window.
    """
    rule = rule_of(trace, options)
    said = described(options, rule)
    if rule == "paper":
        found = _rebuilt(trace, options, running, out, said)
    else:
        held = held_sessions(trace, session_links(trace, options), options)
        found = held.found
        _refuse_empty(trace, options, found.excluded)
        if out is not None:
            write_sessions(trace, Memory(held), out, rule=rule, said=said)
    return tables(found, trace), [said, *notes(found, trace)]


def with_rebuilt(tables: list[Table], trace: Trace, running: Running) -> tuple[list[Table], list[str]]:
    """Add the sessions that the published rule rebuilds to the tables of a report, and notes.

    Their names begin with `rebuilt_`; their limits go into the table `limits`. Nothing is added where
    sessions are stated, there are no users, a count of tokens is missing, or the disk is too small.
    """
    if trace.has("session_id") or not trace.has("user"):
        return tables, []
    missing = [name for name in COUNTS if not trace.has(name)]
    if missing:
        return tables, [f"sessions are not rebuilt: the source has no {' and no '.join(missing)}"]
    if trace.rows > IN_MEMORY_ROWS:
        room = disk_usage(running.folder or gettempdir()).free
        if 2 * trace.rows * RECORD_BYTES > room:
            more = "sessions are not rebuilt: their records would take more than half of the free disk"
            return tables, [f"{more}; `servescope sessions` does it, with TMPDIR where there is room"]
    made, said = find_sessions(trace, SessionOptions(rule="paper"), running)
    named = [one if one.name == "limits" else replace(one, name=f"rebuilt_{one.name}") for one in made]
    return joined([*tables, *named]), said


def described(options: SessionOptions, rule: str) -> str:
    """The rule and its options as one sentence."""
    if rule == "stated":
        return "sessions are those that the source states"
    if rule == "blocks":
        return (
            "sessions are rebuilt from block ids: a request continues the one whose prefix it shares deepest"
        )
    text = (
        "sessions are rebuilt: a request continues the longest shorter one of its user, model and endpoint "
        f"among their last {options.look_back}"
    )
    text += ", ended before" if options.parent_completed else ""
    text += f", begun at most {options.max_gap_s:g} s before" if options.max_gap_s is not None else ""
    return text + (", if no other fits equally well" if options.unique else "")


def _refuse_empty(trace: Trace, options: SessionOptions, excluded: Mapping[str, int]) -> None:
    """Raises DataError where the chosen window, or model and window, leave no request at all."""
    outside = excluded.get("outside_window", 0)
    if options.window_days is None or outside + excluded.get("other_model", 0) < trace.rows:
        return
    first = trace.meta.origin.clock_us / DAY_US
    last = first + trace.last_us / DAY_US
    low, high = options.window_days
    who = f" of {options.model}" if options.model is not None else ""
    raise DataError(
        f"no request{who} lies in --window {low:g}:{high:g}: the trace runs from day {first:g} to "
        f"day {last:g} of its clock. Choose days between these."
    )


def _rebuilt(trace: Trace, options: SessionOptions, running: Running, out: Path | None, said: str) -> Found:
    """Link the trace by the published rule, and write it where that is asked."""
    with spool_folder(trace, running) as folder:
        parted = part(trace, options, running, folder)
        _refuse_empty(trace, options, dict(zip(RULES, parted.selection.excluded.tolist(), strict=True)))
        if out is None:
            return link(parted, options, running)
        found = link(parted, options, running, keep=True)
        with parted.in_order() as kept:
            write_sessions(trace, Rebuilt(kept), out, rule="paper", said=said)
    return found
