"""The formats that servescope writes: one file each, one row in `EXPORTS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from servescope import registry
from servescope.errors import UsageError
from servescope.files import atomic

if TYPE_CHECKING:
    from pathlib import Path

    from servescope.exports.target import Export
    from servescope.trace import Trace

EXPORTS: dict[str, str] = {
    "azure": "servescope.exports.azure",
    "bailian": "servescope.exports.bailian",
    "canonical": "servescope.exports.canonical",
    "csv": "servescope.exports.csv",
    "mooncake": "servescope.exports.mooncake",
    "oracle_general": "servescope.exports.oracle_general",
}


def load(name: str) -> Export:
    """The export of that name. Raises UsageError for an unknown one (it lists the known)."""
    return cast("Export", registry.load("export format", EXPORTS, name, "EXPORT"))


def export(
    trace: Trace, target: str | Path, *, to: str, lossy: bool = False, delta_prompts: bool = False
) -> list[str]:
    """Write the rows of `trace` to `target` in another tool's format; returns notes.

    to             name in `EXPORTS`
    lossy          accept what the format cannot hold; without it that is refused
    delta_prompts  write what each prompt adds to its parent's prompt and answer (csv)

    The target appears only when complete. Raises UsageError for an unknown format, and with the
    list of everything that would be lost, column by column and value by value.
    """
    from servescope.exports.delta import delta_trace
    from servescope.exports.losses import losses_of

    chosen = load(to)
    notes: list[str] = []
    if delta_prompts:
        if not chosen.takes_delta:
            raise UsageError(
                f"the prompts of {to} are whole prompts, so --delta-prompts does not fit; use --to csv."
            )
        trace, notes = delta_trace(trace)
    losses = losses_of(trace, chosen)
    if losses and not lossy:
        listed = "".join(f"\n  - {loss}" for loss in losses)
        raise UsageError(
            f"{to} cannot hold everything in this trace:{listed}\nPass --lossy to write it without that, "
            "or --to canonical, which holds everything."
        )
    notes.extend(f"lost: {loss}" for loss in losses)
    with atomic(target) as part:
        notes.extend(chosen.write(trace, part))
    return notes
