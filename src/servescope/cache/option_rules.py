"""Which options of a sweep go together: one that would change nothing is refused, not passed over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from servescope.cache.options import CacheOptions
from servescope.errors import UsageError

# option -> (field, the only unit that it means something to)
OF_UNIT = {
    "--credit": ("credit", "session"),
    "--preset": ("preset", "session"),
    "--rule": ("rule", "session"),
    "--look-back": ("look_back", "session"),
    "--parent-completed": ("parent_completed", "session"),
    "--max-gap": ("max_gap_s", "session"),
    "--unique": ("unique", "session"),
    "--pin": ("pin", "block"),
    "--host-capacity": ("host_capacities", "block"),
    "--reuse-rates": ("reuse_rates", "block"),
    "--sample": ("sample", "block"),
}
NOT_SAMPLED = {
    "--model": "models",
    "--window": "window_days",
    "--warmup": "warmup",
    "--pin": "pin",
    "--host-capacity": "host_capacities",
    "--reuse-rates": "reuse_rates",
    "--ttl": "ttl_s",
}  # what would change the curve of a whole trace
NOT_RUN = {"--policy": "policies", "--capacity": "capacities"}
WHY = {
    "--credit": "a hit of blocks saves their tokens",
    "--sample": "it follows a part of the prefix tree, and a session has none",
}


def refuse_foreign(unit: str, options: CacheOptions) -> None:
    """Raises UsageError for an option that the unit has no use for."""
    for option, (field, owner) in OF_UNIT.items():
        if owner != unit and _is_given(options, field):
            why = WHY.get(option, f"it changes nothing in a cache of {unit}s")
            raise UsageError(f"{option} belongs to --unit {owner}; {why}. Leave it out, or name that unit.")


def refuse_beside_sample(options: CacheOptions) -> list[str]:
    """A note on what a sample does not run. Raises UsageError for what it cannot take into account."""
    refused = [option for option, field in NOT_SAMPLED.items() if _is_given(options, field)]
    if refused:
        raise UsageError(
            f"--sample gives LRU's curve of a whole trace; it cannot take {', '.join(refused)} into account. "
            "Leave out one or the other."
        )
    unused = [option for option, field in NOT_RUN.items() if _is_given(options, field)]
    return [f"--sample gives LRU's curve alone: {' and '.join(unused)} not used"] if unused else []


def each_model_once(options: CacheOptions) -> tuple[CacheOptions, list[str]]:
    """The options with every model once, and a note on those that were named more often."""
    models = tuple(dict.fromkeys(options.models))
    twice = [model for model in models if options.models.count(model) > 1]
    notes = [f"the model {model} is named more than once and swept once" for model in twice]
    return replace(options, models=models), notes


def _is_given(options: CacheOptions, field: str) -> bool:
    usual = CacheOptions()
    own: Any = options if hasattr(options, field) else options.sessions
    plain: Any = usual if hasattr(usual, field) else usual.sessions
    return bool(getattr(own, field) != getattr(plain, field))
