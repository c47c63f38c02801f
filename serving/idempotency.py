"""Idempotency keys: the header, digest and refusal common to the journals of agents and the database of accounts."""

from __future__ import annotations

import hashlib

from .refusals import RefusedError, invalid

_LONGEST = 255


def key_of(header: bytes | None) -> str | None:
    """The key in the header ``Idempotency-Key``; None without one.

    Raises:
        RefusedError: it is not of 1 to 255 printable ASCII characters.
    """
    if header is None:
        return None
    key = header.decode("latin-1")
    if not 1 <= len(key) <= _LONGEST or not key.isascii() or not key.isprintable():
        raise invalid("Idempotency-Key", f"must be 1 to {_LONGEST} printable ASCII characters")
    return key


def digest(content: bytes, secret: bytes = b"") -> bytes:
    """Digest of a key or a request, 16 bytes; with a secret, nobody else can try contents against it."""
    return hashlib.blake2b(content, digest_size=16, key=secret).digest()


def reused() -> RefusedError:
    """The refusal of a key that another request had."""
    detail = "this Idempotency-Key was used for another request: use a new key for each request"
    return RefusedError("idempotency_key_reused", detail, [("Idempotency-Key", detail)])
