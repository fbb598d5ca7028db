"""The public functions: the only place that composes formats, views and reports.

Each takes a trace and returns a `Result`; what it writes appears whole or not at all. A trace is a
`Trace`, the path of one, or a function that reads one, called once it is sure where to write.
"""

from __future__ import annotations

from servescope.api.caches import check_policy, kv_models, kv_size, reproduce, simulate_cache
from servescope.api.studies import (
    DEMO_FOLDER,
    REPORT_ENTRIES,
    SAMPLE,
    WINDOWS_S,
    demo,
    report,
    report_from,
    sessions,
    views,
)
from servescope.api.traces import Progress, check, convert, export, fingerprint, info, read

__all__ = [
    "DEMO_FOLDER",
    "REPORT_ENTRIES",
    "SAMPLE",
    "WINDOWS_S",
    "Progress",
    "check",
    "check_policy",
    "convert",
    "demo",
    "export",
    "fingerprint",
    "info",
    "kv_models",
    "kv_size",
    "read",
    "report",
    "report_from",
    "reproduce",
    "sessions",
    "simulate_cache",
    "views",
]
