"""The user's key: read from a file, never stored, known by eight digits of a hash."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

from servescope.errors import UsageError

LEAST_BYTES = 16  # a shorter key can be found by trying all
MOST_BYTES = 64  # what keyed BLAKE2b takes; a longer key is hashed to this length


def read_key(path: str | Path) -> bytes:
    """The key in a file: its bytes without line ends at the end.

    Raises UsageError where the file cannot be read or holds fewer than 16 bytes.
    """
    try:
        held = Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: the key file cannot be read ({error.strerror}).") from None
    return checked_key(held.rstrip(b"\r\n"), str(path))


def checked_key(key: bytes, name: str = "the key") -> bytes:
    """The key as BLAKE2b takes it, 16 to 64 bytes. Raises UsageError for a shorter one."""
    if len(key) < LEAST_BYTES:
        raise UsageError(
            f"{name} holds {len(key)} bytes, at least {LEAST_BYTES} are needed. "
            "Make one with: head -c 32 /dev/urandom | base64 > key.txt"
        )
    return key if len(key) <= MOST_BYTES else blake2b(key, digest_size=MOST_BYTES).digest()


def key_digits(key: bytes) -> str:
    """Eight hex digits that tell whether two outputs were made with one key (not the key itself)."""
    return blake2b(key=checked_key(key), digest_size=16, person=b"servescope-key").hexdigest()[:8]


def pseudonym(key: bytes, text: str) -> str:
    """A keyed stand-in for an id: 16 hex digits, the same for the same id and key."""
    return blake2b(text.encode(), key=key, digest_size=8, person=b"servescope-id").hexdigest()
