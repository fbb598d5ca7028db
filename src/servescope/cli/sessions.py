"""The command that finds the sessions of a trace."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer

from servescope.cli.options import Address, Engine, Json, Reading, Traces, day_window, with_reading
from servescope.cli.show import progress_bars, show
from servescope.errors import UsageError

Out = Annotated[
    str | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Parquet of all requests and sessions.", show_default=False
    ),
]
Tables = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder for the tables as Parquet, however long they are; with --against also for its figures.",
    ),
]
Rule = Annotated[
    Literal["paper", "stated", "blocks"] | None,
    typer.Option(help="How sessions are found; stated ones if there are any, else the published rule."),
]
LookBack = Annotated[
    int, typer.Option(min=1, help="Last requests of a user and model among which a parent is sought.")
]
Completed = Annotated[
    bool, typer.Option("--parent-completed", help="A parent must have ended when its child starts.")
]
MaxGap = Annotated[
    float | None, typer.Option(min=0.0, metavar="S", help="Longest time from start to start, seconds.")
]
Unique = Annotated[bool, typer.Option("--unique", help="No link where two parents fit equally well.")]
Model = Annotated[str | None, typer.Option(help="Only requests of this model.")]
Window = Annotated[
    str | None, typer.Option(metavar="FROM:TO", help="Only requests of these days of the trace clock.")
]
Against = Annotated[
    Literal["stated", "blocks"] | None,
    typer.Option(help="Measure the rule against sessions that are stated, or known from block ids."),
]
LookBacks = Annotated[
    str | None, typer.Option(metavar="K,K…", help="With --against: measure these look-backs, too.")
]
Users = Annotated[
    str | None,
    typer.Option(metavar="N,N…", help="With --against: also deal the known sessions to N users."),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; one a core if left out.")]


@with_reading
def sessions(
    traces: Traces,
    *,
    out: Out = None,
    tables: Tables = None,
    rule: Rule = None,
    look_back: LookBack = 10,
    parent_completed: Completed = False,
    max_gap: MaxGap = None,
    unique: Unique = False,
    model: Model = None,
    window: Window = None,
    against: Against = None,
    look_backs: LookBacks = None,
    users: Users = None,
    threads: Threads = None,
    engine: Engine = "local",
    address: Address = None,
    reading: Reading,
    json: Json = False,
) -> None:
    """Find the sessions of a trace.

    Stated sessions are used as they are; others are rebuilt from users, models, lengths and order.

    Example: servescope sessions trace.parquet -o sessions.parquet
    """
    from servescope import api

    with progress_bars() as bar:
        result = api.sessions(
            partial(api.read, *traces, progress=bar("reading"), **reading),
            out=out,
            tables=tables,
            against=against,
            look_backs=counts(look_backs, "--look-backs"),
            users=counts(users, "--users"),
            rule=rule,
            look_back=look_back,
            parent_completed=parent_completed,
            max_gap_s=max_gap,
            unique=unique,
            model=model,
            window_days=day_window(window, "--window"),
            threads=threads,
            engine=engine,
            address=address,
            progress=bar("linking"),
        )
    show(result, json=json)


def counts(text: str | None, option: str) -> tuple[int, ...]:
    """Whole numbers between commas. Raises UsageError for anything else.

    >>> counts("1,10", "--users")
    (1, 10)
    """
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(
            f'{option} takes whole numbers between commas, not "{text}". Example: {option} 1,10,50.'
        ) from None


COMMANDS = (sessions,)
