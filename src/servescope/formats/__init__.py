"""The formats that servescope reads: one file each, one row in `FORMATS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from servescope import registry

if TYPE_CHECKING:
    from servescope.formats.format import Format

FORMATS: dict[str, str] = {
    "azure": "servescope.formats.azure",
    "bailian": "servescope.formats.bailian",
    "burstgpt": "servescope.formats.burstgpt",
    "canonical": "servescope.formats.canonical",
    "chutes": "servescope.formats.chutes",
    "freeinference": "servescope.formats.freeinference",
    "litellm": "servescope.formats.litellm",
    "mooncake": "servescope.formats.mooncake",
    "openai_log": "servescope.formats.openai_log",
    "oracle_general": "servescope.formats.oracle_general",
    "otlp": "servescope.formats.otlp",
    "servegen": "servescope.formats.servegen",
    "sharegpt": "servescope.formats.sharegpt",
    "table": "servescope.formats.table",
}


def load(name: str) -> Format:
    """The format of that name. Raises UsageError for an unknown one (it lists the known)."""
    return cast("Format", registry.load("format", FORMATS, name, "FORMAT"))
