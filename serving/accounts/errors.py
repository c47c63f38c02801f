"""What accounts refuse, and why a service's folder or database cannot be used."""

from __future__ import annotations

from typing import Final

UNAVAILABLE: Final = "database_unavailable"


class RefusedError(RuntimeError):
    """A request is refused; nothing has changed. Values that are wrong in themselves are an ``ArgumentError`` instead.

    Args:
        code: a code of the HTTP API: ``not_found``, ``name_taken``, ``quota_exceeded``, ``invalid_credentials``,
            ``rate_limited``, ``idempotency_key_reused``, ``unavailable`` or ``database_unavailable``.
        message: what is wrong, for people.
        retry_after: whole seconds after which trying again makes sense, if it does.
    """

    def __init__(self, code: str, message: str, retry_after: int | None = None) -> None:
        super().__init__(code, message, retry_after)
        self.code, self.retry_after = code, retry_after

    def __str__(self) -> str:
        return str(self.args[1])


class UnusableError(RuntimeError):
    """The data folder or the database cannot be used as it is; the message says what to do. Commands exit with 2."""
