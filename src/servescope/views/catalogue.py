"""The table of views: which module makes a result table. A new one is one file and one row here."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from servescope import registry

if TYPE_CHECKING:
    from servescope.views.sketch import View

VIEWS: dict[str, str] = {
    "facts": "servescope.views.facts",
    "rate": "servescope.views.traffic",
    "arrival_stats": "servescope.views.traffic",
    "type_summary": "servescope.views.traffic",
    "type_share": "servescope.views.traffic",
    "length_ccdf": "servescope.views.traffic",
    "length_stats": "servescope.views.traffic",
    "user_share": "servescope.views.user_share",
    "load_hour": "servescope.views.load_hour",
    "model_day": "servescope.views.model_day",
    "value_hist": "servescope.views.value_hist",
    "month_shape": "servescope.views.month_shape",
    "shape_cell": "servescope.views.shape_cell",
    "hit_cell": "servescope.views.shape_cell",
    "user_stats": "servescope.views.key_stats",
    "model_stats": "servescope.views.key_stats",
    "instance_minute": "servescope.views.balance",
    "load_latency_cell": "servescope.views.balance",
    "user_hour": "servescope.views.balance",
    "user_hour_instance": "servescope.views.balance",
    "pair_count": "servescope.views.pairs",
    "pair_gap": "servescope.views.pairs",
    "pair_gap_hist": "servescope.views.pairs",
    "model_gap": "servescope.views.model_gaps",
    "model_gap_pair": "servescope.views.model_gaps",
    "model_hour": "servescope.views.model_gaps",
    "user_month_gap": "servescope.views.user_gaps",
    "window_rank": "servescope.views.window_rank",
    "block_reuse": "servescope.views.blocks",
    "reuse_ceiling": "servescope.views.blocks",
    "hit_rates": "servescope.views.blocks",
    "reuse_position": "servescope.views.blocks",
    "limits": "servescope.views.limits",
}


def load(name: str) -> View:
    """The view that makes the table `name`. Raises UsageError for an unknown one."""
    return cast("View", registry.load("view", VIEWS, name, "VIEW"))
