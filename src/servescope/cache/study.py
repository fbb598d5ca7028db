"""A published study's own sweep: its policies, its shares of the working set, its models and windows.

Numbers of `chutes` are those of the study's artifact; ATTRIBUTION.md beside them says whose they are.
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from servescope.cache.narrow import in_window
from servescope.errors import UsageError, unknown_name
from servescope.numbering import once
from servescope.sessions.links import window_us
from servescope.views.presets import CUT, MINIMAX, V3_2, Model, text_of

if TYPE_CHECKING:
    from servescope.cache.options import CacheOptions
    from servescope.sessions.links import SessionOptions
    from servescope.trace import Trace

DATA = Path(__file__).resolve().parents[1] / "data" / "chutes"
SHOWN_MODELS = 12
LEARNED = "lrb"


@dataclass(frozen=True)
class StudyWorkload:
    """One workload of a study: its label in the published rows, its model, its window in days."""

    label: str
    model: Model
    window_days: tuple[float, float]


@dataclass(frozen=True)
class Study:
    """A study's sweep.

    workloads  in the order of the published rows
    policies   published label -> policy here
    shares     capacities, parts of the working set
    credit     what its hits save
    """

    workloads: tuple[StudyWorkload, ...]
    policies: dict[str, str]
    shares: tuple[str, ...]
    credit: str


STUDIES: dict[str, Study] = {
    "chutes": Study(
        workloads=(
            StudyWorkload("minimax_m25", MINIMAX, (346 + CUT, 353 + CUT)),
            StudyWorkload("deepseek_v32", V3_2, (302 + CUT, 309 + CUT)),
        ),
        policies={
            "FIFO": "fifo",
            "LRU": "lru",
            "ARC": "arc",
            "LRB": "lrb",
            "S3FIFO": "s3fifo",
            "GDSF": "gdsf",
            "LHD": "lhd",
            "Sieve": "sieve",
            "BeladySize": "belady",
        },
        shares=("0.001%", "0.002%", "0.005%", "0.01%", "0.02%", "0.05%", "0.1%", "0.2%", "0.5%", "1%"),
        credit="prompt",
    )
}


def study_named(name: str) -> Study:
    """The study of that name. Raises UsageError for an unknown one."""
    if name not in STUDIES:
        raise unknown_name("study", name, STUDIES)
    return STUDIES[name]


@cache
def published_rows() -> tuple[dict[str, Any], ...]:
    """The published cells: workload, policy, cache_size_kib, requests, miss_ratio, byte_miss_ratio."""
    with (DATA / "eviction.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    whole, part = ("cache_size_kib", "requests"), ("miss_ratio", "byte_miss_ratio")
    return tuple(
        {**row, **{name: int(row[name]) for name in whole}, **{name: float(row[name]) for name in part}}
        for row in rows
    )


@cache
def published_workloads() -> dict[str, dict[str, Any]]:
    """Published facts of the workloads by label: requests, sessions, input_tokens, …"""
    found: dict[str, Any] = msgspec.json.decode((DATA / "workloads.json").read_bytes())
    return found["workloads"]  # type: ignore[no-any-return]


def settled(trace: Trace, options: CacheOptions) -> tuple[CacheOptions, list[SessionOptions], list[str]]:
    """Options with a preset's filled in, which rows each workload takes, and notes.

    Raises UsageError for an unknown preset, or a model that the trace does not have.
    """
    own, models = options.sessions, options.models
    if options.preset is None:
        known_models(trace, models)
        return options, [replace(own, model=model) for model in models or (None,)], []
    study = study_named(options.preset)
    usual, lacking = _usual(study)
    said = [] if options.policies else lacking
    if options.credit is None:
        said = [
            *said,
            f"preset {options.preset}: hits are credited with the whole prompt (--credit {study.credit})",
        ]
    filled = replace(
        options,
        policies=options.policies or usual,
        capacities=options.capacities or study.shares,
        credit=options.credit or study.credit,
    )
    if models:
        known_models(trace, models)
        return filled, [replace(own, model=model) for model in models], said
    found, notes = study_models(trace, study)
    notes = [*said, *notes]
    rows = []
    for workload, model in found:
        window = own.window_days or workload.window_days
        if own.window_days is None and not _has_requests(trace, model, window):
            days = f"days {window[0]:.4g} to {window[1]:.4g}"
            notes.append(
                f"the study's window of {workload.label} ({days}) holds no request of {model}: all its "
                "requests are used; --window FROM:TO chooses others"
            )
            rows.append(replace(own, model=model))
        else:
            rows.append(replace(own, model=model, window_days=window))
    return filled, rows, notes


def _usual(study: Study) -> tuple[tuple[str, ...], list[str]]:
    """The study's policies that can run here, and a note on one that cannot."""
    names = tuple(study.policies.values())
    if LEARNED not in names or find_spec("lightgbm") is not None:
        return names, []
    note = f'{LEARNED} is left out: it learns with LightGBM, in the extra of pip install "servescope[lrb]"'
    return tuple(name for name in names if name != LEARNED), [note]


def study_models(trace: Trace, study: Study) -> tuple[list[tuple[StudyWorkload, str]], list[str]]:
    """The study's workloads whose models this trace has, with their texts there; notes on the others.

    Raises UsageError where it has none of them.
    """
    texts = trace.names("model") if trace.has("model") else []
    named = [(workload, text_of(workload.model, texts)) for workload in study.workloads]
    found = [(workload, text) for workload, text in named if text is not None]
    if not found:
        wanted = " nor ".join(workload.model.names[0] for workload in study.workloads)
        raise UsageError(
            f"the trace has neither {wanted}. {_models_there(trace)} Name the model to put in their place "
            "with --model, or leave the study's preset out."
        )
    lacking = [workload.model.names[0] for workload, text in named if text is None]
    return found, [f"the trace has no model {name}: its published rows stand alone" for name in lacking]


def known_models(trace: Trace, names: tuple[str, ...]) -> None:
    """Raises UsageError for a model that the trace does not have; it lists those there."""
    texts = trace.names("model") if trace.has("model") else []
    for name in names:
        if name not in texts:
            close = difflib.get_close_matches(name, texts, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise UsageError(f'the trace has no model "{name}".{hint} {_models_there(trace)}')


def _models_there(trace: Trace) -> str:
    """The models of a trace in words, those with most requests first."""
    if not trace.has("model"):
        return "It states no models."
    found = trace.category("model")
    order = np.argsort(-found.counts, kind="stable")
    shown = [f"{found.names[place]} ({found.counts[place]:,} requests)" for place in order[:SHOWN_MODELS]]
    more = f" and {len(order) - SHOWN_MODELS:,} more" if len(order) > SHOWN_MODELS else ""
    return f"Its models: {', '.join(shown)}{more}."


def _has_requests(trace: Trace, model: str, window_days: tuple[float, float]) -> bool:
    low, high = window_us(trace, window_days)
    near = in_window(trace, window_days)
    for batch, known in once(near, ["arrival_us", "model"]):
        code = int(known["model"].find([model])[0])
        start = np.asarray(batch["arrival_us"], np.int64)
        if code >= 0 and ((batch["model"] == code) & (start >= low) & (start < high)).any():
            return True
    return False
