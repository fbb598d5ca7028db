"""Presets: the models, windows and ranks with which a published study looked at its trace.

Numbers of `chutes` are those of the study's artifact, revision d3cc9aa.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from servescope.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from servescope.trace import Trace

Days = tuple[float, float]
UNSTATED = ("threads", "progress", "rows")  # options that do not shape the numbers
CUT = (19 * 3600 + 59 * 60 + 59.984705) / 86400  # time of day at which its windows begin and end, in days


class Model(NamedTuple):
    """A model of a preset: its id, "" where it was chosen by name, and its names."""

    id: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Preset:
    """A study's own choices.

    highlights          models with lines of their own
    lb_models           models of the balance tables
    roles               what a balance model is drawn in: "load" (E4), "latency" (E5 to E8)
    lb_window_days, raster_user_days, raster_model_days
                        half-open windows in days of the trace clock
    raster_user_ranks   users of the rasters, by rank in `window_rank`
    raster_models       models of the rasters; raster_model_ranks: their ranks there
    """

    highlights: tuple[Model, ...]
    lb_models: tuple[Model, ...]
    roles: Mapping[str, Model]
    lb_window_days: Days
    raster_user_days: Days
    raster_model_days: Days
    raster_user_ranks: tuple[int, ...]
    raster_models: tuple[Model, ...]
    raster_model_ranks: tuple[int, ...]


V3_0324 = Model("0df3133d-c477-56d2-b4db-f2093bb150a1", ("deepseek-ai/DeepSeek-V3-0324-TEE",))
V3_2 = Model("398651e1-5f85-5e50-a513-7c5324e8e839", ("deepseek-ai/DeepSeek-V3.2-TEE",))
R1 = Model("6ff97a2a-ab6d-5a36-91e0-156339182e5f", ("deepseek-ai/DeepSeek-R1-TEE",))
MINIMAX = Model(
    "ce6a92e4-5c2f-5681-9742-c80a4447bbdf", ("MiniMaxAI/MiniMax-M2.5-TEE", "minimax/Minimax-2.5-TEE")
)

PRESETS: dict[str, Preset] = {
    "chutes": Preset(
        highlights=(V3_0324, R1, MINIMAX),
        lb_models=(V3_0324, V3_2),
        roles={"load": V3_0324, "latency": V3_2},
        lb_window_days=(305 + CUT, 364 + CUT),
        raster_user_days=(166 + CUT, 203 + CUT),
        raster_model_days=(166 + CUT, 227 + CUT),
        raster_user_ranks=(190, 134),
        raster_models=(Model("", ("Qwen/Qwen3-Next-80B-A3B-Instruct",)), Model("", ("openai/gpt-oss-20b",))),
        raster_model_ranks=(41, 36),
    )
}


class Applied(NamedTuple):
    """A preset on a trace: fields of `ViewOptions`, roles of balance models by text, notes."""

    fields: dict[str, Any]
    roles: dict[str, str]
    notes: list[str]


def apply(name: str, trace: Trace) -> Applied:
    """The preset's choices in the texts of this trace; models that it does not have are left out and noted.

    Raises UsageError for an unknown preset.
    """
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    preset = PRESETS[name]
    texts = list(trace.codes("model")) if trace.has("model") else []
    fields: dict[str, Any] = {
        "lb_window_days": preset.lb_window_days,
        "raster_user_days": preset.raster_user_days,
        "raster_model_days": preset.raster_model_days,
        "raster_user_ranks": preset.raster_user_ranks,
    }
    missing: dict[str, None] = {}
    for field in ("highlights", "lb_models", "raster_models"):
        found = []
        for model in getattr(preset, field):
            text = text_of(model, texts)
            if text is None:
                missing[model.names[0]] = None
            else:
                found.append(text)
        fields[field] = tuple(found)
    if not fields["raster_models"]:
        fields["raster_model_ranks"] = preset.raster_model_ranks
    roles = {role: text_of(model, texts) for role, model in preset.roles.items()}
    known = {role: text for role, text in roles.items() if text is not None}
    return Applied(fields, known, [f"preset {name}: the trace has no model {one}" for one in missing])


def settled(trace: Trace, options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Options of the views with a preset's filled in, the parameters to state, and notes.

    options  may hold `preset` and `compare`, which are only stated; a preset gives way to every
             option that is not empty

    Raises UsageError for an unknown preset.
    """
    own = dict(options)
    stated = {name: own.pop(name, None) for name in ("preset", "compare")}
    said: list[str] = []
    if stated["preset"]:
        applied = apply(stated["preset"], trace)
        own = {**applied.fields, **{name: value for name, value in own.items() if value}}
        stated["balance_roles"], said = applied.roles, applied.notes
    return own, {**stated, **{n: v for n, v in own.items() if n not in UNSTATED}}, said


def text_of(model: Model, texts: Iterable[str]) -> str | None:
    """The text that stands for a model in a trace: its id, its name, or its name with the id behind it.

    >>> text_of(Model("0df3", ("org/m",)), ["org/other", "org/m [0df3]"])
    'org/m [0df3]'
    """
    names = {name.lower() for name in model.names}
    for text in texts:
        plain, bracket, rest = text.lower().partition(" [")
        if text.lower() == model.id or (plain in names and (not bracket or rest == f"{model.id}]")):
            return text
    return None
