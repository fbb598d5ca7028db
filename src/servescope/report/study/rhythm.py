"""The study's view 2, rhythm: requests of one user over models, and of one model's users, B5 to B8."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from servescope.report.charts_models import short_names
from servescope.report.figure import POINTS, Drawing, Figure, NotDrawn, number
from servescope.report.study.cells import Floats, Ints, equal, keys, numbers, whole
from servescope.report.study.charts import EXACT, HALF_OPEN, IDS, POPULATION, raster

if TYPE_CHECKING:
    import pyarrow as pa

    from servescope.report.saved import Saved

    Row = dict[str, Any]

SHOWN_DAYS = 31
COLOURS = 9  # an index has the colour of its rest
STEPS_A_DAY = (1440, 480, 240, 144, 96, 48, 24, 12, 6, 4, 2, 1)
OTHERS_OF = {"user": "model", "model": "user"}


def _pick(saved: Saved, kind: str, place: int) -> pa.Table:
    """The rows of the `place`-th picked user or model, in the order in which they were asked for."""
    data = equal(saved.arrow("raster_rows"), "kind", kind)
    of = keys(data, kind)
    rank = whole(data, "rank")
    found = list(dict.fromkeys(np.sort(rank).tolist()))
    inputs = saved.document.get("inputs") or {}
    asked = inputs.get(f"raster_{kind}_ranks")
    if kind == "model" and inputs.get("raster_models"):
        rank_of = dict(zip((of.names[code] for code in of.codes), rank.tolist(), strict=True))
        asked = [rank_of.get(name) for name in inputs["raster_models"]]
    order = list(asked) if asked else found
    if place >= len(order) or order[place] not in found:
        raise NotDrawn(f"{len(found)} {kind}s were picked for this figure and its like")
    return data.filter(rank == order[place])


def dots(day: Floats, index: Ints) -> tuple[list[Row], int]:
    """One dot a cell of time and index,
    and how many cells a day has: so many that at most `POINTS` dots remain.

    A single request has its own place where all of them fit: then the second is 0.
    """
    if len(day) <= POINTS:
        times = [round(float(d), 4) for d in day]
        return [{"x": x, "y": y, "c": y % COLOURS} for x, y in zip(times, index.tolist(), strict=True)], 0
    for steps in STEPS_A_DAY:
        cells = np.unique(np.floor(day * steps).astype(np.int64) * (1 << 20) + index)
        if len(cells) <= POINTS:
            break
    cells = cells[:: -(-len(cells) // POINTS)]
    middle = ((cells >> 20) + 0.5) / steps
    places = cells & ((1 << 20) - 1)
    return [
        {"x": round(float(x), 4), "y": y, "c": y % COLOURS}
        for x, y in zip(middle, places.tolist(), strict=True)
    ], steps


def access(saved: Saved, kind: str, place: int) -> Drawing:
    """B5, B6 (users) and B7, B8 (models)."""
    data = _pick(saved, kind, place)
    other = OTHERS_OF[kind]
    day, index = numbers(data, "day"), whole(data, "index")
    rows, steps = dots(day, index)
    rank, name = int(whole(data, "rank")[0]), short_names([keys(data, kind).names[0]])[0]
    row = saved.row("window_rank", kind=kind, rank=rank)
    in_window = f", {number(row['requests'])} requests in the window" if row else ""
    who = "the user" if kind == "user" else name
    says = (
        f"Rank {rank} by requests ({who}{in_window}): {data.num_rows:,} requests over "
        f"{len(np.unique(index))} {other}s within {SHOWN_DAYS} days."
    )
    remark = "" if not steps else f"A dot stands for all requests of one {other} in 1/{steps} day."
    drawn = raster(rows, f"{other}, in the order of first requests")
    return Drawing(drawn, says, remark, f"{data.num_rows:,} requests")


USER_TEXT = (
    "Requests of one heavy user in the first 31 days after its first request in the raster window, by "
    "model; models "
    "numbered in the order of the user's first requests."
)
MODEL_TEXT = (
    "Requests to one model in the first 31 days after its first request in the raster window, by user; of "
    "more than "
    "800 users so many are drawn at random; users numbered in the order of their first requests."
)
ONE = "One example, no distribution. "
PICKED = (
    f"Picks are parameters, by rank or name; the study took ranks of an earlier window. {HALF_OPEN} Colours "
    "go round "
    "after 9, not 20."
)
DRAWN = "The draw is seeded as the study's, but by another generator, so it draws other users."

FIGURES: dict[str, Figure] = {
    "b5_user_raster_periodic": Figure(
        "One user over models: periodic", POPULATION, f"{USER_TEXT} The first picked user.", ONE + IDS,
        ("raster_rows",), partial(access, kind="user", place=0),
        "B5", "fig_user_raster_periodic", EXACT, PICKED,
    ),
    "b6_user_raster_explore": Figure(
        "One user over models: exploring", POPULATION, f"{USER_TEXT} The second picked user.", ONE + IDS,
        ("raster_rows",), partial(access, kind="user", place=1),
        "B6", "fig_user_raster_explore", EXACT, PICKED,
    ),
    "b7_model_raster_qwen3_next_80b": Figure(
        "One model's users", POPULATION, f"{MODEL_TEXT} The first picked model.", ONE + IDS,
        ("raster_rows",), partial(access, kind="model", place=0),
        "B7", "fig_model_raster_qwen3_next_80b", EXACT, f"{PICKED} {DRAWN}",
    ),
    "b8_model_raster_gpt_oss_20b": Figure(
        "Another model's users", POPULATION, f"{MODEL_TEXT} The second picked model.", ONE + IDS,
        ("raster_rows",), partial(access, kind="model", place=1),
        "B8", "fig_model_raster_gpt_oss_20b", EXACT, f"{PICKED} {DRAWN}",
    ),
}  # fmt: skip
