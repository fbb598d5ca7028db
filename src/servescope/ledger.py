"""The ledger of a read: rows read = kept + dropped by named rule, plus repairs and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from servescope.errors import Fault

NOTE_LINES = 5  # a note lists this many source lines, then only counts


class Note(msgspec.Struct):
    """Something true of the source that is not an error: once per kind, with a count.

    one, many  the sentence for one and for several, `{n}` stands for the count
    count      how often it was seen
    lines      the first few source lines that show it (may be empty)
    """

    one: str
    many: str
    count: int = 0
    lines: list[int] = []

    def text(self) -> str:
        """The sentence, with its count and the first lines."""
        sentence = (self.one if self.count == 1 else self.many).replace("{n}", f"{self.count:,}")
        if not self.lines:
            return sentence
        more = ", …" if self.count > len(self.lines) else ""
        word = "line" if self.count == 1 else "lines"
        return f"{sentence} ({word} {', '.join(map(str, self.lines))}{more})"


class Ledger(msgspec.Struct):
    """What a read did with the rows of its sources. Stored in the trace and in every result.

    read      rows read (blank lines are not rows)
    kept      rows in the trace
    dropped   rule -> rows rejected under it
    repaired  rule -> rows changed under it (they stay in the trace)
    notes     kind -> note
    unit      what a row is ("request"; "conversation" where one item holds several requests)
    """

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = {}
    repaired: dict[str, int] = {}
    notes: dict[str, Note] = {}
    unit: str = "row"

    def drop(self, rule: str, count: int = 1) -> None:
        """Count `count` rows as rejected under `rule`. Changes the ledger."""
        if count:
            self.dropped[rule] = self.dropped.get(rule, 0) + count

    def repair(self, rule: str, count: int) -> None:
        """Count `count` rows as changed under `rule`. Changes the ledger."""
        if count:
            self.repaired[rule] = self.repaired.get(rule, 0) + count

    def note(self, kind: str, one: str, many: str = "", *, count: int = 1, line: int | None = None) -> None:
        """Count a note of `kind`; `{n}` in the sentences stands for the total. Changes the ledger."""
        if not count:
            return
        note = self.notes.setdefault(kind, Note(one, many or one))
        note.count += count
        if line is not None and len(note.lines) < NOTE_LINES:
            note.lines = [*note.lines, line]

    def texts(self) -> list[str]:
        """All notes as sentences, in the order in which they first arose."""
        return [note.text() for note in self.notes.values()]

    def balanced(self) -> bool:
        """Whether rows read = kept + dropped."""
        return self.read == self.kept + sum(self.dropped.values())

    def summary(self) -> str:
        """One line: rows read, kept, rejected by rule, repaired by rule."""
        rejected = sum(self.dropped.values())
        rules = ", ".join(f"{rule} {n:,}" for rule, n in sorted(self.dropped.items()))
        repairs = ", ".join(f"{rule} {n:,}" for rule, n in sorted(self.repaired.items()))
        line = f"{self.read:,} {self.unit}s read = {self.kept:,} kept + {rejected:,} rejected"
        line += f" ({rules})" if rules else ""
        return line + (f"; repaired: {repairs}" if repairs else "")


class Rejects:
    """The faults of a skipping read, in the order of the source.

    Held in memory; each is five short strings, and a source with millions of bad rows is
    better served by its first thousands than by a second file of its size, so only the first
    `keep` are kept and `total` counts the rest.
    """

    def __init__(self, keep: int = 100_000) -> None:
        self.faults: list[Fault] = []
        self.total = 0
        self._keep = keep

    def add(self, fault: Fault) -> None:
        """Record one fault. Changes the list."""
        self.total += 1
        if len(self.faults) < self._keep:
            self.faults.append(fault)
