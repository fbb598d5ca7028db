"""The merged state of a scan beside its tables: kept while it runs, taken up by a later run.

A file `parts-N.state` holds every mergeable sketch over the first N parts, with the fingerprints of
those parts. A later run of the same release with the same options takes up the longest one whose parts
it finds unchanged at its start, and scans only what follows.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from functools import cache
from time import monotonic
from typing import TYPE_CHECKING, Any

import msgspec

from servescope.category import Category
from servescope.errors import UsageError
from servescope.kernels.jit import sources_hash
from servescope.kernels.texts import Texts, pieces
from servescope.version import VERSION
from servescope.views import state
from servescope.views.growth import WHOLE_TRACE, CannotFitError, fitted, watched, whole_names
from servescope.views.prologue import LATE
from servescope.views.sketch import Context
from servescope.views.slices import Order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from servescope.trace import Each, Trace
    from servescope.views.sketch import Sketch, View, ViewOptions

KEEP_S = 10.0  # at least, between two states of a run …
PAUSES = 40  # … and so many times what writing the last one took: a fortieth of the run at most
KEPT = 2  # states that stay: the whole, and one that a longer last row group leaves valid
ANEW = "Run without --resume to scan everything anew, or name another folder."


@dataclass
class Merged:
    """What is merged so far.

    parts     parts that are in it
    sketches  by name of the view
    order     of its rows
    asked     name of the view -> facts of the whole trace that it asked for
    """

    parts: int = 0
    sketches: dict[str, Sketch] = field(default_factory=dict)
    order: Order = field(default_factory=Order)
    asked: dict[str, set[str]] = field(default_factory=dict)


@cache
def _kernels() -> str:
    """A name for the kernels' sources, as they were when this process first asked: it runs those."""
    return sources_hash()


def _identity(trace: Trace, options: ViewOptions) -> dict[str, Any]:
    """What must be equal for a state to be of any use."""
    meta = trace.meta
    return {
        "release": f"{VERSION} {_kernels()}",
        "format": meta.format,
        "columns": list(meta.columns),
        "origin": msgspec.to_builtins(meta.origin),
        "block_tokens": meta.block_tokens,
        "chained": meta.chained,
        "options": json.loads(json.dumps({**asdict(options), "rows": ""})),
    }


class Keeper:
    """Writes states of one run into a folder, and knows those of earlier ones. Changed by `keep`."""

    def __init__(self, folder: Path, trace: Trace, options: ViewOptions, *, each: Each) -> None:
        """Takes the fingerprint of every part; `each` as in `Trace.survey`."""
        self.folder, self.trace = folder, trace
        self.identity = _identity(trace, options)
        self.prints: list[str] = list(each(lambda at: trace.parts[at].fingerprint(), range(len(trace.parts))))
        self.last, self.cost_s = monotonic(), 0.0

    @property
    def key(self) -> str:
        """A text that differs where the trace, the options or the release do."""
        return hashlib.sha256(json.dumps([self.identity, self.prints]).encode()).hexdigest()

    def find(self) -> Kept | None:
        """The longest state that fits; None where the folder has none at all.

        Raises UsageError where no state fits, saying why; DataError for a broken file.
        """
        reasons = []
        misfits: list[Path] = []
        for path in sorted(self.folder.glob("parts-*.state"), reverse=True):
            reader = state.Reader(path)
            reason = self._misfit(reader.header)
            if reason is None:
                for other in misfits:  # longer ones, of rows that have changed
                    other.unlink()
                return Kept(reader, len(reader.header["prints"]))
            reasons.append(reason)
            misfits.append(path)
        if reasons:
            raise UsageError(f"{self.folder}: the state there was made {reasons[0]}. {ANEW}")
        return None

    def _misfit(self, header: dict[str, Any]) -> str | None:
        for name, own in self.identity.items():
            if header["identity"][name] != own:
                return f"with {name} {header['identity'][name]}, now it is {own}"
        prints = header["prints"]
        if len(prints) > len(self.prints):
            return f"from {len(prints):,} parts, the trace has {len(self.prints):,} now"
        for at, (one, own) in enumerate(zip(prints, self.prints, strict=False)):
            if one != own:
                return (
                    f"from other rows: part {at + 1:,} of the trace (from request {self.trace.starts[at]:,}) "
                    "differs"
                )
        return None

    def clear(self) -> None:
        """Remove what earlier runs left."""
        for path in self.folder.glob("*.state"):
            path.unlink()

    def due(self) -> bool:
        """Whether it is time for another state."""
        return monotonic() - self.last >= max(KEEP_S, PAUSES * self.cost_s)

    def holds(self, parts: int) -> bool:
        """Whether the folder has a state of fewer parts."""
        return any(int(path.stem.split("-")[1]) < parts for path in self.folder.glob("parts-*.state"))

    def keep(self, merged: Merged, context: Context) -> None:
        """Write the state, and remove those that are no longer needed."""
        self.store(self.taken(merged, context))

    def taken(self, merged: Merged, context: Context) -> Taken:
        """The state as it is now, to be stored: arrays are not copied, and must stay as they are.

        A view that holds what cannot be stored is left out; so is one that is about to write more rows.
        """
        whole = merged.parts == len(self.trace.parts)
        facts = {name: getattr(context, name) for name in WHOLE_TRACE}
        states = {"facts": state.take_apart(facts), "order": state.take_apart(merged.order)}
        for name, sketch in merged.sketches.items():
            if not whole and getattr(sketch, "rows", None) is not None:
                continue  # to store it would end its file, where the clock decides
            try:
                states[f"view {name}"] = state.take_apart(sketch)
            except TypeError:
                continue
        categories = {name: self.trace.so_far(name) for name in context.texts}
        for name, category in categories.items():
            if category.parts == merged.parts:  # one that was read beforehand is known for all parts
                texts = (category.texts.data, category.texts.ends, category.counts)
                states[f"texts {name}"] = state.take_apart(texts)
        header = {
            "identity": self.identity,
            "prints": self.prints[: merged.parts],
            "texts": {name: len(category.texts) for name, category in categories.items()},
            "asked": {name: sorted(asked) for name, asked in merged.asked.items()},
        }
        return Taken(merged.parts, header, states)

    def store(self, taken: Taken) -> None:
        """Write a state, which is used up, and remove those that are no longer needed."""
        begun = monotonic()
        state.write(self.folder / f"parts-{taken.parts:08d}.state", taken.header, taken.states)
        for path in sorted(self.folder.glob("parts-*.state"))[:-KEPT]:
            path.unlink()
        for path in self.folder.glob(".parts-*.part"):  # of a run that was killed as it wrote
            path.unlink()
        for path in self.folder.glob("slice-*.state"):
            if int(path.stem.split("-")[2]) <= taken.parts:
                path.unlink()
        self.last = monotonic()
        self.cost_s = self.last - begun


@dataclass(frozen=True)
class Taken:
    """A state that is to be stored: of how many parts, the file's header, the values taken apart."""

    parts: int
    header: dict[str, Any]
    states: dict[str, state.State]


@dataclass
class Kept:
    """A state that fits the start of a trace.

    parts  parts that it covers
    """

    reader: state.Reader
    parts: int

    def seed(self, trace: Trace, *, each: Each) -> None:
        """Take over the codes of texts, so that only the rest of the trace is read for them."""
        known, names = {}, list(self.reader.header["texts"])
        for name in names:
            if f"texts {name}" in self.reader.names:
                data, ends, counts = self.reader.value(f"texts {name}")
                texts = Texts()
                for _, some, offsets in pieces(data, ends):
                    texts.add(some, offsets)
                known[name] = Category(texts, counts.copy(), self.parts)
        trace.take_over(known)
        # the scan goes on with the codes of the state: it numbers what is late, if it has them
        trace.survey([name for name in names if name not in known or name not in LATE], each=each)

    def merged(self, views: Sequence[View], context: Context) -> tuple[Merged, list[str]]:
        """Sketches that go on, and a note on the views that must begin anew."""
        header = self.reader.header
        facts = self.reader.value("facts")
        sizes: dict[str, int] = header["texts"]
        whole = whole_names(context)
        old = Context(
            meta=context.meta,
            texts={name: context.texts[name][: sizes.get(name, 0)] for name in whole},
            options=context.options,
            **facts,
        )
        merged = Merged(self.parts, order=self.reader.value("order"))
        anew = []
        for view in views:
            asked = set(header["asked"].get(view.name, ()))
            try:
                if view.ordered or f"view {view.name}" not in self.reader.names:
                    raise CannotFitError
                if context.options.rows and getattr(view.new(context), "rows", None) is not None:
                    raise CannotFitError  # it writes rows while it scans
                if any(facts[name] != getattr(context, name) for name in asked):
                    raise CannotFitError
                read = [name for name in whole if name in view.columns]
                if any(len(context.texts[name]) < sizes.get(name, 0) for name in read):
                    raise CannotFitError
                fit = fitted(view, self.reader.state(f"view {view.name}"), old, context)
            except CannotFitError:
                anew.append(view)
                continue
            merged.asked[view.name] = asked
            merged.sketches[view.name] = state.put_together(fit, watched(context, asked))
        return merged, _notes(anew)


def _notes(anew: Sequence[View]) -> list[str]:
    if not anew:
        return []
    tables = ", ".join(table for view in anew for table in view.tables)
    return [
        f"resumed, but scanned from the start for {tables}: they need all rows in order, depend on the "
        "whole trace (its last requests, its heaviest models), or were not in the state"
    ]
