"""Chat templates: messages to the text that a server's model sees, rendered in a sandbox."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from jinja2 import TemplateError, TemplateSyntaxError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from servescope.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jinja2 import Template, nodes
    from jinja2.parser import Parser

    from servescope.formats.prompts import Prompt

SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token")


class Generation(Extension):
    """The tag {% generation %}, which marks text for training; it changes nothing in the text."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """The body of the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@dataclass(frozen=True)
class ChatTemplate:
    """A template ready to render.

    template  compiled
    special   special tokens that the template may name
    """

    template: Template
    special: dict[str, str]

    def __call__(self, prompt: Prompt) -> str:
        """The prompt's text, ending where the reply begins.

        Raises whatever the template raises; such an error may quote the prompt.
        """
        return self.template.render(
            messages=[_with_objects(message) for message in prompt.messages or []],
            tools=prompt.tools,
            add_generation_prompt=True,
            **self.special,
        )


def load_template(path: str) -> Callable[[Prompt], str]:
    """The chat template of a local file: Jinja text, or a tokenizer_config.json that holds one.

    No clock is given to the template, so the same messages always make the same text.
    Raises UsageError for a missing file and for text that is no template.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path}: the chat template cannot be read as UTF-8 text.") from None
    special: dict[str, str] = {}
    if text.lstrip()[:1] == "{" and text.lstrip()[1:2] not in ("{", "%", "#"):
        text, special = _from_config(path, text)
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _refuse
    try:
        return ChatTemplate(environment.from_string(text), special)
    except TemplateSyntaxError as error:
        raise UsageError(f"{path}:{error.lineno}: no valid chat template: {error.message}.") from None


def plain_text(prompt: Prompt) -> str:
    """Messages without a template: `role: content` and a line end each, in order.

    No model sees this text. Shared beginnings stay shared, token counts and the places of block
    borders are not those of a server.
    """
    lines = [f"{m.get('role')}: {m.get('content') or ''}\n" for m in prompt.messages or []]
    tools = [json.dumps(prompt.tools, ensure_ascii=False, sort_keys=True) + "\n"] if prompt.tools else []
    return "".join(tools + lines)


def _from_config(path: str, text: str) -> tuple[str, dict[str, str]]:
    """Template and special tokens of a tokenizer_config.json."""
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        raise UsageError(f"{path}: neither a Jinja template nor valid JSON.") from None
    held = config.get("chat_template")
    if isinstance(held, list):
        named = {item.get("name"): item.get("template") for item in held if isinstance(item, dict)}
        held = named.get("default")
    if not isinstance(held, str):
        raise UsageError(f"{path}: holds no chat_template (or several, and none is named default).")
    special = {}
    for name in SPECIAL:
        token = config.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        if isinstance(token, str):
            special[name] = token
    return held, special


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> None:
    raise TemplateError(message)


def _with_objects(message: dict[str, Any]) -> dict[str, Any]:
    """The message with tool arguments as objects, as servers hand them to templates."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_with_arguments(call) for call in calls]}


def _with_arguments(call: Any) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"])
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
