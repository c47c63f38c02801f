"""Passwords: acceptance, and storage by argon2id."""

from __future__ import annotations

import contextlib
import functools
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ...core.errors import ArgumentError
from ..refusals import RefusedError

PARAMETERS: Final[dict[str, Any]] = {"memory_cost": 19 * 1024, "time_cost": 2, "parallelism": 1}
"""Parameters of argon2id, in KiB: OWASP's minimum, 50 to 100 ms. Only tests lower them."""
SHORTEST: Final = 12
LONGEST: Final = 1024
_AT_ONCE: Final = 2
_PATIENCE: Final = 10.0
"""Seconds that a login waits for its turn of hashing."""
_turns: Final = threading.BoundedSemaphore(_AT_ONCE)


def accept(name: str, password: object) -> str:
    """Check a user's new password. It is used unchanged: any characters, including spaces at its ends.

    Raises:
        ArgumentError: it is not acceptable. The error never contains the password.
    """
    if not isinstance(password, str) or not SHORTEST <= len(password) <= LONGEST:
        given = f"one of {len(password):,}" if isinstance(password, str) else type(password).__name__
        raise ArgumentError(f"password must have {SHORTEST} to {LONGEST:,} characters, got {given}", "password")
    if _bytes(password) is None:
        raise ArgumentError("password has a lone surrogate, which cannot be encoded", "password")
    if name.lower() in password.lower():
        raise ArgumentError("password must not contain the user's name", "password")
    if password.lower() in _common():
        raise ArgumentError("password is one of the most common, which are tried first: choose another", "password")
    return password


@functools.cache
def _common() -> frozenset[str]:
    """The most common passwords of sufficient length, in lower case."""
    text = Path(__file__).with_name("common_passwords.txt").read_text("utf-8")
    return frozenset(text.partition("\n\n")[2].splitlines())


class Passwords:
    """Hashes and compares passwords, at most two at once per process: each takes 19 MiB and a processor."""

    def __init__(self) -> None:
        self._hasher = PasswordHasher(**PARAMETERS)

    def hash(self, password: str) -> str:
        """The argon2id hash of an accepted password, with a new salt."""
        with _turn():
            return self._hasher.hash(password)

    def matches(self, known: str | None, password: str) -> bool:
        """Whether the password matches. Without a hash, for an unknown name, takes as long and returns False."""
        dummy = self._dummy  # made before the first comparison of either kind
        raw = _bytes(password) if len(password) <= LONGEST else None
        if raw is None:
            return False
        with _turn():
            try:
                self._hasher.verify(dummy if known is None else known, raw)
            except (VerificationError, InvalidHashError):
                return False
        return known is not None

    def is_outdated(self, known: str) -> bool:
        """Whether a hash has outdated parameters."""
        return self._hasher.check_needs_rehash(known)

    @functools.cached_property
    def _dummy(self) -> str:
        return self.hash(secrets.token_urlsafe())


@contextlib.contextmanager
def _turn() -> Iterator[None]:
    if not _turns.acquire(timeout=_PATIENCE):
        raise RefusedError("unavailable", "Too many logins at the same time", retry_after=1)
    try:
        yield
    finally:
        _turns.release()


def _bytes(password: str) -> bytes | None:
    try:
        return password.encode()
    except UnicodeEncodeError:
        return None
