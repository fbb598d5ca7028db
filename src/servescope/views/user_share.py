"""`user_share`: how much of the traffic the heaviest users make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.kernels.prefetch import prefetch
from servescope.kernels.room import cut, grown
from servescope.tables import ratio, stacked
from servescope.views.sketch import Context, View, held, int32

if TYPE_CHECKING:
    from servescope.result import Table
    from servescope.trace import Batch

COLUMNS = ("arrival_us", "user", "input_tokens")
TOP = 20
AHEAD = 512  # rows whose memory is asked for at once
DOC = (
    "The 20 heaviest users by requests, then the sum of the others, of requests without a user, and of all "
    "(rank is null for sums). Shares are of all requests and of all input tokens, unknown as 0."
)


@kernel
def _fold(counts: npt.NDArray[np.int64], user: npt.NDArray[np.int32], it: npt.NDArray[np.int32]) -> None:
    """Count rows in counts, int64[1 + users, 2] (requests, input tokens; no user first), modified."""
    for begin in range(0, len(user), AHEAD):
        end = min(begin + AHEAD, len(user))
        for i in range(begin, end):
            prefetch(counts, 2 * (np.int64(user[i]) + 1))
        for i in range(begin, end):
            at = np.uint64(user[i] + 1)
            counts[at, 0] += 1
            counts[at, 1] += it[i] if it[i] != schema.NULL_INT32 else 0


def _heaviest(requests: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The `TOP` users with most requests, then by code: only those that may be among them are sorted."""
    least = 0 if len(requests) <= TOP else np.partition(requests, -TOP)[-TOP]
    found = np.flatnonzero(requests >= least)
    return found[np.argsort(-requests[found], kind="stable")[:TOP]]


@dataclass
class UserShare:
    """counts int64[1 + users met so far, 2], see `_fold`."""

    context: Context
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((1, 2), np.int64))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it reads."""
        return held(self.context, COLUMNS)

    def update(self, batch: Batch) -> None:
        """Fold in the next rows."""
        user = int32(batch, "user")
        self.counts = grown(self.counts, 2 + int(user.max()))
        _fold(self.counts, user, int32(batch, "input_tokens"))

    def merge(self, later: UserShare) -> None:
        """Fold in the adjacent, later slice."""
        self.counts = grown(self.counts, len(later.counts))
        self.counts[: len(later.counts)] += later.counts

    def tables(self) -> list[Table]:
        """`user_share`."""
        texts = self.context.strings("user")
        nobody, known = self.counts[0], cut(self.counts[1:], len(texts))
        top = _heaviest(known[:, 0])
        rows: list[tuple[int | None, str, npt.NDArray[np.int64]]] = [
            (rank, texts[at].as_py(), known[at]) for rank, at in enumerate(top.tolist(), 1)
        ]
        total = self.counts.sum(axis=0)
        if len(known) > TOP:
            rows.append((None, "(other users)", total - nobody - known[top].sum(axis=0)))
        if nobody[0]:
            rows.append((None, "(no user)", nobody))
        rows.append((None, "(all)", total))
        columns = {
            "rank": pa.int64(),
            "user": pa.string(),
            "requests": pa.int64(),
            "request_share": pa.float64(),
            "input_tokens": pa.int64(),
            "input_share": pa.float64(),
        }
        has = self.context.has("input_tokens")
        values = [
            (
                rank,
                user,
                int(own[0]),
                ratio(int(own[0]), int(total[0])),
                int(own[1]) if has else None,
                ratio(int(own[1]), int(total[1])) if has else None,
            )
            for rank, user, own in rows
        ]
        return [stacked("user_share", columns, values, DOC)]


VIEW = View("user_share", COLUMNS, {"user_share": ("user",)}, UserShare)
