"""libCacheSim's oracleGeneral: binary records of 24 bytes, plain or compressed; objects become sessions.

A record is, little-endian, uint32 time in seconds, uint64 object id, uint32 size, int64 next access
(1-based, -1 for none). The size is read as input tokens. Source: libCacheSim, `oracleGeneralBin.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope.formats.columns import INT32_MAX
from servescope.formats.format import Chunk, Format, fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servescope.errors import Fault
    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

RECORD = np.dtype([("time", "<u4"), ("object", "<u8"), ("size", "<u4"), ("next", "<i8")])
RECORD_BYTES = RECORD.itemsize
NO_NEXT = (-1, 2**63 - 1)  # how writers say that the object does not come again
HEAD_BYTES = 64 << 10  # a sample of this size may be the start of something longer


def detect(sample: Sample) -> str | None:
    """No magic number: whole records whose times, sizes and next accesses make sense."""
    if sample.kind != "binary" or len(sample.head) < RECORD_BYTES:
        return None
    if len(sample.head) < HEAD_BYTES and len(sample.head) % RECORD_BYTES:
        return None
    records = np.frombuffer(sample.head, RECORD, len(sample.head) // RECORD_BYTES)
    if (np.diff(records["time"].astype(np.int64)) < 0).any() or not _sizes_good(records["size"]).all():
        return None
    if not _next_good(records):
        return None
    return (
        f"binary records of {RECORD_BYTES} bytes: in {len(records)} of them times do not go back, sizes are "
        "positive and the next accesses name the same object"
    )


def _sizes_good(sizes: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    return (sizes > 0) & (sizes <= INT32_MAX)


def _next_good(records: npt.NDArray[np.void]) -> bool:
    """Whether next accesses point forward, and inside the sample to the same object, counted from 0 or 1."""
    later, ids = records["next"], records["object"]
    stated = ~np.isin(later, NO_NEXT)
    position = np.arange(len(records))
    for base in (1, 0):
        target = later - base
        inside = stated & (target < len(records))
        forward = bool((target[stated] > position[stated]).all())
        if forward and bool((ids[target[inside]] == ids[inside]).all()):
            return True
    return False


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Records of one file. A cut last record is a fault."""
    context.decide("time is in s (fixed by the format)")
    context.decide("an object is a session, its size the input tokens of the request")
    context.decide("next accesses are not kept: they follow from the order")
    rest, number = b"", 1
    for block in source.blocks(context.options.progress):
        data = rest + block
        whole = len(data) // RECORD_BYTES
        rest = data[whole * RECORD_BYTES :]
        if whole:
            yield _chunk(source, np.frombuffer(data, RECORD, whole), number)
            number += whole
    if rest:
        yield _cut(source, len(rest), number)


def _chunk(source: Source, records: npt.NDArray[np.void], number: int) -> Chunk:
    lines = np.arange(number, number + len(records), dtype=np.int64)
    faults: dict[int, Fault] = {}
    for index in np.flatnonzero(~_sizes_good(records["size"])).tolist():
        size = int(records["size"][index])
        reason = "a request has at least one input token" if size == 0 else "does not fit in 32 bits"
        faults[index] = fault(source, int(lines[index]), "size", size, reason, rule="bad_count")
    columns = {
        "time_ns": records["time"].astype(np.int64) * 1_000_000_000,
        "input_tokens": records["size"].astype(np.int32),
        "session_key": pa.array(records["object"]).cast(pa.string()),
    }
    return Chunk(lines, columns, faults=faults)


def _cut(source: Source, length: int, number: int) -> Chunk:
    found = fault(
        source,
        number,
        "",
        None,
        f"the file ends after {length} of the record's {RECORD_BYTES} bytes",
        rule="truncated",
        remedy="Fetch the file again, or pass --on-bad-row skip to leave the cut record out.",
    )
    placeholder = np.zeros(1, RECORD)
    chunk = _chunk(source, placeholder, number)
    chunk.faults = {0: found}
    return chunk


FORMAT = Format("oracle_general", "libCacheSim oracleGeneral (binary object trace)", detect, chunks)
