"""Token ids to keyed, chained block ids."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from servescope import schema
from servescope.formats.prompts import PromptBlocks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servescope.formats.prompts import Prompt

ID_BYTES = 8
TOKEN_BYTES = 4
BATCH = 256  # prompts tokenized at a time: bounds memory, changes no id
PERSON = b"servescope-block"


def chained_ids(key: bytes, tokens: npt.NDArray[np.uint32], block_tokens: int) -> npt.NDArray[np.uint64]:
    """Block ids of one prompt: uint64[tokens / block_tokens, rounded up].

    key     16 to 64 bytes
    tokens  uint32[n], not modified

    id i = BLAKE2b-64(key, id i-1 ‖ tokens of block i as little-endian uint32), read little-endian;
    before the first block stand eight zero bytes. A partial last block is hashed as it is, so it
    has an id of its own. Without the key nobody can try texts against the ids; with 64 bits, two
    of a billion prefixes collide with a chance of 1 in 37. Slow twin: tests/reference/fingerprint.py.
    """
    data = tokens.astype("<u4").tobytes()
    step = block_tokens * TOKEN_BYTES
    keyed = blake2b(key=key, digest_size=ID_BYTES, person=PERSON)
    previous = bytes(ID_BYTES)
    ids = []
    for start in range(0, len(data), step):
        block = keyed.copy()
        block.update(previous)
        block.update(data[start : start + step])
        previous = block.digest()
        ids.append(previous)
    return np.frombuffer(b"".join(ids), "<u8").astype(np.uint64)


@dataclass(frozen=True)
class Encoder:
    """Turns prompts into block ids (see `formats.prompts.PromptEncoder`).

    tokenizer     of the package tokenizers
    render        messages -> text
    key           16 to 64 bytes
    block_tokens  tokens per block
    """

    tokenizer: Any
    render: Callable[[Prompt], str]
    key: bytes
    block_tokens: int

    def encode(self, prompts: Sequence[Prompt | None]) -> PromptBlocks:
        """Block ids of all prompts, in their order, whatever the batches and threads."""
        made: list[npt.NDArray[np.uint64]] = [np.zeros(0, np.uint64)]
        lengths = np.full(len(prompts), -1, np.int32)
        counted = np.full(len(prompts), schema.NULL_INT32, np.int32)
        problems: dict[int, str] = {}
        for low in range(0, len(prompts), BATCH):
            tokens = self._tokens(prompts[low : low + BATCH], low, problems)
            for index, row in sorted(tokens.items()):
                if len(row):
                    ids = chained_ids(self.key, row, self.block_tokens)
                    made.append(ids)
                    lengths[index] = len(ids)
                    counted[index] = len(row)
        return PromptBlocks(np.concatenate(made), lengths, counted, problems)

    def _tokens(
        self, prompts: Sequence[Prompt | None], low: int, problems: dict[int, str]
    ) -> dict[int, npt.NDArray[np.uint32]]:
        """Index -> token ids. Changes `problems`.

        A chat template writes its special tokens itself; a plain prompt gets the tokenizer's own,
        as servers of the completions interface do.
        """
        chats: dict[int, str] = {}
        plain: dict[int, str] = {}
        out: dict[int, npt.NDArray[np.uint32]] = {}
        for index, prompt in enumerate(prompts, start=low):
            if prompt is None:
                continue
            if prompt.text is not None:
                plain[index] = prompt.text
            elif prompt.token_ids is not None:
                try:
                    out[index] = np.array(prompt.token_ids, np.uint32)
                except OverflowError:
                    problems[index] = "token id beyond 32 bits"
            else:
                try:
                    chats[index] = self.render(prompt)
                except Exception as error:  # a template can raise anything, and may quote the prompt
                    problems[index] = type(error).__name__
        for texts, special in ((chats, False), (plain, True)):
            encoded = self.tokenizer.encode_batch_fast(list(texts.values()), add_special_tokens=special)
            out |= {i: np.array(e.ids, np.uint32) for i, e in zip(texts, encoded, strict=True)}
        return out
