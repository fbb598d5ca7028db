"""Slow twin of `servescope.fingerprint.blocks.chained_ids`: one block after the other, no tricks."""

from __future__ import annotations

import hashlib
import struct


def chained_ids(key: bytes, tokens: list[int], block_tokens: int) -> list[int]:
    """Block ids of one prompt: each a keyed hash of the id before it and of the block's tokens."""
    ids: list[int] = []
    for start in range(0, len(tokens), block_tokens):
        block = tokens[start : start + block_tokens]
        before = ids[-1] if ids else 0
        data = struct.pack("<Q", before) + b"".join(struct.pack("<I", token) for token in block)
        digest = hashlib.blake2b(data, digest_size=8, key=key, person=b"servescope-block").digest()
        ids.append(struct.unpack("<Q", digest)[0])
    return ids
