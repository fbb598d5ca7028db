"""Messages of three interfaces in one shape."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servescope.formats.messages import chat_messages, chat_tools
from servescope.formats.prompts import prompt_of


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def test_chat_messages_keep_their_keys_and_join_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"]
    messages = [{"role": "user", "content": parts, "name": "n"}, {"role": "assistant", "content": None}]
    assert chat_messages(messages) == (
        [{"role": "user", "content": "a\nb\nc", "name": "n"}, {"role": "assistant", "content": None}],
        0,
    )


def test_tool_use_and_result_become_calls_and_tool_messages() -> None:
    use = {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": 1}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "seen"}]}
    messages = [
        {"role": "assistant", "content": [{"type": "text", "text": "wait"}, use]},
        {"role": "user", "content": [result]},
        {"role": "user", "content": [result, {"type": "text", "text": "and?"}]},
    ]
    tool = {"role": "tool", "content": "seen", "tool_call_id": "c1"}
    assert chat_messages(messages) == (
        [
            {"role": "assistant", "content": "wait", "tool_calls": [_call("look", '{"at": 1}')]},
            tool,
            tool,
            {"role": "user", "content": "and?"},
        ],
        0,
    )


def test_items_of_the_responses_interface() -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ]
    assert chat_messages(items) == (
        [
            {"type": "message", "role": "user", "content": "hi"},
            {"role": "assistant", "content": "", "tool_calls": [_call("look", "{}")]},
            {"role": "tool", "content": "seen", "tool_call_id": "c1"},
        ],
        0,
    )


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "user", "content": {"odd": 1}},
        {"type": "reasoning", "summary": []},
        {"role": "user", "content": [{"type": "tool_result", "content": [{"type": "image"}]}]},
    ],
)
def test_what_is_no_text_is_counted(item: dict[str, Any]) -> None:
    made = chat_messages([item])
    assert made is not None
    assert made[1] == 1


@pytest.mark.parametrize("held", [None, "", [], {}, [1], ["x"], 5])
def test_what_is_no_prompt_gives_none(held: Any) -> None:
    assert prompt_of(held) is None


def test_tools_of_every_interface_get_one_shape() -> None:
    schema = {"type": "object"}
    wanted = {"type": "function", "function": {"name": "t", "description": "d", "parameters": schema}}
    anthropic = {"name": "t", "description": "d", "input_schema": schema}
    responses = {"type": "function", "name": "t", "description": "d", "parameters": schema}
    assert chat_tools([wanted, anthropic, responses, "odd"]) == [wanted, wanted, wanted, "odd"]
    assert chat_tools([]) is None
    assert chat_tools("t") is None


def test_prompts_of_every_kind() -> None:
    assert prompt_of("hello").messages == [{"role": "user", "content": "hello"}]  # type: ignore[union-attr]
    as_text = '[{"role": "user", "content": "x"}]'
    assert prompt_of(as_text).messages == [{"role": "user", "content": "x"}]  # type: ignore[union-attr]
    assert prompt_of(prompt=["one"]).text == "one"  # type: ignore[union-attr]
    assert prompt_of(prompt=[[1, 2]]).token_ids == [1, 2]  # type: ignore[union-attr]
    with_system = prompt_of([{"role": "user", "content": "x"}], system="be brief", tools=[{"name": "t"}])
    assert with_system is not None
    assert with_system.messages is not None
    assert with_system.messages[0] == {"role": "system", "content": "be brief"}
    assert with_system.tools is not None


KEYS = st.sampled_from(["role", "content", "type", "text", "input", "output", "arguments", "tool_calls"])
WORDS = st.sampled_from(
    ["user", "text", "tool_use", "tool_result", "function_call", "function_call_output", "["]
)
ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), WORDS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)


@given(ANY_JSON, ANY_JSON, ANY_JSON, ANY_JSON)
def test_whatever_a_log_holds_gives_a_prompt_of_texts_or_none(
    messages: Any, prompt: Any, system: Any, tools: Any
) -> None:
    made = prompt_of(messages, prompt=prompt, system=system, tools=tools)
    if made is not None:
        held = [made.messages, made.text, made.token_ids]
        assert sum(value is not None for value in held) == 1
        for message in made.messages or []:
            assert isinstance(message["role"], str)
            assert made.other_parts or message.get("content") is None or isinstance(message["content"], str)
