"""A study's published rows beside ours: what it printed, what we count, how far apart, and why if we know."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from servescope.cache.study import Study, published_rows, published_workloads, study_models, study_named
from servescope.errors import UsageError
from servescope.tables import ratio, stacked

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from servescope.cache.options import CacheOptions
    from servescope.result import Table
    from servescope.trace import Trace

I64, F64, TEXT = pa.int64(), pa.float64(), pa.string()
KIB = 1024
ROUNDING = 0.00005  # published ratios have four decimals
ONE_USER = 0.884  # share of one user in minimax_m25: one instance's under sticky routing
CREDIT = (
    "Published numbers: William Nixon, Jon Durbin, Florian Standhartinger, Haryadi S. Gunawi, Juncheng Yang: "
    "A Year in LLM Serving: Workload Evolution, Caching and Load-Balancing (arXiv 2608.13573), CC BY 4.0. "
    "Nothing of theirs was measured here."
)
CELLS = {
    "workload": TEXT,
    "published_policy": TEXT,
    "policy": TEXT,
    "model": TEXT,
    "capacity_share": F64,
    "published_capacity_tokens": I64,
    "capacity_tokens": I64,
    "published_requests": I64,
    "requests": I64,
    "published_miss_ratio": F64,
    "miss_ratio": F64,
    "miss_ratio_deviation": F64,
    "published_byte_miss_ratio": F64,
    "byte_miss_ratio": F64,
    "byte_miss_ratio_deviation": F64,
    "cause": TEXT,
}
CELLS_DOC = (
    "Every published row of the study's eviction sweep beside ours at the same share of the working set. "
    "deviation: ours minus published; the published ratios have four decimals and sizes in whole KiB. cause: "
    "what is known to make a row differ, empty where it agrees. " + CREDIT
)
FACTS = {
    "workload": TEXT,
    "model": TEXT,
    "measure": TEXT,
    "published": F64,
    "ours": F64,
    "deviation": F64,
}
FACTS_DOC = (
    "The study's two workloads beside ours: requests, sessions and tokens. deviation: ours / published - 1. "
    + CREDIT
)
MEASURES = (
    "requests", "sessions", "linked_turns", "input_tokens", "prefix_tokens", "prefix_fraction",
    "working_set_tokens",
)  # fmt: skip
OF_POLICY = {
    "LRB": "the published LRB never trained, all its rows equal those of LRU, ours trains where it can",
    "BeladySize": "the published one looks at 128 candidates drawn anew in every run, ours at all residents",
    "LHD": "it evicts among few candidates drawn at random",
    "S3FIFO": "variants of the queue sizes differ where objects grow",
}


@dataclass(frozen=True)
class Found:
    """What our sweep found for one published workload: its row of `workload`, its rows of `cache`."""

    about: Mapping[str, Any]
    cells: Mapping[tuple[str, int], Mapping[str, Any]]


def workload_models(trace: Trace, options: CacheOptions, name: str) -> dict[str, str | None]:
    """Published workload -> the model of this trace that stands beside it, None where there is none.

    One `--model` stands for every workload, several for one each in their order. Raises UsageError where the
    trace has none of the study's models and none is named, or where too many are.
    """
    study = study_named(name)
    labels = [workload.label for workload in study.workloads]
    if not options.models:
        found = {workload.label: model for workload, model in study_models(trace, study)[0]}
        return {label: found.get(label) for label in labels}
    if len(options.models) not in (1, len(labels)):
        raise UsageError(
            f"--model is given {len(options.models)} times; give one model for all published workloads, or "
            f"one for each of {', '.join(labels)}, in this order."
        )
    models = list(options.models) * len(labels) if len(options.models) == 1 else list(options.models)
    return dict(zip(labels, models, strict=False))


def reproduced(
    name: str, models: Mapping[str, str | None], tables: Sequence[Table], credit: str
) -> list[Table]:
    """Tables `reproduce` and `reproduce_workload` from those of a sweep.

    models  published workload -> model of our trace
    credit  what hits were credited with
    """
    study = study_named(name)
    by_name = {table.name: table.rows() for table in tables}
    found = {}
    for label, model in models.items():
        about = next((row for row in by_name["workload"] if row["model"] == model), None)
        if about is not None:
            found[label] = Found(about, _cells(study, by_name["cache"], about))
    rows = [row for label in models for row in _rows(study, label, found.get(label), credit)]
    facts = [row for label in models for row in _facts(label, found.get(label))]
    return [
        stacked("reproduce", CELLS, [[row.get(key) for key in CELLS] for row in rows], CELLS_DOC),
        stacked("reproduce_workload", FACTS, facts, FACTS_DOC),
    ]


def _cells(
    study: Study, rows: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> dict[tuple[str, int], Mapping[str, Any]]:
    """(policy, place of the share) -> row; shares that mean the same tokens share a row."""
    found: dict[tuple[str, int], Mapping[str, Any]] = {}
    whole = about["working_set_tokens"]
    tokens = [int(Fraction(share.removesuffix("%")) / 100 * whole) for share in study.shares]
    for row in rows:
        if row["model"] == about["model"]:
            places = [place for place, count in enumerate(tokens) if count == row["capacity_tokens"]]
            found |= {(row["policy"], place): row for place in places}
    return found


def _rows(study: Study, label: str, found: Found | None, credit: str) -> list[dict[str, Any]]:
    published = [row for row in published_rows() if row["workload"] == label]
    made = []
    sizes = sorted({row["cache_size_kib"] for row in published})
    for row in published:
        policy = study.policies[row["policy"]]
        place = sizes.index(row["cache_size_kib"])
        ours = found.cells.get((policy, place)) if found else None
        one = {
            "workload": label,
            "published_policy": row["policy"],
            "policy": policy,
            "capacity_share": float(study.shares[place].removesuffix("%")) / 100,
            "published_capacity_tokens": row["cache_size_kib"] * KIB,
            "published_requests": row["requests"],
            "published_miss_ratio": row["miss_ratio"],
            "published_byte_miss_ratio": row["byte_miss_ratio"],
        }
        made.append(one | _ours(row, ours, found, credit))
    return made


def _ours(
    row: Mapping[str, Any], ours: Mapping[str, Any] | None, found: Found | None, credit: str
) -> dict[str, Any]:
    if found is None:
        return {"cause": "the trace has no such model"}
    if ours is None:
        return {"model": found.about["model"], "cause": "this policy or size was not run"}
    misses = [
        None if ours[name] is None else 1 - ours[name] for name in ("request_hit_ratio", "token_hit_ratio")
    ]
    off = [
        None if miss is None else miss - row[name]
        for miss, name in zip(misses, ("miss_ratio", "byte_miss_ratio"), strict=True)
    ]
    agrees = all(one is not None and abs(one) <= ROUNDING * 1.0001 for one in off)
    return {
        "model": ours["model"],
        "capacity_tokens": ours["capacity_tokens"],
        "requests": ours["requests"],
        "miss_ratio": misses[0],
        "miss_ratio_deviation": off[0],
        "byte_miss_ratio": misses[1],
        "byte_miss_ratio_deviation": off[1],
        "cause": "" if agrees else "; ".join(_causes(row, found.about, credit)),
    }


def _causes(row: Mapping[str, Any], about: Mapping[str, Any], credit: str) -> list[str]:
    """What is known to make a row differ, the weightiest first."""
    known = published_workloads()[row["workload"]]
    causes = []
    if about["requests"] != known["requests"]:
        causes.append(
            f"the trace is not the study's: {about['requests']:,} requests, published {known['requests']:,}"
        )
        if row["workload"] == "minimax_m25" and about["heaviest_share"] is not None:
            share = f"{100 * about['heaviest_share']:.0f}%"
            causes.append(
                f"one user made about 88% of the published requests; here the heaviest made {share}"
            )
    elif about["sessions"] != known["sessions"]:
        causes.append(
            f"sessions differ ({about['sessions']:,}, published {known['sessions']:,}): the study left the "
            "order of requests at equal times open, which decides a few links"
        )
    if credit != "prompt":
        causes.append("published hits credit the whole prompt, ours the kept prefix")
    if row["policy"] in OF_POLICY:
        causes.append(OF_POLICY[row["policy"]])
    return causes or ["not known"]


def _facts(label: str, found: Found | None) -> list[list[Any]]:
    known = published_workloads()[label]
    rows = []
    for measure in MEASURES:
        ours = None if found is None else _measured(found.about, measure)
        off = None if ours is None else ratio(ours - known[measure], known[measure])
        model = None if found is None else found.about["model"]
        rows.append([label, model, measure, float(known[measure]), ours, off])
    return rows


def _measured(about: Mapping[str, Any], measure: str) -> float | None:
    if measure == "linked_turns":
        return float(about["requests"] - about["sessions"])
    if measure == "prefix_fraction":
        return ratio(about["prefix_tokens"], about["input_tokens"])
    return float(about[measure])
