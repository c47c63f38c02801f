"""Errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import http
import json
from typing import Any, Final

from ...core.errors import ArgumentError
from ..refusals import RefusedError
from ..workers.pool import WorkerResponse

MEDIA_TYPE: Final = "application/problem+json"


def document(error: RefusedError, request_id: str) -> bytes:
    """The problem document of a refusal."""
    content: dict[str, Any] = {
        "type": "about:blank",
        "title": http.HTTPStatus(error.status).phrase,
        "status": error.status,
        "code": error.code,
        "request_id": request_id,
    }
    if error.code != "internal":  # whose details stay secret
        content["detail"] = error.detail
    if error.errors:
        content["errors"] = [{"where": where, "what": what} for where, what in error.errors]
    return json.dumps(content, separators=(",", ":")).encode()


def not_found(what: str) -> RefusedError:
    """The problem for something that does not exist, or that the caller may not know of."""
    return RefusedError("not_found", f"{what} does not exist")


def being_created() -> RefusedError:
    """The problem for an agent that is still being created."""
    return RefusedError("unavailable", "the agent is still being created")


def of_failure(answer: WorkerResponse) -> RefusedError:
    """The problem for a worker's failure."""
    found = json.loads(answer.body)
    errors = [(one["where"], one["what"]) for one in found["errors"]]
    return RefusedError(found["code"], found["detail"], errors, retry_after=answer.retry_after)


def of_error(error: Exception, where: str = "") -> RefusedError | None:
    """The problem for an exception of another package; None for a bug.

    Args:
        error: any exception.
        where: the part of the request that holds an ``ArgumentError``'s argument.
    """
    if isinstance(error, ArgumentError):
        place = f"{where}.{error.argument}" if where else error.argument
        return RefusedError("invalid_value", str(error), [(place, str(error))])
    return error if isinstance(error, RefusedError) else None
