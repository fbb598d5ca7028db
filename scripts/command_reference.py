"""Write docs/commands.md from the command line itself: `python scripts/command_reference.py [--check]`.

`--check` writes nothing and fails where the page is stale.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from servescope.cli import GROUPS, command_name
from servescope.cli.options import reading_options

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "commands.md"
HEAD = """# Commands

This page is generated: `make docs` writes it, `make check` fails where it is stale.

Every command answers `--help`. `servescope --version` prints the version, and `servescope --debug COMMAND`
shows the traceback of an unexpected error.

With `--json` a command prints exactly one JSON document on standard output: `command`, `version`, `inputs`,
`ledger` (`read`, `kept`, `dropped`, `repaired`), `notes` and `tables` (those of up to 2,000 rows; larger ones
are in the Parquet files). Progress and messages go to standard error; on failure standard output is
empty, but for `check-policy`, which prints what failed.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | an unexpected error: a defect of servescope |
| 2 | wrong usage: an unknown option or format, a missing file, a unit that is not declared |
| 3 | bad data, or no space left to write it |
| 130, 143 | interrupted (Ctrl-C, SIGTERM); nothing half-written is left |
"""
READING_HEAD = "## Reading options\n\nEvery command that takes a `TRACE` takes these:\n"
TYPE_NAMES = {int: "N", float: "X", str: "TEXT"}


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, commands in GROUPS.items():
        parts.append(f"## {title}\n")
        parts.extend(section(command) for command in commands)
    shared = get_type_hints(reading_options, include_extras=True)
    parameters = inspect.signature(reading_options).parameters
    parts.append(READING_HEAD)
    parts.append(options_table([row(n, shared[n], p.default) for n, p in parameters.items()]))
    return "\n".join(parts)


def section(command: Callable[..., None]) -> str:
    """One command: what it does, an example, its own options."""
    says, _, example = inspect.getdoc(command).partition("\n\nExample: ")  # type: ignore[union-attr]
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    reads = hasattr(command, "own_options")
    own = {n: p for n, p in signature.parameters.items() if not reads or n in command.own_options}
    rows = [row(name, hints[name], parameter.default) for name, parameter in own.items()]
    takes = "\nAlso takes the [reading options](#reading-options).\n" if reads else ""
    lines = [
        f"### {command_name(command)}\n",
        f"{says}\n",
        f"```sh\n{example.strip()}\n```\n",
        options_table(rows),
    ]
    return "\n".join(lines) + takes


def row(name: str, hint: Any, default: object) -> tuple[str, str, str]:
    """One parameter: how it is written, its default, its help."""
    kind, info = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
    assert info is not None, f"{name} has no help"
    says = info.help or ""
    if isinstance(info, typer.models.ArgumentInfo):
        needed = "" if default is inspect.Parameter.empty else "none"
        more = "…" if list in {get_origin(part) for part in (kind, *get_args(kind))} else ""
        return f"`{info.metavar or name.upper()}{more}`", needed or "required", says
    # inside Annotated, Typer keeps the first way to write an option as its default
    names = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
    names = names or [f"--{name.replace('_', '-')}"]
    metavar = info.metavar or type_name(kind)
    written = ", ".join(
        f"`{option}{f' {metavar}' if metavar and option.startswith('--') else ''}`" for option in names
    )
    return written.replace("|", "\\|"), default_text(default), says


def type_name(kind: Any) -> str:
    """How a value of the option's type is written."""
    inner = (
        [part for part in get_args(kind) if part is not type(None)]
        if get_origin(kind) is not Literal
        else [kind]
    )
    kind = inner[0] if inner else kind
    if get_origin(kind) is Literal:
        return "|".join(get_args(kind))
    return TYPE_NAMES.get(kind, "") if kind is not bool else ""


def default_text(default: object) -> str:
    """The default as the page shows it."""
    if default is inspect.Parameter.empty:
        return "required"
    return "none" if default in (None, False) else f"`{default}`"


def options_table(rows: list[tuple[str, str, str]]) -> str:
    """A Markdown table of parameters."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    return (
        "\n".join([*lines, *(f"| {written} | {default} | {text} |" for written, default, text in rows)])
        + "\n"
    )


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(wanted, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != wanted:
        sys.exit(f"{PAGE.name} is stale; run `make docs` and commit it.")


if __name__ == "__main__":
    main()
