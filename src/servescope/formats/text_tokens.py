"""Text to token counts and ids: a local tokenizer file, or a declared ratio of characters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servescope.errors import UsageError, shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servescope.formats.format import Context


def load_tokenizer(path: str) -> Any:
    """The tokenizer of a local `tokenizer.json` (package `tokenizers`).

    Truncation and padding that the file may ask for are switched off: they would change counts.

    Raises UsageError if the package is not installed, or the file is missing or not a tokenizer.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise UsageError(
            "counting tokens needs the package tokenizers; install it with: pip install 'servescope[text]'"
        ) from None
    if not Path(path).is_file():
        raise UsageError(f"{path}: no such tokenizer file. Name a local tokenizer.json.")
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # the package raises bare Exception for every kind of bad file
        raise UsageError(
            f"{path}: not a tokenizer file ({shorten(str(error))}). Name a tokenizer.json."
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def token_counter(context: Context) -> Callable[[Sequence[str]], list[int]] | None:
    """A function that counts the tokens of texts as the options say; None where they say nothing.

    Records how it counts among the context's decisions. Raises UsageError for a bad tokenizer
    file, for a ratio that is not above 0, and if both are given.
    """
    options = context.options
    if options.tokenizer and options.chars_per_token is not None:
        raise UsageError("give a tokenizer file or a ratio of characters per token, not both.")
    if options.tokenizer:
        if "tokenizer" not in context.state:
            context.state["tokenizer"] = load_tokenizer(options.tokenizer)
        tokenizer = context.state["tokenizer"]
        context.decide(
            f"token counts are estimates: {Path(options.tokenizer).name} over the messages' text, "
            "without a chat template"
        )
        return lambda texts: [
            len(e.ids) for e in tokenizer.encode_batch(list(texts), add_special_tokens=False)
        ]
    if options.chars_per_token is not None:
        ratio = options.chars_per_token
        if not (ratio > 0 and math.isfinite(ratio)):
            raise UsageError(f"characters per token must be above 0, not {ratio}.")
        context.decide(f"token counts are estimates: {ratio:g} characters per token, as declared")
        return lambda texts: [math.ceil(len(text) / ratio) for text in texts]
    return None
