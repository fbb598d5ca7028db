"""How far can a rule of sessions be trusted? `python benchmarks/session_accuracy.py [--real FOLDER] …`.

Runs the published rule over traces whose sessions are known: made ones, where they are stated, and real ones
with block ids, if FOLDER holds them. Prints Markdown tables; `--docs docs/session-accuracy.md` puts them
between the marks of that page. Nothing is timed: the same options give the same numbers everywhere.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import make_blocks
import make_sessions
import numpy as np

from servescope import read
from servescope.sessions.accuracy import accuracy
from servescope.sessions.links import SessionOptions, session_links

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servescope.trace import Trace

Row = dict[str, Any]
LOOK_BACKS = (1, 2, 5, 10, 20, 50)
USERS = (1, 10, 100, 1_000)
PARALLEL = (1, 2, 5, 10, 50, 250)
CHAINS = 2_000  # of all users together
REAL = {"conversation": "mooncake_conversation.jsonl", "synthetic": "mooncake_synthetic.jsonl"}
# Another truth with which the rule finds nearly the same as in the shape of minimax: people, no bursts.
SLOW: Row = {
    "first_tokens": (475.0, 0.4), "new_tokens": (396.0, 2.2), "limit_tokens": 200_000,
    "again_first": 0.45, "again_later": 0.907, "think_s": (31.0, 1.2), "rest_s": (265.0, 1.0),
    "shortened": 0.005, "overlapping": 0.18,
}  # fmt: skip
# No sessions at all; prompts as long as that workload's, on average.
ALONE: Row = {"first_tokens": (20_000.0, 1.0), "again_first": 0.0}
# What the study's rule found in its two windows (sessions.json of the artifact): requests a session, sessions
# of one turn, mean input tokens, those of first turns, prefix tokens / input tokens. Then: links whose
# child began before its parent ended, which the study does not give.
PUBLISHED = {
    "published, MiniMax-M2.5": (3.911, 0.358, 32_045.0, 5_845.0, 0.642, None),
    "published, DeepSeek-V3.2": (2.910, 0.407, 11_850.0, 8_527.0, 0.548, None),
}
SHAPES = ("requests a session", "one turn", "mean input", "mean first input", "prefix share", "overlapping")
BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


@dataclass(frozen=True)
class Case:
    """One line of the tables: a trace, its truth, to how many users its sessions are dealt (0: its own)."""

    name: str
    trace: Trace
    truth: str = "stated"
    users: int = 0

    def rows(self, options: SessionOptions, look_backs: tuple[int, ...]) -> list[Row]:
        """A row of counts for each look-back."""
        users = (self.users,) if self.users else ()
        tables = accuracy(self.trace, options, truth=self.truth, look_backs=look_backs, users=users)
        by_name = {table.name: table.rows() for table in tables}
        return by_name["accuracy_users" if users else "accuracy_look_back"]


def shapes(rows: int) -> Iterator[tuple[str, make_sessions.Shape]]:
    """Made traces with stated sessions."""
    plain = replace(make_sessions.PRESETS["plain"], rows=rows, models=1)
    for parallel in PARALLEL:
        users = CHAINS // parallel
        yield (
            f"made, {parallel} chain{'s' * (parallel > 1)} a user",
            replace(plain, users=users, parallel=parallel),
        )
    for name in ("minimax", "deepseek"):
        preset = make_sessions.PRESETS[name]
        yield f"made, shape of {name}", replace(preset, rows=min(preset.rows, 4 * rows))
    minimax = replace(make_sessions.PRESETS["minimax"], rows=rows)
    yield "made, shape of minimax, slower", replace(minimax, **SLOW)
    yield "made, no sessions", replace(minimax, **ALONE)


def cases(rows: int, real: Path | None, folder: Path) -> Iterator[Case]:
    """All lines of the tables, one trace after the other."""
    for name, file in REAL.items() if real else ():
        trace = read(real / file)
        for users in USERS:
            yield Case(f"Mooncake {name}, {users:,} user{'s' * (users > 1)}", trace, "blocks", users)
    for name, shape in shapes(rows):
        path = folder / "sessions.parquet"
        make_sessions.make_canonical(path, shape)
        yield Case(name, read(path))
    path = folder / "blocks.parquet"
    make_blocks.make(path, replace(make_blocks.PRESETS["to-c"], rows=min(rows, 43_058)))
    for users in USERS[1:]:
        yield Case(f"made, shape of To-C, {users:,} users", read(path), "stated", users)


def number(value: float | None) -> str:
    """Three digits after the point; a dash for what is not defined."""
    return "–" if value is None else f"{value:.3f}"


def markdown(header: list[str], lines: list[list[str]]) -> str:
    """A table."""
    rule = ["---"] + ["---:"] * (len(header) - 1)
    return "\n".join("| " + " | ".join(line) + " |" for line in [header, rule, *lines]) + "\n"


def of_look_backs(found: dict[str, list[Row]]) -> str:
    """Precision and recall by look-back."""
    lines = []
    for name, rows in found.items():
        cells = [f"{number(row['precision'])} / {number(row['recall'])}" for row in rows]
        lines.append([name, number(rows[0]["active_mean"]), *cells])
    return markdown(["trace", "sessions at once", *(f"K = {k}" for k in LOOK_BACKS)], lines)


DETAILS: dict[str, Callable[[Row], str]] = {
    "requests": lambda r: f"{r['requests']:,}",
    "mean turns, true": lambda r: f"{r['requests'] / r['sessions_true']:.2f}",
    "mean turns, rule": lambda r: f"{r['requests'] / r['sessions_rule']:.2f}",
    "recall ceiling": lambda r: number(r["recall_ceiling"]),
    "exact parent": lambda r: number(r["exact_parent_share"]),
    "same session": lambda r: number(r["same_session_share"]),
    "purity": lambda r: number(r["purity"]),
    "completeness": lambda r: number(r["completeness"]),
    "prefix share, true": lambda r: number(r["reuse_tokens_true"] / r["input_tokens"]),
    "prefix share, rule": lambda r: number(r["reuse_tokens_rule"] / r["input_tokens"]),
    "reuse error": lambda r: number(r["reuse_token_error"]),
}


def of_details(found: dict[str, list[Row]]) -> str:
    """Everything else at K = 10."""
    at = LOOK_BACKS.index(10)
    lines = [[name, *(make(rows[at]) for make in DETAILS.values())] for name, rows in found.items()]
    return markdown(["trace, K = 10", *DETAILS], lines)


SHAPES_OF = (
    "made, 1 chain", "made, 10 chains", "made, 250 chains", "made, shape of minimax",
    "made, shape of deepseek", "made, no sessions",
)  # fmt: skip
OPTIONS_OF = (
    "Mooncake conversation, 1,000 users", "made, 1 chain a user", "made, 10 chains a user",
    "made, shape of minimax", "made, shape of deepseek", "made, shape of To-C, 1,000 users",
)  # fmt: skip
OPTIONS = {
    "published": SessionOptions(),
    "`--parent-completed`": SessionOptions(parent_completed=True),
    "`--max-gap 600`": SessionOptions(max_gap_s=600.0),
    "`--unique`": SessionOptions(unique=True),
}


def of_options(case: Case) -> list[list[str]]:
    """Lines of precision, recall and reuse error by option, K = 10."""
    lines = []
    for name, options in OPTIONS.items():
        if options.parent_completed and not case.trace.has("completed_us"):
            continue
        row = case.rows(options, (10,))[0]
        measured = ("precision", "recall", "reuse_token_error", "reuse_token_bias")
        lines.append([case.name, name, *(number(row[key]) for key in measured)])
    return lines


def shape_of(trace: Trace, options: SessionOptions) -> tuple[float | None, ...]:
    """The values of `SHAPES` as a rule finds them."""
    links = session_links(trace, options)
    names = ("input_tokens", "arrival_us", "completed_us")
    batches = list(trace.batches(names))
    tokens, start, end = (np.concatenate([batch[name] for batch in batches]) for name in names)
    part, linked = links.turn > 0, links.parent >= 0
    sizes = np.bincount(links.session[part])
    first = tokens[links.turn == 1].astype(np.float64)
    whole = tokens[part].astype(np.float64)
    # a prompt below its true parent's history, which was cut, reuses nothing that is known
    prefix = np.where(links.prefix_tokens <= tokens, links.prefix_tokens, 0)
    overlapping = (start[linked] < end[links.parent[linked]]).mean() if linked.any() else None
    return (
        part.sum() / len(first),
        (sizes == 1).sum() / len(first),
        whole.mean(),
        first.mean(),
        prefix.sum() / whole.sum(),
        overlapping,
    )


def shape_line(name: str, values: tuple[float | None, ...]) -> list[str]:
    """A line of `SHAPES`."""
    return [name, *(f"{value:,.0f}" if (value or 0) > 100 else number(value) for value in values)]


def of_blocks(folder: Path, rows: int) -> str:
    """The rule of blocks itself against stated sessions."""
    path = folder / "blocks.parquet"
    make_blocks.make(path, replace(make_blocks.PRESETS["to-c"], rows=min(rows, 43_058)))
    table = accuracy(read(path), SessionOptions(rule="blocks"))[0]
    row = table.rows()[0]
    measured = ("precision", "recall", "exact_parent_share", "purity", "completeness")
    header = ["rule `blocks`", *(name.replace("_", " ") for name in measured)]
    return markdown(header, [["made, shape of To-C", *(number(row[name]) for name in measured)]])


def report(rows: int, real: Path | None) -> str:
    """All tables."""
    found: dict[str, list[Row]] = {}
    by_option: list[list[str]] = []
    by_shape = [shape_line(name, values) for name, values in PUBLISHED.items()]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases(rows, real, folder):
            found[case.name] = case.rows(SessionOptions(), LOOK_BACKS)
            if case.name in OPTIONS_OF:
                by_option += of_options(case)
            if case.name.startswith(SHAPES_OF):
                for label, rule in (("rule", "paper"), ("true", "stated")):
                    values = shape_of(case.trace, SessionOptions(rule=rule))
                    by_shape.append(shape_line(f"{case.name}: {label}", values))
        blocks = of_blocks(folder, rows)
    header = ["trace, K = 10", "option", "precision", "recall", "reuse error", "reuse bias"]
    parts = {
        "Links: precision / recall by look-back": of_look_backs(found),
        "Sessions and tokens": of_details(found),
        "What the rule finds, beside what is there": markdown(["trace", *SHAPES], by_shape),
        "Options of the rule": markdown(header, by_option),
        "The rule of blocks": blocks,
    }
    return "\n".join(f"### {title}\n\n{text}" for title, text in parts.items())


def main() -> None:
    """Parse the options, print the tables or put them into the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="requests of each made trace")
    parser.add_argument("--real", type=Path, help="folder with the Mooncake traces")
    parser.add_argument("--docs", type=Path, help="page whose marked part is replaced")
    args = parser.parse_args()
    tables = report(args.rows, args.real)
    if args.docs is None:
        print(tables)
        return
    before, _, rest = args.docs.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    args.docs.write_text(f"{before}{BEGIN}\n\n{tables}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
