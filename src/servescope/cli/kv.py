"""The command that says what tokens cost in memory; it needs no trace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from servescope.cli import options  # noqa: TC001  (Typer reads the annotations)
from servescope.cli.show import show

if TYPE_CHECKING:
    from servescope.result import Result

SHOWN = ["model", "kv_dtype", "bytes_per_token", "fixed_bytes"]  # what a narrow terminal holds


def kv(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help="Name or Hugging Face repository; all if left out.")
    ] = None,
    *,
    kv_dtype: Annotated[
        str | None, typer.Option(help="Precision of the cache: bf16, fp16, fp8, int8, fp4, int4, fp32.")
    ] = None,
    tensor_parallel: Annotated[int, typer.Option(min=1, help="Ranks of one replica.")] = 1,
    tokens: Annotated[
        list[int] | None, typer.Option(min=0, metavar="N", help="Length of a sequence in tokens; repeatable.")
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(metavar="SPEED", help="Time to move sequences: 10GB/s, 900MiB/s.")
    ] = None,
    prefill_tokens_per_s: Annotated[
        float | None, typer.Option(help="Prompt tokens a second of a replica: time to compute again.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Print the bytes of KV cache by model.

    Of one model also the bytes of sequences, the time to move them, and to compute them again.

    Example: servescope kv minimax-m2.5 --tokens 100000 --bandwidth 10GB/s
    """
    from servescope import api
    from servescope.errors import UsageError

    if model is None:
        if tokens or bandwidth or prefill_tokens_per_s:
            raise UsageError("--tokens, --bandwidth and --prefill-tokens-per-s are of one MODEL; name it.")
        result = api.kv_models(kv_dtype=kv_dtype, tensor_parallel=tensor_parallel)
        show(result if json else _short(result), json=json, shown_rows=len(result["kv_models"].data))
        return
    result = api.kv_size(
        model,
        kv_dtype=kv_dtype,
        tensor_parallel=tensor_parallel,
        tokens=tokens or (),
        bandwidth=bandwidth,
        prefill_tokens_per_s=prefill_tokens_per_s,
    )
    show(result, json=json)


def _short(result: Result) -> Result:
    """The catalogue with the columns that a list for people shows."""
    table = result["kv_models"]
    return replace(result, tables={table.name: replace(table, data=table.data.select(SHOWN))})


COMMANDS = (kv,)
