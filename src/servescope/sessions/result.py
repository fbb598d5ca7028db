"""The result of one run of `sessions`: its tables and notes with where they come from."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servescope.files import atomic
from servescope.provenance import result_of
from servescope.result import write_tables
from servescope.sessions.accuracy import measured
from servescope.sessions.find import find_sessions
from servescope.sessions.links import SessionOptions
from servescope.sessions.reconstruct import Running

if TYPE_CHECKING:
    from collections.abc import Mapping

    from servescope.files import PathLike
    from servescope.result import Result
    from servescope.trace import Trace

RUNNING = ("threads", "engine", "address", "progress")
MEASURING = ("look_backs", "users")


def sessions_result(
    trace: Trace,
    *,
    out: PathLike | None,
    tables: PathLike | None,
    against: str | None,
    options: Mapping[str, Any],
) -> Result:
    """Find sessions, measure the rule where that is asked, write what is to be written.

    out      file of all requests with their sessions
    tables   folder of the tables
    against  the truth of `accuracy.accuracy`; the rule is then the published one unless another is chosen
    options  fields of `SessionOptions`, those of `Running` that are in `RUNNING`, and the look-backs and
             numbers of users of `accuracy.measured`

    Raises TypeError for an option that does not exist, UsageError as `find_sessions` and `accuracy` do.
    """
    chosen = {name: value for name, value in options.items() if name not in (*RUNNING, *MEASURING)}
    if against is not None:
        chosen["rule"] = chosen.get("rule") or "paper"
    asked = SessionOptions(**chosen)
    running = Running(**{name: options[name] for name in RUNNING if name in options})
    target = None if out is None else Path(out)
    if target is not None:
        running = replace(running, folder=target.parent)
    measuring = {name: options[name] for name in MEASURING if name in options}
    # first: where it is refused, nothing is to be written
    known, remarks = measured(trace, asked, truth=against, **measuring)
    found, notes = find_sessions(trace, asked, running, out=target)
    shown = {name: value for name, value in asdict(asked).items() if value not in (None, False)}
    result = result_of(
        "sessions", trace, [*found, *known], notes=[*notes, *remarks], against=against, **shown
    )
    if tables is not None:
        with atomic(tables) as part:
            write_tables(result.tables, part)
    return result
