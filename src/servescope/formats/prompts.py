"""Prompts inside a log: read only while `fingerprint` asks for them, and never handed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.formats.messages import chat_messages, chat_tools

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from servescope.formats.format import Context


@dataclass(frozen=True)
class Prompt:
    """What one request sent to the model; exactly one of the first three is set.

    messages     chat messages, contents as text
    text         a plain prompt (completions interface)
    token_ids    a prompt given as token ids
    tools        tool definitions, as the chat template takes them
    other_parts  images, sounds and other parts that are no text
    """

    messages: list[dict[str, Any]] | None = None
    text: str | None = None
    token_ids: list[int] | None = None
    tools: list[Any] | None = None
    other_parts: int = 0


@dataclass(frozen=True)
class PromptBlocks:
    """Blocks of some prompts, in their order.

    blocks        uint64[n], ids of all prompts, one after the other
    lengths       int32[rows], blocks of each prompt, -1 where it has none
    input_tokens  int32[rows], tokens counted, the null sentinel where there is no prompt
    problems      index -> name of the error of the chat template (never its text, which may hold the prompt)
    """

    blocks: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.int32]
    input_tokens: npt.NDArray[np.int32]
    problems: dict[int, str] = field(default_factory=dict)


class PromptEncoder(Protocol):
    """Turns prompts into block ids; made by `fingerprint`."""

    @property
    def block_tokens(self) -> int:
        """Tokens per block."""
        ...

    def encode(self, prompts: Sequence[Prompt | None]) -> PromptBlocks:
        """Block ids of all prompts; None stands for a request without text."""
        ...


def prompt_of(
    messages: Any = None, *, prompt: Any = None, system: Any = None, tools: Any = None
) -> Prompt | None:
    """The prompt of a request as a log holds it, None where there is no readable text.

    messages  chat messages (a list, or the list as JSON text), or one text
    prompt    of the completions interface: a text, token ids, or a list of one of these
    system    a system prompt outside the messages: a text, or text parts
    tools     tool definitions
    """
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str) and prompt:
        return Prompt(text=prompt)
    if isinstance(prompt, list) and prompt and all(type(token) is int and token >= 0 for token in prompt):
        return Prompt(token_ids=prompt)
    return _chat(_decoded(messages), system, chat_tools(tools))


def _decoded(messages: Any) -> Any:
    if isinstance(messages, str) and messages.lstrip()[:1] in ("[", "{"):
        try:
            return msgspec.json.decode(messages)
        except msgspec.DecodeError:
            return messages
    return messages


def _chat(messages: Any, system: Any, tools: list[Any] | None) -> Prompt | None:
    if isinstance(messages, str) and messages:
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list) or not messages:
        return None
    if system:
        messages = [{"role": "system", "content": system}, *messages]
    made = chat_messages(messages)
    return None if made is None else Prompt(messages=made[0], tools=tools, other_parts=made[1])


def add_blocks(
    context: Context,
    lines: npt.NDArray[np.int64],
    bad: Container[int],
    columns: dict[str, Any],
    prompts: list[Prompt | None],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """Blocks of a chunk's prompts; `input_tokens` becomes the counted number where there is text.

    lines    int64[rows], for notes
    bad      rows with a fault, or that reached no model; their prompt is None
    columns  of the chunk; `input_tokens` is replaced
    returns  uint64[n] ids of all rows, int32[rows] blocks of each row (-1: none)

    A prompt that holds images or the like has no blocks: its ids could not tell two images
    apart. Neither has one that the chat template refuses. Changes the context (block size, notes).
    """
    encoder = context.options.prompts
    assert encoder is not None
    context.block_tokens = encoder.block_tokens
    made = encoder.encode([None if p is None or p.other_parts else p for p in prompts])
    logged = columns["input_tokens"]
    counted = made.input_tokens > 0  # the null sentinel is negative
    differs = counted & (logged != schema.NULL_INT32) & (logged != made.input_tokens)
    for index, prompt in enumerate(prompts):
        if index in bad:
            continue
        line = int(lines[index])
        if prompt is None:
            _without_blocks(context, "no_text", ("holds", "hold"), "no text", line)
        elif prompt.other_parts:
            what = "images or other parts that are no text"
            _without_blocks(context, "not_text", ("holds", "hold"), what, line)
        elif index in made.problems:
            what = f"in the chat template ({made.problems[index]})"
            _without_blocks(context, f"template_{made.problems[index]}", ("failed", "failed"), what, line)
        if differs[index]:
            context.ledger.note(
                "token_count_differs",
                "{n} request was logged with other input tokens than counted; the count is kept",
                "{n} requests were logged with other input tokens than counted; the counts are kept",
                line=line,
            )
    columns["input_tokens"] = np.where(counted, made.input_tokens, logged).astype(np.int32)
    return made.blocks, made.lengths


def _without_blocks(context: Context, kind: str, verb: tuple[str, str], what: str, line: int) -> None:
    one = f"{{n}} request {verb[0]} {what}; it has no block ids"
    many = f"{{n}} requests {verb[1]} {what}; they have no block ids"
    context.ledger.note(kind, one, many, line=line)
