"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import http
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...core.errors import ArgumentError
from ..accounts import RefusedError

MEDIA_TYPE: Final = "application/problem+json"

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
"""Every code with its status."""

_CODES: Final = {404: "not_found", 405: "method_not_allowed", 413: "body_too_large", 415: "unsupported_media_type"}
_WORTH_REPEATING: Final = frozenset({"rate_limited", "agent_busy", "unavailable", "database_unavailable"})
_RETRY_AFTER: Final = 1


class ProblemError(Exception):
    """A request is refused; the answer is a problem document.

    Args:
        code: one of ``STATUS``.
        detail: what is wrong, where, what was given, what to do.
        errors: invalid places, and what is wrong there.
        retry_after: whole seconds after which the request may be repeated.
        headers: further headers of the answer.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.code, self.detail, self.errors = code, detail, tuple(errors)
        self.retry_after = _RETRY_AFTER if retry_after is None and code in _WORTH_REPEATING else retry_after
        self._headers = dict(headers or {})

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]

    @property
    def headers(self) -> dict[str, str]:
        """Headers of its answer beside the usual ones."""
        headers = dict(self._headers)
        if self.retry_after is not None:
            headers["Retry-After"] = str(max(1, self.retry_after))
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return headers

    def closing(self) -> ProblemError:
        """The same, closing the connection, as the rest of the request is not read."""
        self._headers["Connection"] = "close"
        return self

    def body(self, request_id: str) -> bytes:
        """The problem document."""
        content: dict[str, Any] = {
            "type": "about:blank",
            "title": http.HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "request_id": request_id,
        }
        if self.code != "internal":  # whose details stay secret
            content["detail"] = self.detail
        if self.errors:
            content["errors"] = [{"where": where, "what": what} for where, what in self.errors]
        return json.dumps(content, separators=(",", ":")).encode()


def invalid(where: str, what: str) -> ProblemError:
    """The problem for an invalid value, with its place in the request."""
    return ProblemError("invalid_value", f"{where} {what}", errors=[(where, what)])


def not_found(what: str) -> ProblemError:
    """The problem for something that does not exist, or that the caller may not know of."""
    return ProblemError("not_found", f"{what} does not exist")


def being_created() -> ProblemError:
    """The problem for an agent that is still being created."""
    return ProblemError("unavailable", "the agent is still being created")


def of_status(status: int, detail: str, headers: Mapping[str, str] | None = None) -> ProblemError:
    """The problem for a refusal by the framework."""
    code = _CODES.get(status, "invalid_request" if status < 500 else "internal")
    return ProblemError(code, detail, headers=headers)


def of_failure(status: int, body: bytes, retry_after: int | None) -> ProblemError:
    """The problem for a worker's failure."""
    try:
        content = json.loads(body)
        code, detail = str(content["code"]), str(content.get("detail", ""))
        errors = [(str(one["where"]), str(one["what"])) for one in content.get("errors", ())]
    except (ValueError, KeyError, TypeError, AttributeError):
        code, detail, errors = "", "", []
    if STATUS.get(code) != status:
        code, detail, errors = ("unavailable" if status == 503 else "internal"), "the worker failed", []
    return ProblemError(code, detail, errors=errors, retry_after=retry_after)


def of_error(error: Exception, where: str = "") -> ProblemError | None:
    """The problem for an exception of another room; None for a bug.

    Args:
        error: any exception.
        where: the part of the request that holds an ``ArgumentError``'s argument.
    """
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, ArgumentError):
        place = f"{where}.{error.argument}" if where else error.argument
        return ProblemError("invalid_value", str(error), errors=[(place, str(error))])
    if isinstance(error, RefusedError):
        return ProblemError(error.code, str(error), retry_after=error.retry_after)
    return None
