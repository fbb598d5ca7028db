"""ShareGPT conversations: a JSON array (or JSON lines) of `conversations`; no times, no tokens.

Every reply that follows a user message is one request; its prompt is everything before it. A
reply at the start, or right after another reply, is history. Lines are item numbers, and the
ledger counts items: an item holds any number of requests. Token counts are null until a
tokenizer file or a ratio is given; they are then sums over the messages' text, an estimate.

Source: the ShareGPT layout as FastChat documents it (docs/training.md: `id`, `conversations` of
`from`, `value`) and as vLLM's `benchmarks` read it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from servescope import schema
from servescope.errors import DataError, Fault
from servescope.formats.format import Chunk, Format, fault
from servescope.formats.jsonl import explain
from servescope.formats.lines import BOM, read_lines
from servescope.formats.prompts import Prompt, add_blocks
from servescope.formats.text_tokens import token_counter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from servescope.formats.format import Context, Sample
    from servescope.formats.source import Source

ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "assistant": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "system": "system",
}
ITEMS = 2_000  # conversations a chunk


class Message(msgspec.Struct):
    """One message."""

    role: str = msgspec.field(name="from")
    value: str = ""


class Item(msgspec.Struct):
    """One conversation."""

    conversations: list[Message]
    id: str | int | None = None


@dataclass
class Requests:
    """Requests of some items, in order. Changed as items are added.

    items       item number of each request
    session     session key of each
    turn        turn of each, from 1
    history     index of the reply among `messages`, and of its conversation's first message
    messages    all messages of the items
    """

    items: list[int] = field(default_factory=list)
    session: list[str] = field(default_factory=list)
    turn: list[int] = field(default_factory=list)
    history: list[tuple[int, int]] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)


def detect(sample: Sample) -> str | None:
    """Objects with `conversations` of `from` and `value`."""
    for item in sample.objects:
        messages = item.get("conversations")
        if isinstance(messages, list) and (not messages or _is_message(messages[0])):
            return "JSON objects with conversations of from and value"
    return None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and {"from", "value"} <= value.keys()


def chunks(source: Source, context: Context) -> Iterator[Chunk]:
    """Requests of a ShareGPT file; origin `none`."""
    context.origin = "none"
    context.ledger.unit = "conversation"
    context.optional = frozenset({"output_tokens", "input_tokens"})
    context.decide("the source has no arrival times; requests stand in source order")
    context.decide("each reply after a user message is a request, its prompt is everything before it")
    count = token_counter(context)
    decoder = msgspec.json.Decoder(Item)
    for batch in _batches(_items(source, context)):
        yield _chunk(source, context, batch, decoder, count)


def _items(source: Source, context: Context) -> Iterator[tuple[int, bytes]]:
    """Items of the file, numbered from 1, as JSON text. Raises DataError for a broken array."""
    if source.head().removeprefix(BOM).lstrip()[:1] != b"[":
        for piece in read_lines(source, context):
            yield from zip(piece.numbers.tolist(), piece.texts, strict=True)
        return
    whole = b"".join(source.blocks(context.options.progress)).removeprefix(BOM)
    try:
        items = msgspec.json.decode(whole, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        found = explain(source, 1, whole, error)
        raise DataError(
            f"{source.name}: the array is {found.reason}. Mend the file; items cannot be skipped in it."
        ) from None
    yield from enumerate((bytes(item) for item in items), start=1)


def _batches(items: Iterator[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    while batch := list(itertools.islice(items, ITEMS)):
        yield batch


def _chunk(
    source: Source,
    context: Context,
    batch: list[tuple[int, bytes]],
    decoder: msgspec.json.Decoder[Item],
    count: Callable[[Sequence[str]], list[int]] | None,
) -> Chunk:
    found = Requests()
    faults: dict[int, Fault] = {}
    for number, text in batch:
        item = _decoded(source, number, text, decoder)
        if isinstance(item, Fault):
            faults[_placeholder(found, number)] = item
        else:
            _add(context, found, number, item)
    lines = np.array(found.items, np.int64)
    columns = _columns(context, found, count)
    blocks = lengths = None
    if context.options.prompts is not None:
        prompts = [None if row in faults else _prompt(found, row) for row in range(len(lines))]
        blocks, lengths = add_blocks(context, lines, faults, columns, prompts)
    return Chunk(lines, columns, blocks=blocks, block_lengths=lengths, faults=faults, items=len(batch))


def _decoded(source: Source, number: int, text: bytes, decoder: msgspec.json.Decoder[Item]) -> Item | Fault:
    """The item, or what is wrong with it (no value is shown: it may be somebody's text)."""
    try:
        item = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return replace(explain(source, number, text, error), value="")
    for index, message in enumerate(item.conversations):
        if message.role not in ROLES:
            name = f"conversations[{index}].from"
            reason = f"unknown role (known: {', '.join(ROLES)})"
            return fault(source, number, name, message.role, reason, rule="unknown_role")
    return item


def _placeholder(found: Requests, number: int) -> int:
    """Add a row that stands for a bad item; returns its index. Changes `found`."""
    found.items.append(number)
    found.session.append("")
    found.turn.append(1)
    found.history.append((0, 0))
    return len(found.items) - 1


def _add(context: Context, found: Requests, number: int, item: Item) -> None:
    """Add the requests of one conversation. Changes `found` and the ledger's notes."""
    roles = [ROLES[message.role] for message in item.conversations]
    replies = [i for i, role in enumerate(roles) if role == "assistant"]
    _note(context, number, roles)
    first = len(found.messages)
    found.messages.extend(item.conversations)
    key = _session_key(context, number, item)
    asked = [i for i in replies if i and roles[i - 1] != "assistant"]
    for turn, reply in enumerate(asked, start=1):
        found.items.append(number)
        found.session.append(key)
        found.turn.append(turn)
        found.history.append((first + reply, first))


def _session_key(context: Context, number: int, item: Item) -> str:
    """The conversation's id; a missing or repeated one gets the item's number."""
    seen: set[str] = context.state.setdefault("conversation_ids", set())
    key = f"item {number}" if item.id is None else str(item.id)
    if key in seen:
        context.ledger.note(
            "repeated_id",
            "{n} conversation repeats an earlier id; it is a session of its own",
            "{n} conversations repeat an earlier id; each is a session of its own",
            line=number,
        )
        key = f"{key} (item {number})"
    seen.add(key)
    return key


def _note(context: Context, number: int, roles: list[str]) -> None:
    ledger = context.ledger
    if not roles:
        ledger.note("empty", "{n} empty conversation", "{n} empty conversations", line=number)
    elif "assistant" not in roles:
        one, many = "{n} conversation without any reply", "{n} conversations without any reply"
        ledger.note("no_reply", one, many, line=number)
    elif roles[0] == "assistant":
        one = "{n} conversation starts with a reply; it is kept as history in the prompts"
        many = "{n} conversations start with a reply; it is kept as history in the prompts"
        ledger.note("leading_reply", one, many, line=number)
    pairs = sum(a == b == "assistant" for a, b in itertools.pairwise(roles))
    ledger.note(
        "reply_after_reply",
        "{n} reply follows another reply; it is kept as history, not as a request",
        "{n} replies follow another reply; they are kept as history, not as requests",
        count=pairs,
        line=number if pairs else None,
    )


def _columns(
    context: Context, found: Requests, count: Callable[[Sequence[str]], list[int]] | None
) -> dict[str, Any]:
    rows = len(found.items)
    inputs = np.full(rows, schema.NULL_INT32, np.int32)
    outputs = np.full(rows, schema.NULL_INT32, np.int32)
    real = np.array([bool(key) for key in found.session], np.bool_)
    if count is None:
        empty = [row for row in np.flatnonzero(real) if not found.messages[found.history[row][0]].value]
        outputs[empty] = 0  # an empty reply has no token under any tokenizer
    elif found.messages:
        tokens = np.asarray(count([message.value for message in found.messages]), np.int64)
        before = np.concatenate([[0], np.cumsum(tokens)])
        reply, first = np.array(found.history, np.int64).reshape(-1, 2).T
        inputs = np.where(before[reply] > before[first], before[reply] - before[first], inputs).astype(
            np.int32
        )
        outputs = tokens[reply].astype(np.int32)
        wordless = int(((inputs == schema.NULL_INT32) & real).sum())
        one = "{n} request has a prompt without any text; its input tokens are unknown"
        many = "{n} requests have prompts without any text; their input tokens are unknown"
        context.ledger.note("wordless_prompt", one, many, count=wordless)
    return {
        "input_tokens": inputs,
        "output_tokens": outputs,
        "session_key": found.session,
        "turn": np.array(found.turn, np.int32),
    }


def _prompt(found: Requests, row: int) -> Prompt:
    reply, first = found.history[row]
    history = found.messages[first:reply]
    return Prompt(messages=[{"role": ROLES[m.role], "content": m.value} for m in history])


FORMAT = Format("sharegpt", "ShareGPT conversations (JSON array; no times, no token counts)", detect, chunks)
