"""The refusal of a request, by accounts, hosted agents or the gateway, and the codes of the HTTP API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

STATUS: Final[Mapping[str, int]] = {
    "invalid_json": 400,
    "invalid_request": 400,
    "invalid_credentials": 400,
    "missing_token": 401,
    "invalid_token": 401,
    "token_expired": 401,
    "forbidden_scope": 403,
    "quota_exceeded": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "name_taken": 409,
    "agent_inactive": 409,
    "agent_failed": 409,
    "learning_off": 409,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "invalid_value": 422,
    "state_mismatch": 422,
    "unsafe_state": 422,
    "idempotency_key_reused": 422,
    "rate_limited": 429,
    "internal": 500,
    "agent_busy": 503,
    "unavailable": 503,
    "database_unavailable": 503,
    "storage_full": 507,
}
"""Every code with its HTTP status."""

UNAVAILABLE: Final = "database_unavailable"
_WORTH_REPEATING: Final = frozenset({"rate_limited", "agent_busy", "unavailable", "database_unavailable"})
_RETRY_AFTER: Final = 1


class RefusedError(RuntimeError):
    """A request is refused, and nothing has changed.

    Args:
        code: one of ``STATUS``.
        detail: what is wrong, where, what was given, what to do.
        errors: invalid places, and what is wrong there.
        retry_after: whole seconds after which the request may be repeated; None: 1 if repeating helps, else never.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        errors: Sequence[tuple[str, str]] = (),
        *,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.code, self.detail, self.errors = code, detail, tuple(errors)
        self.retry_after = _RETRY_AFTER if retry_after is None and code in _WORTH_REPEATING else retry_after
        self._headers = dict(headers or {})

    def __str__(self) -> str:
        return self.detail

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]

    @property
    def headers(self) -> dict[str, str]:
        """Headers of its answer, besides the usual ones."""
        headers = dict(self._headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, self.retry_after))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers

    def closing(self) -> RefusedError:
        """The same, closing the connection, as the rest of the request is not read."""
        self._headers["Connection"] = "close"
        return self

    def to_json(self) -> dict[str, Any]:
        """The refusal as a JSON value, for another process."""
        errors = [{"where": where, "what": what} for where, what in self.errors]
        return {"code": self.code, "detail": self.detail, "errors": errors}


class UnusableError(RuntimeError):
    """The data folder or the database is unusable; the message says what to do. Commands exit with 2."""


def invalid(where: str, what: str) -> RefusedError:
    """The refusal of an invalid value, with its place in the request."""
    return RefusedError("invalid_value", f"{where}: {what}", [(where, what)])
