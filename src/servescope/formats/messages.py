"""Messages of three interfaces in the one shape that chat templates take: OpenAI's chat messages.

Anthropic's `tool_use` and `tool_result` parts and the `function_call` and `function_call_output`
items of the responses interface become tool calls and messages of the role tool, as open servers
of those interfaces turn them. What is no text (images, sounds, hidden reasoning) is counted.

Source: OpenAI API reference (chat, responses), Anthropic API reference (Messages).
"""

from __future__ import annotations

import json
from typing import Any

TEXT_PARTS = ("text", "input_text", "output_text")
Message = dict[str, Any]


def chat_messages(messages: list[Any]) -> tuple[list[Message], int] | None:
    """Messages with plain text contents, and how many parts are no text; None if unreadable.

    Text parts of a message are joined by a line end.
    """
    out: list[Message] = []
    other = 0
    for item in messages:
        if not isinstance(item, dict):
            return None
        if isinstance(item.get("role"), str):
            made, parts = _message(item)
        else:
            made, parts = _item(item)
        out += made
        other += parts
    return out, other


def chat_tools(tools: Any) -> list[Any] | None:
    """Tool definitions in the chat interface's shape; None where there are none.

    Anthropic's hold `input_schema`, those of the responses interface `parameters` without a
    `function` around them.
    """
    if not isinstance(tools, list) or not tools:
        return None
    return [_tool(tool) if isinstance(tool, dict) else tool for tool in tools]


def _tool(tool: Message) -> Message:
    if "function" in tool or "name" not in tool:
        return tool
    function = {key: tool[key] for key in ("name", "description") if tool.get(key) is not None}
    function["parameters"] = tool.get("input_schema", tool.get("parameters"))
    return {"type": "function", "function": function}


def _message(message: Message) -> tuple[list[Message], int]:
    """One message, with the messages of role tool that its tool results become before it."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return [message], 0
    if not isinstance(content, list):
        return [message], 1
    found: list[str] = []
    results: list[Message] = []
    calls: list[Message] = []
    other = 0
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, str):
            found.append(part)
        elif kind in TEXT_PARTS and isinstance(part.get("text"), str):
            found.append(part["text"])
        elif kind == "tool_use":
            calls.append(_call(part.get("id"), part.get("name"), json.dumps(part.get("input"))))
        elif kind == "tool_result":
            made, parts = _message({"role": "tool", "content": part.get("content")})
            results += [{**one, "tool_call_id": part.get("tool_use_id")} for one in made]
            other += parts
        else:
            other += 1
    if results and not found and not calls:
        return results, other
    rest = {**message, "content": "\n".join(found)}
    return [*results, {**rest, "tool_calls": calls} if calls else rest], other


def _item(item: Message) -> tuple[list[Message], int]:
    """One item of the responses interface that is no message."""
    if item.get("type") == "function_call":
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments"))
        return [{"role": "assistant", "content": "", "tool_calls": [call]}], 0
    if item.get("type") == "function_call_output":
        made, other = _message({"role": "tool", "content": item.get("output")})
        return [{**one, "tool_call_id": item.get("call_id")} for one in made], other
    return [], 1


def _call(own: Any, name: Any, arguments: Any) -> Message:
    return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}
