"""Logged messages into keyed, chained block ids: block features for a log, and no text leaves."""

from __future__ import annotations

from servescope.fingerprint.keys import key_digits, read_key
from servescope.fingerprint.run import fingerprint

__all__ = ["fingerprint", "key_digits", "read_key"]
