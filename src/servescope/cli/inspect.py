"""Commands that look at a trace and write nothing: info, check."""

from __future__ import annotations

from servescope.cli.options import Json, Reading, Traces, with_reading
from servescope.cli.show import progress_bars, show


@with_reading
def info(traces: Traces, *, reading: Reading, json: Json = False) -> None:
    """Print the facts of a trace.

    Requests, span, tokens, sessions, blocks, and how the source was read.

    Example: servescope info conversation.jsonl.zst
    """
    from servescope import api

    with progress_bars() as bar:
        result = api.info(*traces, progress=bar("reading"), **reading)
    show(result, json=json)


@with_reading
def check(traces: Traces, *, reading: Reading, json: Json = False) -> None:
    """Validate every row of a trace.

    Also the order, ids, sessions and blocks of the trace as a whole.

    Example: servescope check gateway.jsonl --on-bad-row skip --json
    """
    from servescope import api

    with progress_bars() as bar:
        result = api.check(*traces, progress=bar("reading"), **reading)
    show(result, json=json)


COMMANDS = (info, check)
