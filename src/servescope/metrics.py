"""What the words mean: one definition per measure, used by the page, the tables and the glossary."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One measure.

    name        field term, as printed
    unit        unit of its values
    definition  one sentence, with the denominator where it is a ratio
    """

    name: str
    unit: str
    definition: str


METRICS: tuple[Metric, ...] = (
    Metric("TTFT", "s", "Time to first token: first non-empty token minus send (or arrival, in a trace)."),
    Metric("E2E latency", "s", "Last token minus send; in a trace, completion minus arrival."),
    Metric("TPOT", "s", "(E2E latency - TTFT) / (output tokens - 1), per request; undefined for one token."),
    Metric(
        "ITL", "s", "Each gap between consecutive streamed pieces, pooled; a piece may hold several tokens."
    ),
    Metric("prefill", "", "The prompt phase of a request: its input tokens are processed."),
    Metric(
        "decode", "", "The token phase of a request: its output tokens are generated one after the other."
    ),
    Metric("block", "tokens", "A fixed run of prompt tokens with one id; its size is stored in the trace."),
    Metric("prefix hit", "blocks", "Blocks found from the start of a prompt without a gap."),
    Metric("prefix reuse ratio", "", "Prefix-hit blocks with an unlimited cache / block references."),
    Metric(
        "token prefix reuse ratio", "", "Prompt tokens in prefix-hit blocks, unlimited cache / input tokens."
    ),
    Metric(
        "block reuse ratio", "", "References to a block id seen in any earlier request / block references."
    ),
    Metric("IAT", "s", "Inter-arrival time: arrival minus the previous arrival, zeros included."),
    Metric(
        "CV", "", "Coefficient of variation: standard deviation / mean (population unless said otherwise)."
    ),
    Metric(
        "peak-to-mean", "", "Requests per second of the busiest 10 s window / mean over all 10 s windows."
    ),
    Metric("think time", "s", "A turn's arrival minus the end of its parent; negative = overlapping turn."),
    Metric(
        "new tokens", "tokens", "input - parent's input - parent's output; null where history was shortened."
    ),
    Metric("session", "requests", "Requests that continue one another, stated by the source or rebuilt."),
    Metric("turn", "", "Place of a request in its session, from 1."),
    Metric(
        "prefix tokens", "tokens", "Input + output of the request that a turn continues; 0 on first turns."
    ),
    Metric(
        "prefix fraction", "", "Prefix tokens, at most each turn's own input / input tokens of all turns."
    ),
    Metric(
        "candidates", "requests", "How many earlier requests fitted as a turn's parent; 1 is not ambiguous."
    ),
    Metric(
        "look-back", "requests", "Last requests of a user and model among which a turn's parent is sought."
    ),
    Metric(
        "working set", "tokens", "First input of every session, added up; a size in percent is a part of it."
    ),
    Metric(
        "credit", "", "What a hit on a session saves: at most what it had cached (prefix), or the prompt."
    ),
    Metric(
        "request hit ratio", "", "Requests that found their session, or a block, in the cache / requests."
    ),
    Metric("token hit ratio", "", "Input tokens that hits saved / input tokens, after the warm-up."),
    Metric("block hit ratio", "", "Blocks found from the start of their prompt / block references."),
    Metric("block reference", "", "One block of one prompt; the same id in two prompts is two references."),
    Metric(
        "distinct blocks", "blocks", "Different prefixes: an id behind two different prefixes counts twice."
    ),
    Metric("cache scope", "", "What cached prefixes never cross: model, adapter, tenant, salt."),
    Metric("warm-up", "requests", "The first requests, which fill a cache and whose hits are not counted."),
    Metric(
        "hit curve", "", "Hit ratio of a policy by capacity; LRU's is known at every capacity in one pass."
    ),
    Metric("knee", "", "Where LRU's hit curve stands highest above its chord, capacity logarithmic."),
    Metric("clairvoyance", "", "A policy that knows the next use of every block (belady, belady_bypass)."),
    Metric("bound", "", "Hits that no policy can pass with sessions of unequal size; fractional."),
    Metric("tie", "", "A difference whose bootstrap interval over users holds 0."),
    Metric(
        "tier", "", "One of two memories: what leaves the device goes to the host, and comes back on use."
    ),
    Metric("pin", "s", "Hold the blocks of a request while it runs, so that nobody evicts them."),
    Metric("active KV", "tokens", "Prompt and answer so far of the requests that run at a time."),
    Metric(
        "workload-aware", "", "A policy that evicts the block least likely to be used soon, by type and turn."
    ),
    Metric("reuse time", "s", "From one use of a block to its next."),
    Metric("block lifespan", "s", "From the first use of a block to its last."),
    Metric(
        "session affinity", "", "Advice to send the turns of a session to one place: reuse lies within it."
    ),
    Metric("cross-request template", "", "A prefix that different sessions share, such as a system prompt."),
)
BY_NAME = {metric.name: metric for metric in METRICS}
