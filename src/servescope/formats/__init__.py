"""The formats that servescope reads: one file each, one row in `FORMATS`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from servescope import registry

if TYPE_CHECKING:
    from servescope.formats.format import Format

FORMATS: dict[str, str] = {
    "bailian": "servescope.formats.bailian",
    "mooncake": "servescope.formats.mooncake",
}


def load(name: str) -> Format:
    """The format of that name. Raises UsageError for an unknown one (it lists the known)."""
    return cast("Format", registry.load("format", FORMATS, name, "FORMAT"))
