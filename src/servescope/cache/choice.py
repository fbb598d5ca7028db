"""What `--policy` says: names of policies with parameters, or somebody's own file."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from servescope.cache.policies import BLOCK_POLICIES, OBJECT_POLICIES
from servescope.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BOUND = "bound"  # what no policy can pass; worked out, not replayed
OWN_FILE = ".py:"


@dataclass(frozen=True)
class Choice:
    """One policy of a sweep. Small and picklable: its module is loaded where it runs.

    text        how results name it: the name, and the parameters that were given
    name        in the table of policies, `BOUND`, or FILE.py:NAME
    parameters  what `new` is given
    """

    text: str
    name: str
    parameters: tuple[tuple[str, float], ...] = ()

    @property
    def own(self) -> bool:
        """Whether it is somebody's own file."""
        return OWN_FILE in self.name


def parse_choices(
    texts: Sequence[str], table: Mapping[str, str] = OBJECT_POLICIES
) -> tuple[list[Choice], list[str]]:
    """Choices in the order of the texts, each once, and notes; a text may hold several after commas.

    table  name -> module of the policies that may be named

    Raises UsageError for an unknown name or parameter, or a value that is no number.
    """
    found: dict[str, Choice] = {}
    notes = []
    for piece in (part.strip() for text in texts for part in text.split(",")):
        choice = parse_choice(piece, table)
        if choice.text in found:
            notes.append(f"the policy {choice.text} is named twice and run once")
        found[choice.text] = choice
    return list(found.values()), notes


def parse_choice(text: str, table: Mapping[str, str] = OBJECT_POLICIES) -> Choice:
    """One policy: NAME, NAME:PARAMETER=VALUE[:PARAMETER=VALUE…], FILE.py:CLASS[:PARAMETER=VALUE…].

    >>> parse_choice("s3fifo:threshold=2").parameters
    (('threshold', 2),)
    """
    before, own, rest = text.partition(OWN_FILE)
    name, *settings = rest.split(":") if own else text.split(":")
    if own:
        name = before + own + name
        if table is BLOCK_POLICIES:
            raise UsageError(f'the policy "{name}" caches whole sessions; add --unit session.')
    else:
        name = name.replace("-", "_")
        if name not in table and not (name == BOUND and table is not BLOCK_POLICIES):
            raise _unknown(name, table)
    known = {} if name == BOUND else policy_of(name, table).PARAMETERS
    given: dict[str, float] = {}
    for setting in settings:
        parameter, value = _setting(text, name, setting, known)
        if parameter in given:
            raise UsageError(f'the policy "{text}" gives {parameter} twice; keep one.')
        given[parameter] = value
    changed = sorted((key, value) for key, value in given.items() if value != known[key])
    shown = ":".join([name, *(f"{key}={value!r}" for key, value in changed)])
    return Choice(shown, name, tuple(changed))


def policy_of(name: str, table: Mapping[str, str] = OBJECT_POLICIES) -> Any:
    """The module of a policy, or somebody's own with the same PARAMETERS, new and run."""
    if OWN_FILE in name:
        from servescope.cache.outside import load_outside

        return load_outside(name)
    return import_module(table[name])


def _unknown(name: str, table: Mapping[str, str]) -> UsageError:
    if not name:
        return UsageError("a policy has no name. Example: --policy fifo,lru,s3fifo:threshold=2.")
    if "=" in name:
        return UsageError(
            f'"{name}" is no policy. Parameters follow their policy after a colon, several with a colon '
            "between: --policy NAME:PARAMETER=VALUE:PARAMETER=VALUE."
        )
    other = {**dict.fromkeys(BLOCK_POLICIES, "block"), **dict.fromkeys([*OBJECT_POLICIES, BOUND], "session")}
    if name in other and table in (OBJECT_POLICIES, BLOCK_POLICIES):
        return UsageError(f'the policy "{name}" is one of --unit {other[name]}. Here: {", ".join(table)}.')
    return unknown_name("policy", name, [*table, *([] if table is BLOCK_POLICIES else [BOUND])])


def _setting(text: str, name: str, setting: str, known: Mapping[str, float]) -> tuple[str, float]:
    parameter, sign, value = setting.partition("=")
    if not sign:
        raise UsageError(f'the policy "{text}" has a part "{setting}"; parameters are PARAMETER=VALUE.')
    if parameter not in known:
        close = difflib.get_close_matches(parameter, known, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        has = f"It has {', '.join(sorted(known))}." if known else "It has none."
        raise UsageError(f'the policy {name} has no parameter "{parameter}".{hint} {has}')
    try:
        number = float(value)
    except ValueError:
        raise UsageError(f'the policy "{text}": {parameter} is "{value}", not a number.') from None
    whole = isinstance(known[parameter], int) and number.is_integer()
    return parameter, int(number) if whole else number
