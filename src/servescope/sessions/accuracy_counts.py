"""How links of a rule compare with the true ones: counts over all requests and by bins.

Every count is over the requests that take part in both, the rule and the truth. The formulas are in
docs/session-accuracy.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.kernels.jit import kernel
from servescope.tables import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.sessions.links import Links
    from servescope.trace import Trace

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NONE = -1
READ = ("arrival_us", "user", "model", "endpoint", "input_tokens", "output_tokens")


@dataclass(frozen=True)
class Facts:
    """What is read of a trace beside the links, all [rows].

    pair        dense code of user and model (one code where the trace states neither)
    endpoint    code, -1 for null or where the trace states none
    arrival_us  microseconds
    tokens_in   input tokens, `schema.NULL_INT64` for unknown; tokens_out: output tokens
    pairs       number of codes
    """

    pair: Ints
    endpoint: Ints
    arrival_us: Ints
    tokens_in: Ints
    tokens_out: Ints
    pairs: int


def read_facts(trace: Trace) -> Facts:
    """Read them. Raises UsageError without token counts."""
    held = [name for name in READ if trace.has(name)]
    columns = {name: np.full(trace.rows, NONE, np.int64) for name in READ}
    for batch in trace.batches(held):
        rows = slice(batch.start, batch.start + batch.rows)
        for name in held:
            values = batch[name].astype(np.int64)
            columns[name][rows] = np.where(values == schema.BY_NAME[name].null, NONE, values)
    models = int(columns["model"].max(initial=NONE)) + 2
    both = (columns["user"] + 1) * models + columns["model"] + 1
    known, pair = np.unique(both, return_inverse=True)
    tokens_in, tokens_out = (np.where(columns[n] < 0, schema.NULL_INT64, columns[n]) for n in READ[-2:])
    return Facts(pair, columns["endpoint"], columns["arrival_us"], tokens_in, tokens_out, len(known))


@kernel
def active_sessions(session: Ints, last: Ints, pair: Ints, pairs: int) -> Ints:
    """Sessions of the same pair that have begun and not sent their last request, the own one among them.

    session  int64[n], dense codes of sessions in time order, each of one pair; negative: takes no part
    last     int64[sessions], position of a session's last request
    pair     int64[n], codes below `pairs`
    returns  int64[n], 0 where a row takes no part

    Slow twin: tests/reference/accuracy.py.
    """
    begun = np.zeros(len(last), np.bool_)
    active = np.zeros(pairs, np.int64)
    found = np.zeros(len(session), np.int64)
    for i in range(len(session)):
        s = session[i]
        if s < 0:
            continue
        if not begun[s]:
            begun[s] = True
            active[pair[i]] += 1
        found[i] = active[pair[i]]
        if last[s] == i:
            active[pair[i]] -= 1
    return found


@kernel
def places(part: Flags, pair: Ints, pairs: int) -> Ints:
    """Place of each row among those of its pair that take part, from 0: int64[n]."""
    count = np.zeros(pairs, np.int64)
    found = np.zeros(len(part), np.int64)
    for i in range(len(part)):
        found[i] = count[pair[i]]
        count[pair[i]] += part[i]
    return found


@dataclass(frozen=True)
class Compared:
    """A rule's links beside the true ones, for the n requests that take part in both.

    rows         int64[n], their `request_id`s
    true_parent, rule_parent    int64[n], -1 for none; a true parent that takes no part is none
    true_session, rule_session  int64[n]
    tokens       int64[n], input tokens, 0 where they are unknown
    true_reuse, rule_reuse      int64[n], tokens of the history that a cache of sessions would save
    right        bool[n], a true link that the rule found
    findable     bool[n], the first true link of its parent in which the prompt grows, of one user, model
                 and endpoint: what a rule of growing chains can find at all
    same         bool[n], the rule's parent belongs to the request's true session
    turn, gap_us, active, distance  int64[n], true turn; from the true parent's start; sessions of the
                 user and model going on; their requests since the true parent; -1 where there is none
    outside      true parents that take no part
    """

    rows: Ints
    true_parent: Ints
    rule_parent: Ints
    true_session: Ints
    rule_session: Ints
    tokens: Ints
    true_reuse: Ints
    rule_reuse: Ints
    right: Flags
    findable: Flags
    same: Flags
    turn: Ints
    gap_us: Ints
    active: Ints
    distance: Ints
    outside: int


def compare(rule: Links, truth: Links, facts: Facts) -> Compared:
    """Put both beside each other; nothing is modified."""
    part = (rule.session >= 0) & (truth.session >= 0)
    rows = np.flatnonzero(part)
    parent = truth.parent[rows]
    inside = (parent >= 0) & part[parent]  # -1 looks at the last row, and is masked
    outside = int(((parent >= 0) & ~inside).sum())
    parent = np.where(inside, parent, NONE)
    own, above = rows[inside], parent[inside]
    history = facts.tokens_in[above] + facts.tokens_out[above]
    known = (facts.tokens_in[above] >= 0) & (facts.tokens_out[above] >= 0) & (facts.tokens_in[own] >= 0)
    reuse, gap, distance = np.zeros(len(rows), np.int64), *np.full((2, len(rows)), NONE, np.int64)
    reuse[inside] = np.where(known & (history <= facts.tokens_in[own]), history, 0)
    gap[inside] = facts.arrival_us[own] - facts.arrival_us[above]
    alike = (facts.pair[own] == facts.pair[above]) & (facts.endpoint[own] == facts.endpoint[above])
    place = places(part, facts.pair, facts.pairs)
    same_pair = facts.pair[own] == facts.pair[above]
    distance[inside] = np.where(same_pair, place[own] - place[above], NONE)
    findable = np.zeros(len(rows), np.bool_)
    fits = np.flatnonzero(inside)[known & alike & (history < facts.tokens_in[own])]
    findable[fits[np.unique(parent[fits], return_index=True)[1]]] = True
    chosen = rule.parent[rows]
    same = (chosen >= 0) & part[chosen] & (truth.session[chosen] == truth.session[rows])
    return Compared(
        rows, parent, chosen, truth.session[rows], rule.session[rows],
        np.maximum(facts.tokens_in[rows], 0), reuse, rule.prefix_tokens[rows],
        inside & (chosen == parent), findable, same, truth.turn[rows].astype(np.int64), gap,
        _active(truth.session[rows], facts.pair[rows], facts.pairs), distance, outside,
    )  # fmt: skip


def _active(session: Ints, pair: Ints, pairs: int) -> Ints:
    """Sessions going on at each request; one that changes its user or model counts with each."""
    _, codes = np.unique(session * pairs + pair, return_inverse=True)
    last = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
    last[codes] = np.arange(len(codes))  # the last of equal ones stays
    return active_sessions(codes, last, pair, pairs)


def link_counts(found: Compared, chosen: Flags | slice = slice(None)) -> dict[str, Any]:
    """Counts of links and of tokens of the chosen requests."""
    true = int((found.true_parent[chosen] >= 0).sum())
    rule = int((found.rule_parent[chosen] >= 0).sum())
    right = int(found.right[chosen].sum())
    reuse, claimed = found.true_reuse[chosen], found.rule_reuse[chosen]
    whole, said = int(reuse.sum()), int(claimed.sum())
    return {
        "requests": len(reuse),
        "links_true": true,
        "links_rule": rule,
        "links_right": right,
        "precision": ratio(right, rule),
        "recall": ratio(right, true),
        "input_tokens": int(found.tokens[chosen].sum()),
        "reuse_tokens_true": whole,
        "reuse_tokens_rule": said,
        "reuse_token_error": ratio(int(np.abs(claimed - reuse).sum()), whole),
        "reuse_token_bias": ratio(said - whole, whole),
    }


def session_counts(found: Compared) -> dict[str, Any]:
    """How the rule's sessions and the true ones overlap; see docs/session-accuracy.md."""
    rows = len(found.rows)
    _, rule = np.unique(found.rule_session, return_inverse=True)
    _, true = np.unique(found.true_session, return_inverse=True)
    rules, trues = (int(codes.max(initial=-1)) + 1 for codes in (rule, true))
    cells, sizes = np.unique(rule * max(trues, 1) + true, return_counts=True)
    of_rule, of_true = np.divmod(cells, max(trues, 1))
    most_rule, most_true = np.zeros(rules, np.int64), np.zeros(trues, np.int64)
    np.maximum.at(most_rule, of_rule, sizes)
    np.maximum.at(most_true, of_true, sizes)
    whole = np.bincount(rule, minlength=rules)[of_rule] == sizes
    whole &= np.bincount(true, minlength=trues)[of_true] == sizes
    linked, named = found.true_parent >= 0, found.rule_parent >= 0
    return {
        "sessions_true": trues,
        "sessions_rule": rules,
        "sessions_equal": int(whole.sum()),
        "exact_parent_share": ratio(int((found.right | (~linked & ~named)).sum()), rows),
        "same_session_share": ratio(int(found.same.sum()), int(named.sum())),
        "recall_ceiling": ratio(int(found.findable.sum()), int(linked.sum())),
        "purity": ratio(int(most_rule.sum()), rows),
        "completeness": ratio(int(most_true.sum()), rows),
        "merges": len(cells) - rules,
        "splits": len(cells) - trues,
        "active_mean": ratio(int(found.active.sum()), rows),
        "parents_outside": found.outside,
    }


def bins(values: Ints, edges: Sequence[int]) -> Ints:
    """Bin of each value, int64[n]: i where edges[i] <= value < edges[i + 1]; -1 below the first edge."""
    return np.searchsorted(np.array(edges), values, side="right") - 1
