"""Options that several commands share: how to read a trace, and what to print."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE",
        help="Trace files of one format, read as one trace; - is standard input; s3://, https://, hf:// too.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Engine = Annotated[
    str, typer.Option(metavar="NAME", help="local: threads. ray: tasks of a Ray cluster (extra ray).")
]
Address = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Running Ray cluster; one is started if left out.")
]
Reading = dict[str, Any]  # keyword arguments of `api.read`


def reading_options(
    *,
    format: Annotated[str | None, typer.Option(help="Format of the sources; detected if left out.")] = None,
    map: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=COLUMN", help="Column of any table that holds a field; repeatable."),
    ] = None,
    time_unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of times that do not say theirs.")
    ] = None,
    block_tokens: Annotated[int | None, typer.Option(min=1, help="Tokens per prefix block.")] = None,
    on_bad_row: Annotated[
        Literal["strict", "skip"], typer.Option(help="Stop at the first bad row, or leave such rows out.")
    ] = "strict",
    cohorts: Annotated[
        str | None, typer.Option(metavar="FILE", help="Side table of user cohorts (Chutes).")
    ] = None,
    model_names: Annotated[
        str | None, typer.Option(metavar="FILE", help="Side table of model names (Chutes).")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(metavar="FILE", help="Local tokenizer file, for sources that hold text.")
    ] = None,
    chars_per_token: Annotated[
        float | None, typer.Option(help="Declared ratio that estimates tokens of text without a tokenizer.")
    ] = None,
    input_includes_cached: Annotated[
        bool | None,
        typer.Option(
            "--input-includes-cached/--input-excludes-cached",
            help="Whether a log's input counts include its cached tokens.",
            show_default=False,
        ),
    ] = None,
    delta_prompts: Annotated[
        bool, typer.Option("--delta-prompts", help="Input counts hold only what a turn adds.")
    ] = False,
    reorder_window: Annotated[
        float, typer.Option(min=0.0, metavar="S", help="Sort disorder of Parquet up to this many seconds.")
    ] = 0.0,
) -> Reading:
    """Keyword arguments of `api.read` from the shared options. Raises UsageError for a bad --map."""
    return {
        "format": format,
        "map": column_map(map or []),
        "time_unit": time_unit,
        "block_tokens": block_tokens,
        "on_bad_row": on_bad_row,
        "cohorts": cohorts,
        "model_names": model_names,
        "tokenizer": tokenizer,
        "chars_per_token": chars_per_token,
        "input_includes_cached": input_includes_cached,
        "delta_prompts": delta_prompts,
        "reorder_window_s": reorder_window,
    }


def column_map(pairs: list[str]) -> dict[str, str]:
    """FIELD=COLUMN texts as a dict.

    >>> column_map(["arrival=ts"])
    {'arrival': 'ts'}
    """
    mapped: dict[str, str] = {}
    for pair in pairs:
        field, sign, column = pair.partition("=")
        if not (field and sign and column):
            raise UsageError(f'--map takes FIELD=COLUMN, not "{pair}". Example: --map arrival=started_at.')
        if field in mapped:
            raise UsageError(f"--map names {field} twice ({mapped[field]} and {column}); keep one.")
        mapped[field] = column
    return mapped


def day_window(text: str | None, option: str) -> tuple[float, float] | None:
    """FROM:TO in days as two numbers. Raises UsageError for anything else.

    >>> day_window("305.5:364", "--lb-window")
    (305.5, 364.0)
    """
    if text is None:
        return None
    try:
        first, last = (float(part) for part in text.split(":"))
    except ValueError:
        raise UsageError(
            f'{option} takes FROM:TO in days, not "{text}". Example: {option} 305:364.'
        ) from None
    return first, last


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the shared reading options, handed over as its one argument `reading`."""
    return with_options("reading", reading_options)(command)


def with_options(
    argument: str, gather: Callable[..., dict[str, Any]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of `gather`, handed over as its one argument of that name.

    Typer builds options from the signature, so the wrapper shows the command's parameters
    followed by those of `gather`.
    """
    return functools.partial(_wrapped, argument=argument, gather=gather)


def _wrapped(
    command: Callable[..., None], *, argument: str, gather: Callable[..., dict[str, Any]]
) -> Callable[..., None]:
    hints = get_type_hints(command, include_extras=True)
    shared = get_type_hints(gather, include_extras=True)
    own = {n: p for n, p in inspect.signature(command).parameters.items() if n != argument}
    options = inspect.signature(gather).parameters

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in options if name not in own}
        command(**given, **{argument: gather(**chosen)})

    parameters = [p.replace(annotation=hints[n], kind=p.KEYWORD_ONLY) for n, p in own.items()]
    parameters += [p.replace(annotation=shared[n]) for n, p in options.items() if n not in own]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters}
    wrapper.own_options = tuple(own)  # type: ignore[attr-defined]  # for the command reference
    del wrapper.__wrapped__
    return wrapper
