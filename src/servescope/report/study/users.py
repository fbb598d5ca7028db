"""The study's view 2, users and models: B1 to B4."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pyarrow.compute as pc

from servescope.report.figure import Drawing, Figure, NotDrawn, number, percent
from servescope.report.study.cells import (
    Floats,
    keys,
    log_cells,
    numbers,
    sums,
    whole,
)
from servescope.report.study.charts import (
    BINNED,
    EXACT,
    IDS,
    KEYED,
    POPULATION,
    SQUARES,
    density,
    diagonal,
)

if TYPE_CHECKING:
    from servescope.report.saved import Saved

    Row = dict[str, Any]

MODEL_GAPS = 100  # least gaps of a model of B1
USER_REQUESTS = 10  # users of B2 and B3 have more
CELLS_SAY = "Cells are squares of 10^(1/{}) in both directions; empty ones are blank."


def pairs_of(saved: Saved, of: str, other: str) -> tuple[list[str], Floats, Floats]:
    """Names of `of`, its requests and how many distinct `other` it has, from `pair_count`."""
    data = saved.arrow("pair_count")
    data = data.filter(pc.and_(pc.is_valid(data[of]), pc.is_valid(data[other])))
    found = keys(data, of)
    count = len(found.names)
    requests = sums(found.codes, whole(data, "requests"), count)
    return found.names, requests, np.bincount(found.codes, minlength=count).astype(np.float64)


def _dense(x: Floats, y: Floats, grid: int, titles: tuple[str, str, str]) -> tuple[alt.Chart, str]:
    """A density of log x and log y, and the remark on its cells."""
    rows, cells = log_cells(x, y, grid)
    return density(rows, *titles), CELLS_SAY.format(cells)


def model_users(saved: Saved) -> Drawing:
    """B1."""
    names, requests, users = pairs_of(saved, "model", "user")
    gaps = saved.arrow("model_gap")
    of = keys(gaps, "model")
    enough = {
        of.names[c]
        for c, n in zip(of.codes, whole(gaps, "n_gaps"), strict=True)
        if c >= 0 and n >= MODEL_GAPS
    }
    held = np.array([name in enough for name in names], np.bool_)
    if not held.any():
        raise NotDrawn(f"no model with users has {MODEL_GAPS} gaps above 0")
    drawn, remark = _dense(
        requests[held], users[held], 22, ("requests of the model", "distinct users of the model", "models")
    )
    few = percent(float(np.mean(users[held] <= 10)))
    says = (
        f"{int(held.sum()):,} models: in the median {number(float(np.median(requests[held])))} requests from "
        f"{number(float(np.median(users[held])))} users; {few} have at most 10 users."
    )
    return Drawing(drawn, says, remark, f"{int(held.sum()):,} models of {len(names):,}")


def user_models(saved: Saved) -> Drawing:
    """B2."""
    names, requests, models = pairs_of(saved, "user", "model")
    held = (requests > USER_REQUESTS) & (models > 1)
    if not held.any():
        raise NotDrawn(f"no user has more than {USER_REQUESTS} requests and more than one model")
    drawn, remark = _dense(
        requests[held], models[held], 24, ("requests of the user", "distinct models of the user", "users")
    )
    one = percent(float(np.mean(models == 1)))
    says = (
        f"{int(held.sum()):,} users: in the median {number(float(np.median(models[held])))} models, at most "
        f"{number(float(models.max()))}. {one} of all users ask one model only."
    )
    return Drawing(drawn, says, remark, f"{int(held.sum()):,} users of {len(names):,}")


def typical_shape(saved: Saved, table: str, above: int) -> Drawing:
    """B3 (users) and B4 (models): median input against median output, with the line y = x."""
    data = saved.arrow(table)
    n, it, ot = (numbers(data, column) for column in ("n_shape", "it_median", "ot_median"))
    held = (n > above) & (it > 0) & (ot > 0)
    who = {"user_stats": "users", "model_stats": "models"}[table]
    if not held.any():
        raise NotDrawn(f"none of the {who} has more than {above} requests with both sizes above 0")
    x, y = it[held], ot[held]
    drawn, remark = _dense(x, y, 24, (f"median input tokens of the {who[:-1]}", "median output tokens", who))
    low, high = max(float(x.min()), float(y.min())), min(float(x.max()), float(y.max()))
    layers: alt.TopLevelMixin = alt.layer(drawn, diagonal(low, high)) if low < high else drawn
    below = percent(float(np.mean(y < x)))
    says = (
        f"{len(x):,} {who}: median input {number(float(np.median(x)))}, median output "
        f"{number(float(np.median(y)))} in the middle; {below} lie below the line y = x (shorter answers "
        "than prompts)."
    )
    return Drawing(layers, says, remark, f"{len(x):,} {who}, {int(n[held].sum()):,} requests")


FIGURES: dict[str, Figure] = {
    "b1_model_requests_vs_users_density": Figure(
        "Models: requests and users", POPULATION,
        "Models by requests and by distinct users; models with at least 100 gaps above 0 between requests.",
        "Quieter models are not shown. " + IDS,
        ("pair_count", "model_gap"), model_users, "B1", "fig_model_requests_vs_users_density", EXACT,
        f"{KEYED} {SQUARES}",
    ),
    "b2_user_requests_distinct_models_heatmap": Figure(
        "Users: requests and models", POPULATION,
        "Users with more than 10 requests and more than one model, by requests and by distinct models.",
        IDS, ("pair_count",), user_models, "B2", "fig_user_requests_distinct_models_heatmap", EXACT,
        f"Distinct models are exact, the study's approximate. {KEYED} {SQUARES}",
    ),
    "b3_user_median_input_output_heatmap": Figure(
        "Users: typical request", POPULATION,
        "Users by the medians of input and of output tokens over requests with both above 0; more than 10 "
        "such "
        "requests. Dashed: y = x.",
        "Two medians need not come from one request. " + IDS,
        ("user_stats",), partial(typical_shape, table="user_stats", above=USER_REQUESTS),
        "B3", "fig_user_median_input_output_heatmap", BINNED, f"{KEYED} {SQUARES}",
    ),
    "b4_model_median_input_output_heatmap": Figure(
        "Models: typical request", POPULATION,
        "Models by the medians of input and of output tokens over requests with both above 0; at least one "
        "such request. Dashed: y = x.",
        "A model of one request weighs as much as any other.",
        ("model_stats",), partial(typical_shape, table="model_stats", above=0),
        "B4", "fig_model_median_input_output_heatmap", BINNED, SQUARES,
    ),
}  # fmt: skip
