"""The slow twin of session resolving and of chained block ids: dicts and loops."""

from __future__ import annotations


def parents(own: list[int | None], wanted: list[int | None]) -> list[int | None]:
    """Index of each row's stated parent, None for a root or a parent that is not there."""
    where: dict[int, int] = {}
    for index, key in enumerate(own):
        if key is not None:
            where.setdefault(key, index)
    return [None if key is None else where.get(key) for key in wanted]


def roots(parent: list[int | None]) -> list[int]:
    """First request of each row's tree."""
    out = []
    for index in range(len(parent)):
        at = index
        while (above := parent[at]) is not None:
            at = above
        out.append(at)
    return out


def turns(sessions: list[str | None]) -> tuple[list[int | None], list[int | None]]:
    """Previous row and turn (from 1) of each row inside its session."""
    previous: list[int | None] = []
    turn: list[int | None] = []
    for index, session in enumerate(sessions):
        before = [i for i in range(index) if session is not None and sessions[i] == session]
        previous.append(before[-1] if before else None)
        turn.append(None if session is None else len(before) + 1)
    return previous, turn


def is_chained(rows: list[list[int]]) -> bool:
    """Whether equal block ids always mean equal whole prefixes."""
    prefixes: dict[int, tuple[int, ...]] = {}
    return all(
        prefixes.setdefault(block, tuple(row[:at])) == tuple(row[:at])
        for row in rows
        for at, block in enumerate(row)
    )


def whole_prompts(
    new: list[int | None], outputs: list[int | None], parent: list[int | None], orphan: list[bool]
) -> list[int | None]:
    """Whole prompts from what is new in each, None where it cannot be known."""
    out: list[int | None] = []
    for index, tokens in enumerate(new):
        above = parent[index]
        if tokens is None or orphan[index]:
            out.append(None)
        elif above is None:
            out.append(tokens)
        else:
            before, answer = out[above], outputs[above]
            out.append(None if before is None or answer is None else tokens + before + answer)
    return out
