"""A trace whose session columns say which object each request accesses, for formats that know objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from servescope import schema
from servescope.errors import UsageError, unknown_name
from servescope.sessions.links import Links, SessionOptions, session_links
from servescope.sessions.write import PartLinks, with_sessions

if TYPE_CHECKING:
    from servescope.trace import Trace

OBJECTS = ("sessions",)


@dataclass(frozen=True)
class _Linked:
    """Links of whole columns; see `write.Source`."""

    links: Links

    def part(self, index: int, start: int, rows: int) -> PartLinks:
        own = slice(start, start + rows)
        turn = self.links.turn[own].astype(np.int64)
        session, parent, prefix = (
            np.where(turn == 0, schema.NULL_INT64, values[own])
            for values in (self.links.session, self.links.parent, self.links.prefix_tokens)
        )
        return PartLinks(session, np.where(parent < 0, schema.NULL_INT64, parent), turn, prefix)


def with_objects(trace: Trace, objects: str | None, **options: Any) -> Trace:
    """The trace with a session, its object, for every request that takes part.

    objects  "sessions": stated ones, else rebuilt; None: the trace as it is
    options  fields of `SessionOptions`: model, window_days, rule, …

    Raises UsageError for another word, or where the trace lacks what the rule needs.
    """
    if objects is None and options:
        raise UsageError(f"{', '.join(options)}: this chooses sessions; it needs --objects sessions.")
    if objects is None:
        return trace
    if objects not in OBJECTS:
        raise unknown_name("kind of objects", objects, OBJECTS)
    links = session_links(trace, SessionOptions(**options))
    said = f"sessions are objects, found by the rule {links.rule}"
    return with_sessions(trace, _Linked(links), links.rule, said)
