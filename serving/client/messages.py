"""Requests, answers, and the errors of unsuccessful answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from .credentials import Secret
from .errors import (
    AuthenticationError,
    Conflict,
    InvalidRequest,
    NotFound,
    RateLimited,
    ServiceError,
    ServiceUnavailable,
)

JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
_LONGEST: Final = 2000


class Request:
    """A request to send.

    Args:
        method: HTTP method.
        path: path after the address's prefix, quoted, with its query.
        body: body; it may contain a password, so ``repr`` omits it.
        key: the idempotency key, the same on each retry.
        slow: whether it may take two minutes, like creations and transfers of states.
        login: whether it gets a token instead of using one.
        after: seconds to wait before sending.
    """

    __slots__ = ("after", "body", "key", "login", "method", "path", "slow")

    def __init__(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        key: str | None = None,
        slow: bool = False,
        login: bool = False,
        after: float = 0.0,
    ) -> None:
        self.method = method
        self.path = path
        self.body = body
        self.key = key
        self.slow = slow
        self.login = login
        self.after = after

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"

    def headers(self, token: Secret | None) -> dict[str, str]:
        """Headers of this request."""
        found = {"Accept": JSON_TYPE}
        if token is not None and not self.login:
            found["Authorization"] = f"Bearer {token.reveal()}"
        if self.body is not None:
            found["Content-Type"] = FORM_TYPE if self.login else JSON_TYPE
        if self.key is not None:
            found["Idempotency-Key"] = self.key
        return found


class Response(NamedTuple):
    """An answer. ``again``: an earlier attempt, whose answer was lost, may also have been carried out."""

    status: int
    body: bytes
    request_id: str | None = None
    retry_after: float | None = None
    location: str | None = None
    again: bool = False


class Lost(NamedTuple):
    """No answer. ``code`` as in ServiceError; ``for_good``: a retry cannot help."""

    code: str
    detail: str
    for_good: bool = False


Result = TypeVar("Result")
Flow: TypeAlias = Generator[Request, Response, Result]
"""A call without I/O: it yields requests, and gets their successful answers sent, or errors thrown in."""


class Done(NamedTuple):
    """The result of a flow."""

    value: Any


def advance(flow: Flow[Any], outcome: Response | ServiceError | None = None) -> Request | Done:
    """The next request of a flow, or its result; it may raise the error that it is given, or another.

    Args:
        flow: the call.
        outcome: outcome of its last request; None to begin.
    """
    try:
        if outcome is None:
            return next(flow)
        return flow.send(outcome) if isinstance(outcome, Response) else flow.throw(outcome)
    except StopIteration as end:
        return Done(end.value)


def carried_out(flow: Flow[Result], exchange: Callable[[Request], Response | ServiceError]) -> Result:
    """Run a flow; returns or raises its result.

    Args:
        flow: the call.
        exchange: carries out a request.
    """
    found = advance(flow)
    while isinstance(found, Request):
        found = advance(flow, exchange(found))
    result: Result = found.value
    return result


def seconds(text: str | None) -> float | None:
    """Parse ``Retry-After``, if it is whole seconds."""
    text = (text or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def content(request: Request, answer: Response) -> Any:
    """The JSON of a successful answer.

    Raises:
        ServiceError: the answer is not JSON; the code is ``"invalid_answer"``.
    """
    try:
        return json.loads(answer.body)
    except ValueError:
        pass
    raise unexpected(request, answer, "the answer is not JSON; is this the URL of an axonrl service?")


def unexpected(request: Request, answer: Response, detail: str) -> ServiceError:
    """The error for a successful answer that does not follow the API."""
    message = f"{_asked(request)}: {answer.status}, but {detail}"
    return ServiceError(message, answer.status, "invalid_answer", detail, answer.request_id)


def conclude(request: Request, outcome: Response | Lost, hide: Iterable[str] = ()) -> Response | ServiceError:
    """A successful answer, or the error of any other; see :func:`failure`."""
    if isinstance(outcome, Response):
        # An earlier attempt, whose answer was lost, may have removed it.
        gone = request.method == "DELETE" and outcome.status == 404 and outcome.again
        if 200 <= outcome.status < 300 or gone:
            return outcome
    return failure(request, outcome, hide)


def failure(request: Request, outcome: Response | Lost, hide: Iterable[str] = ()) -> ServiceError:
    """The error of an unsuccessful answer, or of none.

    Args:
        request: the request.
        outcome: its outcome.
        hide: secrets that the service might repeat in its answer.
    """
    if isinstance(outcome, Lost):
        detail = _hidden(outcome.detail, hide)
        message = f"{_asked(request)}: no answer ({outcome.code}): {detail}"
        return ServiceUnavailable(message, None, outcome.code, detail)
    problem = _problem(outcome.body)
    code, detail = _text(problem.get("code")), _hidden(_text(problem.get("detail")), hide)
    errors = [
        {name: _hidden(_text(item.get(name)), hide) for name in ("where", "what")}
        for item in problem["errors"]
        if isinstance(item, dict)
    ]
    if 300 <= outcome.status < 400:
        code, detail = "redirected", f"Redirects are not followed. Use the URL that leads to {outcome.location}"
    request_id = _text(problem.get("request_id")) or outcome.request_id
    message = f"{_asked(request)}: {outcome.status} {code or 'without a code'}"
    if detail:
        message += f": {detail}"
    for item in errors[:3]:
        if item["where"] not in detail:
            message += f"; {item['where']}: {item['what']}"
    if request_id:
        message += f" (request {request_id})"
    if outcome.retry_after is not None:
        message += f"; to be repeated after {outcome.retry_after:g} s, later than retry_deadline allows"
    kind = _kind(outcome.status, code, request.login)
    return kind(message, outcome.status, code, detail, request_id, errors, outcome.retry_after)


_KINDS: Final[dict[int, type[ServiceError]]] = {
    400: InvalidRequest,
    401: AuthenticationError,
    403: AuthenticationError,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    429: RateLimited,
    502: ServiceUnavailable,
    503: ServiceUnavailable,
    504: ServiceUnavailable,
    507: ServiceUnavailable,
}


def _kind(status: int, code: str, login: bool) -> type[ServiceError]:
    if code == "quota_exceeded":
        return Conflict
    kind = _KINDS.get(status, ServiceError)
    return AuthenticationError if login and kind is InvalidRequest else kind


def _problem(body: bytes) -> dict[str, Any]:
    """The members of a problem, RFC 9457; for anything else, its beginning as the detail."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        found = {"detail": body[:200].decode("utf-8", "replace").strip()}
    errors = found.get("errors")
    return {**found, "errors": errors if isinstance(errors, list) else []}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return (value if isinstance(value, str) else json.dumps(value))[:_LONGEST]


def _hidden(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text


def _asked(request: Request) -> str:
    return f"{request.method} {request.path}"
