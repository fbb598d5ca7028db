"""Where reuse comes from, by type, and what follows."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from servescope.cache.advice import AFFINITY, LITTLE, TEMPLATES, reuse_advice
from servescope.cache.prompts import prompts_of
from tests.cache.prompts import BLOCK_TOKENS, PROMPTS
from tests.traces import build


def rows_of(**columns: list[Any]) -> dict[str, dict[str, Any]]:
    number = len(columns["block_ids"])
    trace = build({"arrival_us": list(range(number)), **columns}, block_tokens=BLOCK_TOKENS)
    types = trace.names("request_type") if trace.has("request_type") else []
    return {row["request_type"]: row for row in reuse_advice(prompts_of(trace), types).rows()}


@given(PROMPTS, st.lists(st.integers(0, 3), min_size=14, max_size=14))
def test_found_blocks_split_by_session(prompts: list[tuple[int, ...]], sessions: list[int]) -> None:
    sessions = sessions[: len(prompts)]
    row = rows_of(block_ids=[list(prompt) for prompt in prompts], session_id=sessions)["*"]
    found = own = 0
    for number, prompt in enumerate(prompts):
        for depth in range(1, len(prompt) + 1):
            before = [i for i in range(number) if prompts[i][:depth] == prompt[:depth]]
            found += bool(before)
            own += any(sessions[i] == sessions[number] for i in before)
    assert (row["found_blocks"], row["same_session_blocks"]) == (found, own)
    assert row["block_references"] == sum(map(len, prompts))


def test_chats_ask_for_affinity_templates_for_shared_prefixes_and_the_rest_for_nothing() -> None:
    chat = [[1], [1, 2, 3], [1, 2, 3, 4]]
    template = [[9, 10 + i] for i in range(4)]
    single = [[100 + i] for i in range(3)]
    rows = rows_of(
        block_ids=[*chat, *template, *single],
        session_id=[0, 0, 0, 1, 2, 3, 4, 5, 6, 7],
        request_type=["chat"] * 3 + ["template"] * 4 + ["single"] * 3,
    )
    advice = {name: row["advice"] for name, row in rows.items()}
    assert advice == {"*": AFFINITY, "chat": AFFINITY, "template": TEMPLATES, "single": LITTLE}
    assert rows["chat"]["same_session_share"] == 1 and rows["template"]["same_session_share"] == 0


def test_sessions_come_from_the_ids_where_none_are_stated() -> None:
    row = rows_of(block_ids=[[1, 2], [1, 2, 3], [1, 2, 3, 4]])["*"]
    assert (row["sessions_from"], row["same_session_blocks"], row["found_blocks"]) == ("block ids", 5, 5)
