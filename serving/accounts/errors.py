"""Refusals of accounts, and errors of a service's folder or database."""

from __future__ import annotations

from typing import Final

UNAVAILABLE: Final = "database_unavailable"


class RefusedError(RuntimeError):
    """A request is refused; nothing has changed. Invalid values raise ``ArgumentError`` instead.

    Args:
        code: a code of the HTTP API: ``not_found``, ``name_taken``, ``quota_exceeded``, ``invalid_credentials``,
            ``rate_limited``, ``idempotency_key_reused``, ``unavailable`` or ``database_unavailable``.
        message: what is wrong, for people.
        retry_after: whole seconds after which to try again, if that makes sense.
    """

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(code, message, retry_after)
        self.code, self.retry_after = code, retry_after

    def __str__(self) -> str:
        return str(self.args[1])


class UnusableError(RuntimeError):
    """The data folder or the database is unusable; the message says what to do. Commands exit with 2."""
