"""Commands that write a trace: convert, export, fingerprint."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

import typer

from servescope.cli.options import Json, Reading, Traces, day_window, with_reading
from servescope.cli.show import progress_bars, show

Out = Annotated[str, typer.Option("--out", "-o", metavar="FILE", help="File to write.", show_default=False)]


@with_reading
def convert(
    traces: Traces,
    *,
    out: Out,
    shard_rows: Annotated[
        int | None, typer.Option(min=1, help="Write a folder of files with at least this many rows each.")
    ] = None,
    reading: Reading,
    json: Json = False,
) -> None:
    """Write a trace as canonical Parquet, sorted by time.

    Example: servescope convert conversation.jsonl -o conversation.parquet
    """
    from servescope import api

    with progress_bars() as bar:
        reading = {**reading, "progress": bar("reading")}
        result = api.convert(*traces, out=out, shard_rows=shard_rows, written=bar("writing"), **reading)
    show(result, json=json)


@with_reading
def export(
    traces: Traces,
    *,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="Format to write (docs/formats.md lists them).", show_default=False
        ),
    ],
    out: Out,
    lossy: Annotated[
        bool,
        typer.Option(
            "--lossy", help="Accept that the format cannot hold everything; what is lost is listed."
        ),
    ] = False,
    delta_prompts: Annotated[
        bool,
        typer.Option(
            "--delta-prompts", help="Write only what each turn adds to its parent's prompt and answer."
        ),
    ] = False,
    objects: Annotated[
        Literal["sessions"] | None,
        typer.Option(help="Write sessions, stated or rebuilt, as the objects of requests (oracle_general)."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="With --objects: only requests of this model.")] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM:TO", help="With --objects: only these days of the trace clock."),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --objects: stated, paper, blocks.")
    ] = None,
    reading: Reading,
    json: Json = False,
) -> None:
    """Write a trace in another tool's format.

    Example: servescope export trace.parquet --to mooncake -o trace.jsonl --lossy
    """
    from servescope import api

    with progress_bars() as bar:
        trace = partial(api.read, *traces, progress=bar("reading"), **reading)
        chosen = {"model": model, "window_days": day_window(window, "--window"), "rule": rule}
        rows: dict[str, Any] = {name: value for name, value in chosen.items() if value is not None}
        result = api.export(
            trace, out=out, to=to, lossy=lossy, delta_prompts=delta_prompts, objects=objects, **rows
        )
    show(result, json=json)


@with_reading
def fingerprint(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG", help="Logs with messages, read as one.", show_default=False),
    ],
    *,
    out: Out,
    tokenizer: Annotated[
        str, typer.Option(metavar="FILE", help="Local tokenizer.json of the model.", show_default=False)
    ],
    key_file: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="Your secret, at least 16 bytes; it is not stored.", show_default=False
        ),
    ],
    chat_template: Annotated[
        str | None, typer.Option(metavar="FILE", help="Jinja file, or tokenizer_config.json, of the model.")
    ] = None,
    no_chat_template: Annotated[
        bool, typer.Option("--no-chat-template", help="Join messages as plain lines instead.")
    ] = False,
    block_tokens: Annotated[int, typer.Option(min=1, metavar="N", help="Tokens per block.")] = 16,
    keep_ids: Annotated[
        bool, typer.Option("--keep-ids", help="Keep users, sessions and request ids as logged.")
    ] = False,
    reading: Reading,
    json: Json = False,
) -> None:
    """Turn logged messages into keyed block ids.

    The result is a canonical trace with block ids, so that every block feature works; no text leaves.

    Example: servescope fingerprint log.jsonl -o t.parquet --tokenizer t.json --key-file k --no-chat-template
    """
    from servescope import api

    with progress_bars() as bar:
        result = api.fingerprint(
            *logs,
            out=out,
            key_file=key_file,
            chat_template=chat_template,
            no_chat_template=no_chat_template,
            keep_ids=keep_ids,
            **{**reading, "progress": bar("reading"), "tokenizer": tokenizer, "block_tokens": block_tokens},
        )
    show(result, json=json)


COMMANDS = (convert, export, fingerprint)
