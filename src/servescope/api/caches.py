"""Public functions about caches: replayed on a trace, somebody's own policy tested, their bytes."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from servescope.api.studies import REPORT_ENTRIES
from servescope.files import PathLike, atomic, refuse_target
from servescope.opening import TraceLike, trace_of
from servescope.provenance import document_of
from servescope.rejects import write_rejects

if TYPE_CHECKING:
    from collections.abc import Callable

    from servescope.result import Result
    from servescope.trace import Trace


def simulate_cache(
    trace: TraceLike, *, out: PathLike | None = None, figures: bool = True, **options: Any
) -> Result:
    """Replay the trace on caches, every policy at every capacity: table `cache`, and those about it.

    out      folder for tables, figures and a page of their own; None writes nothing
    options  policy="lru,s3fifo", capacity="1%,64GiB", credit, warmup, model, rule, … (the fields of
             `servescope.cache.options.CacheOptions` and `SessionOptions`); threads, engine, address, progress
    """
    from servescope.cache.result import asked, cache_result

    return _with_page(trace, out, figures, partial(cache_result, **asked(options)))


def reproduce(
    trace: TraceLike, *, study: str, out: PathLike | None = None, figures: bool = True, **options: Any
) -> Result:
    """A study's sweep of caches on this trace, every published row beside ours: table `reproduce`.

    study         its name, "chutes"
    out, options  as in `simulate_cache`; what is left out is chosen as in the study
    """
    from servescope.cache.result import asked, reproduce_result

    return _with_page(trace, out, figures, partial(reproduce_result, **asked({**options, "preset": study})))


def check_policy(policy: str, **options: Any) -> Result:
    """Try a cache policy, FILE.py:NAME or one of the table, on random traces: table `policy_checks`.

    options  seed, traces as in `servescope.cache.check.check_policy`
    """
    from servescope.cache import check

    return check.check_policy(policy, **options)


def kv_models(**options: Any) -> Result:
    """Table `kv_models`: bytes of KV cache by model, the whole catalogue; no trace is needed.

    options  kv_dtype, tensor_parallel as in `servescope.cache.memory.models_result`
    """
    from servescope.cache.memory import models_result

    return models_result(**options)


def kv_size(model: str, **options: Any) -> Result:
    """Bytes of KV cache of one model, of its sequences, and the time to move them or compute them again.

    model    name or alias in the catalogue, whatever the case
    options  kv_dtype, tensor_parallel, tokens, … as in `servescope.cache.memory.size_result`
    """
    from servescope.cache.memory import size_result

    return size_result(model, **options)


def _with_page(
    trace: TraceLike, out: PathLike | None, figures: bool, work: Callable[[Trace], Result]
) -> Result:
    """What `work` finds in the trace; written to the folder `out` with a page, if one is named."""
    from servescope.report.page import write_page

    if out is not None:
        refuse_target(out, folder=True, own=REPORT_ENTRIES)
    whole = trace_of(trace)
    with nullcontext(None) if out is None else atomic(out) as part:
        result = work(whole)
        if part is not None:
            write_page(result.tables, document_of(result, whole), part, figures=figures)
    if out is not None:
        write_rejects(whole.rejects, out)
    return result
