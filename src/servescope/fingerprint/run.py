"""`fingerprint`: a log with messages becomes a canonical trace with block ids."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from servescope.errors import FormatError, UsageError
from servescope.fingerprint.blocks import Encoder
from servescope.fingerprint.keys import checked_key, key_digits, pseudonym
from servescope.fingerprint.template import load_template, plain_text
from servescope.formats.format import ReadOptions
from servescope.formats.read import read_trace
from servescope.formats.text_tokens import load_tokenizer
from servescope.trace import Trace
from servescope.trace_write import write_canonical

if TYPE_CHECKING:
    from collections.abc import Sequence

    from servescope.arrays import ArrayPart

TEXT_FORMATS = ("litellm", "openai_log", "sharegpt")
FALLS_AWAY = (
    "Without text these fall away: block and prefix reuse, the reuse ceiling, cache simulation by blocks, "
    "block-aware routing, and prompts with the real sharing in a replay. Load, lengths, latency, "
    "users and stated sessions need no text: run report on the log itself."
)


def fingerprint(
    log: str | Sequence[str],
    target: str | Path,
    *,
    tokenizer: str,
    key: bytes,
    chat_template: str | None = None,
    no_chat_template: bool = False,
    block_tokens: int = 16,
    keep_ids: bool = False,
    options: ReadOptions | None = None,
) -> Trace:
    """Read a log with messages and write a canonical trace whose prompts are keyed block ids.

    log               one source or several (litellm, openai_log or sharegpt)
    target            the Parquet file to write; it appears only when complete
    tokenizer         a local tokenizer.json
    key               the user's secret, at least 16 bytes (`read_key`); it is never stored
    chat_template     a local Jinja file, or a tokenizer_config.json that holds one
    no_chat_template  join the messages as `role: content` lines instead; token counts are then
                      not a server's
    block_tokens      tokens per block
    keep_ids          keep users, sessions and request ids as they are; by default each is
                      replaced by a keyed pseudonym
    options           how to read the log

    Returns the trace written. Input tokens are those counted here where there is text. Two
    outputs can be compared if their decisions name the same key digits, tokenizer and template.

    No prompt text reaches the output, a note or an error. Raises UsageError (no text in the log,
    bad key, tokenizer or template, no word on the template) and what `read_trace` raises.
    """
    names = [log] if isinstance(log, str) else list(log)
    secret = checked_key(key)
    if block_tokens < 1:
        raise UsageError(f"a block holds at least 1 token, not {block_tokens}.")
    if bool(chat_template) == no_chat_template:
        raise UsageError(
            "say how messages become text: --chat-template FILE (the model's), or --no-chat-template for "
            "plain `role: content` lines, whose token counts are not a server's; one of the two."
        )
    render = load_template(chat_template) if chat_template else plain_text
    encoder = Encoder(load_tokenizer(tokenizer), render, secret, block_tokens)
    trace = _read(
        names, replace(options or ReadOptions(), prompts=encoder, tokenizer=None, chars_per_token=None)
    )
    made = _decisions(encoder, tokenizer, chat_template, keep_ids)
    trace = trace.with_meta(decisions=[*trace.meta.decisions, *made])
    trace = trace if keep_ids else _with_pseudonyms(trace, secret)
    write_canonical(trace, target)
    return trace


def _decisions(encoder: Encoder, tokenizer: str, chat_template: str | None, keep_ids: bool) -> list[str]:
    """What must be equal for two outputs to be comparable, and what became of the ids."""
    digits = key_digits(encoder.key)
    return [
        f"a block holds {encoder.block_tokens} tokens; ids are keyed BLAKE2b chains, key {digits}",
        f"tokenizer {_named(tokenizer)}",
        f"chat template {_named(chat_template)}"
        if chat_template
        else "no chat template: role: content lines",
        f"users, sessions and request ids are {'as logged' if keep_ids else 'keyed'}",
    ]


def _read(names: list[str], options: ReadOptions) -> Trace:
    try:
        trace = read_trace(names, options)
    except FormatError:
        # the reader's message shows the start of the source, which may be a prompt
        raise FormatError(
            f"{names[0]}: not recognised as a log with messages. Name the format with --format "
            f"({', '.join(TEXT_FORMATS)}). {FALLS_AWAY}"
        ) from None
    if trace.meta.format not in TEXT_FORMATS:
        raise UsageError(f"{names[0]} is {trace.meta.format}, which holds no text. {FALLS_AWAY}")
    if not trace.has("block_ids"):
        notes = "; ".join(trace.meta.ledger.texts())
        raise UsageError(f"{names[0]}: no prompt could be turned into blocks ({notes}). {FALLS_AWAY}")
    return trace


def _named(path: str) -> str:
    """A file's name and the start of its SHA-256."""
    return f"{Path(path).name} (sha256 {sha256(Path(path).read_bytes()).hexdigest()[:12]})"


def _with_pseudonyms(trace: Trace, key: bytes) -> Trace:
    """The trace with keyed stand-ins for users, sessions and request ids."""
    part: ArrayPart = trace.parts[0]  # type: ignore[assignment]
    held = part.columns
    texts = dict(held.texts)
    if "user" in texts:
        texts["user"] = [pseudonym(key, text) for text in texts["user"]]
    ids = None
    if held.source_id is not None:
        logged = held.source_id.to_pylist()
        ids = pa.array([None if text is None else pseudonym(key, text) for text in logged], pa.string())
    sessions = [pseudonym(key, name) for name in trace.meta.session_names]
    columns = replace(held, texts=texts, source_id=ids)
    return Trace(trace.with_meta(session_names=sessions).meta, columns.parts(), trace.rejects)
