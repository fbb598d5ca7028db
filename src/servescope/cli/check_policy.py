"""The command that tests somebody's own cache policy; it needs no trace."""

from __future__ import annotations

from typing import Annotated

import typer

from servescope.cli import options  # noqa: TC001  (Typer reads the annotations)
from servescope.cli.show import progress_bars, show
from servescope.errors import DataError


def check_policy(
    policy: Annotated[
        str,
        typer.Argument(metavar="FILE:NAME", help="A policy of your own, FILE.py:NAME, or a built-in's name."),
    ],
    *,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random traces and of the policy.")] = 1,
    json: options.Json = False,
) -> None:
    """Test a cache policy on random traces.

    Each rule that every policy must keep, and the first trace on which it is broken. Exit code 3 if one is.

    Example: servescope check-policy ./my_policy.py:LRU2
    """
    from servescope import api

    with progress_bars():
        result = api.check_policy(policy, seed=seed)
    show(result, json=json)
    broken = [row["check"] for row in result["policy_checks"].rows() if row["failed"]]
    if broken:
        raise DataError(f"{policy} breaks {', '.join(broken)}; the table has an example of each.")


COMMANDS = (check_policy,)
