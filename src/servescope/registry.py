"""Literal tables of plug-ins: a name and the module that holds it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from servescope.errors import unknown_name

if TYPE_CHECKING:
    from collections.abc import Mapping


def load(kind: str, table: Mapping[str, str], name: str, attribute: str) -> Any:
    """The plug-in object `attribute` of the module that `table` gives for `name`.

    kind       what the table holds ("format", "view"), for the error message
    table      name -> dotted module path
    attribute  the module's attribute that is the plug-in

    Raises UsageError for a name that is not in the table (it lists the known names).
    """
    if name not in table:
        raise unknown_name(kind, name, table)
    return getattr(import_module(table[name]), attribute)
