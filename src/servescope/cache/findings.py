"""The findings of "KVCache Cache in the Wild" (ATC'25, arXiv 2506.02634) on any trace, without a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from servescope.cache.concentration import concentration_table, prefixes_table
from servescope.cache.next_turns import alone, links_of, next_turn_table
from servescope.cache.reuse_times import lifespan_tables, reuse_tables, uses_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.cache.categories import Categories
    from servescope.cache.prompts import PromptTrace
    from servescope.result import Table


def findings(
    found: PromptTrace, categories: Categories, types: Sequence[str]
) -> tuple[list[Table], list[str]]:
    """Tables `reuse_time`, `reuse_fit`, `block_lifespan`, `lifespan_summary`, `reuse_concentration`,
    `top_prefixes` and `next_turn_probability`, and notes on what the trace cannot tell.

    types  texts of the codes in `found.columns["request_type"]`; none where there is no such column

    One pass over the block references; 40 bytes a node while it runs. Nothing is modified.
    """
    prompts = found.prompts
    untyped = np.full(len(prompts.tails), -1, np.int32)
    kinds = found.columns.get("request_type", untyped).astype(np.int32)
    end_us = int(prompts.arrival_us[-1]) if len(prompts.tails) else 0
    uses = uses_of(prompts, categories.codes, len(categories.names))
    links = links_of(found)
    times, short = reuse_tables(uses, categories.names, end_us)
    spans, cut = lifespan_tables(uses, categories.names, end_us)
    turns, late = next_turn_table(links, prompts.arrival_us, kinds, types)
    shares = concentration_table(found, uses, alone(links))
    prefixes = prefixes_table(prompts, uses, kinds, types)
    return [*times, *spans, shares, prefixes, turns], [*short, *cut, *late]
