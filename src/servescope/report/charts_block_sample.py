"""The figure of a sampled prefix tree: LRU's curve with its knee and the error of the draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt

from servescope.report.charts_blocks import CURVE, LIMIT, knee
from servescope.report.charts_cache import GIB, TALL, capacity_x
from servescope.report.figure import Drawing, Figure, NotDrawn, chart, number, percent

if TYPE_CHECKING:
    from servescope.report.saved import Saved


def sampled_points(saved: Saved) -> tuple[list[dict[str, float]], str]:
    """LRU's curve as x (capacity on the axis), y (block hit ratio), low, high; the title of the axis.

    low, high  one standard error around the ratio, held within 0 and 1
    """
    rows = [row for row in saved.rows("curve_sample") if row["capacity_tokens"]]
    if not rows:
        raise NotDrawn("the sample found no block twice")
    in_bytes = "capacity_bytes" in rows[0]
    points = []
    for row in rows:
        ratio, error = row["block_hit_ratio"], row["block_hit_ratio_error"]
        x = row["capacity_bytes"] / GIB if in_bytes else row["capacity_tokens"]
        points.append({"x": x, "y": ratio, "low": max(0.0, ratio - error), "high": min(1.0, ratio + error)})
    return points, f"capacity, {'GiB' if in_bytes else 'tokens'}"


def sampled_curve(saved: Saved) -> Drawing:
    """The curve, its error as a band, its knee as a rule."""
    points, title = sampled_points(saved)
    x = capacity_x(points, title)
    y = alt.Y("y:Q", title="block hit ratio").axis(format="%")
    tips = [alt.Tooltip("x:Q", title=title, format=",.4~g"), alt.Tooltip("y:Q", format=".2%")]
    band = chart(points, TALL).mark_area(opacity=0.14, style="middle")
    layers = [
        band.encode(x=x, y=alt.Y("low:Q", title="block hit ratio"), y2="high:Q"),
        chart(points, TALL).mark_line(interpolate="step-after").encode(x=x, y=y, tooltip=tips),
    ]
    bend = knee([(point["x"], point["y"]) for point in points])
    says = f"LRU reaches {percent(points[-1]['y'])} of the blocks with enough capacity"
    if bend is not None:
        layers.append(chart([{"x": bend[0]}], TALL).mark_rule(style="reference").encode(x=x))
        says += f"; the knee lies at {number(bend[0])} ({title.partition(', ')[2]}) with {percent(bend[1])}"
    part = saved.row("curve_sample_about").get("sampled_part")
    remark = "" if part is None else f"From {percent(part)} of the subtrees of the prefix tree."
    return Drawing(alt.layer(*layers), says + ".", remark)


FIGURES = {
    "sampled_hit_curve": Figure(
        "Block hit ratio by capacity, from a sample",
        CURVE,
        "Blocks found from the start of their prompt / block references in sampled subtrees of the prefix "
        "tree, for LRU; shaded: one standard error of the draw. Rule: the knee, where the curve stands "
        "highest above the straight line between its ends (capacity logarithmic).",
        LIMIT + " Below resolved_blocks (table curve_sample_about) a sample overstates misses.",
        ("curve_sample",),
        sampled_curve,
    )
}
