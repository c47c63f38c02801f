"""Requests, answers, and the errors of unsuccessful answers."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

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
REPEATED: Final = frozenset({429, 502, 503, 504})
"""Statuses of answers whose requests are repeated."""


@dataclasses.dataclass(slots=True, repr=False)
class Request:
    """A request to send.

    Args:
        method: HTTP method.
        path: path after the address's prefix, quoted, with its query.
        body: body; it may contain a password, so ``repr`` omits it.
        key: the idempotency key, the same on each retry.
        slow: whether it may take two minutes, like creations and transfers of states.
        password: for a login, which gets a token instead of using one; kept out of errors.
    """

    method: str
    path: str
    body: bytes | None = None
    key: str | None = None
    slow: bool = False
    password: Secret | None = None

    def __repr__(self) -> str:
        return f"Request({self.method} {self.path})"

    def headers(self, token: Secret | None) -> dict[str, str]:
        """Headers of this request."""
        found = {"Accept": JSON_TYPE}
        if token is not None and self.password is None:
            found["Authorization"] = f"Bearer {token.reveal()}"
        if self.body is not None:
            found["Content-Type"] = JSON_TYPE if self.password is None else FORM_TYPE
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


def make_response(status: int, body: bytes, header: Callable[[str], str | None]) -> Response:
    """An answer from its parts; ``Retry-After`` counts if it is whole seconds."""
    text = (header("Retry-After") or "").strip()
    after = float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return Response(status, body, header("X-Request-Id"), after, header("Location"))


def parse_answer(request: Request, answer: Response, parse: Callable[[Any], Result], complaint: str = "") -> Result:
    """Parse the JSON of a successful answer.

    Args:
        request: the request.
        answer: its answer.
        parse: raises a ValueError, TypeError or LookupError if the answer does not follow the API.
        complaint: the error's sentence; that of ``parse`` by default.

    Raises:
        ServiceError: the answer is not JSON, or not what it should be; the code is ``"invalid_answer"``.
    """
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise _invalid_answer(
            request, answer, "the answer is not JSON; is this the URL of an axonrl service?"
        ) from None
    try:
        return parse(found)
    except (TypeError, LookupError, ValueError) as error:
        raise _invalid_answer(request, answer, complaint or str(error)) from None


def an_object(value: Any) -> dict[str, Any]:
    """The answer as an object."""
    if isinstance(value, dict):
        return value
    raise TypeError("the answer is not an object")


def a_list(value: Any) -> list[dict[str, Any]]:
    """The answer as a list."""
    if isinstance(value, list):
        return value
    raise TypeError("the answer is not a list")


def _invalid_answer(request: Request, answer: Response, detail: str) -> ServiceError:
    """The error for a successful answer that does not follow the API."""
    message = f"{_request_line(request)}: {answer.status}, but {detail}"
    return ServiceError(message, answer.status, "invalid_answer", detail, answer.request_id)


def conclude(request: Request, outcome: Response | Lost, hide: Iterable[str] = ()) -> Response:
    """The successful answer of an outcome.

    Args:
        request: the request.
        outcome: its outcome.
        hide: secrets that the service might repeat in its answer.

    Raises:
        ServiceError: there is no answer, or not a successful one.
    """
    if isinstance(outcome, Lost):
        detail = _hide_secrets(outcome.detail, hide)
        message = f"{_request_line(request)}: no answer ({outcome.code}): {detail}"
        raise ServiceUnavailable(message, None, outcome.code, detail)
    # An earlier attempt, whose answer was lost, may have removed it.
    gone = request.method == "DELETE" and outcome.status == 404 and outcome.again
    if 200 <= outcome.status < 300 or gone:
        return outcome
    problem = _problem(outcome)
    code, detail = str(problem.get("code", "")), _hide_secrets(str(problem.get("detail", "")), hide)
    places = (one for one in problem.get("errors") or () if isinstance(one, dict))
    errors = [{name: _hide_secrets(str(one.get(name, "")), hide) for name in ("where", "what")} for one in places]
    request_id = problem.get("request_id") or outcome.request_id
    message = f"{_request_line(request)}: {outcome.status} {code or 'without a code'}{detail and ': '}{detail}"
    message += "".join(f"; {one['where']}: {one['what']}" for one in errors[:3] if one["where"] not in detail)
    if request_id:
        message += f" (request {request_id})"
    if outcome.retry_after is not None:
        message += f"; to be repeated after {outcome.retry_after:g} s"
        message += ", later than retry_deadline allows" if outcome.status in REPEATED else ""
    kind = Conflict if code == "quota_exceeded" else _KINDS.get(outcome.status, ServiceError)
    if kind is InvalidRequest and request.password is not None:
        kind = AuthenticationError
    raise kind(message, outcome.status, code, detail, request_id, errors, outcome.retry_after)


_KINDS: Final[dict[int, type[ServiceError]]] = {
    **dict.fromkeys((400, 413, 415, 422), InvalidRequest),
    **dict.fromkeys((401, 403), AuthenticationError),
    **{404: NotFound, 409: Conflict, 429: RateLimited},
    **dict.fromkeys((502, 503, 504, 507), ServiceUnavailable),
}


def _problem(answer: Response) -> dict[str, Any]:
    """The members of a problem, RFC 9457; for anything else, its beginning as the detail."""
    if 300 <= answer.status < 400:
        what = f"Redirects are not followed. Use the URL that leads to {answer.location}"
        return {"code": "redirected", "detail": what}
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"detail": answer.body[:200].decode("utf-8", "replace").strip()}


def _hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Blank secrets, but not inside other words: a token may be short."""
    for secret in filter(None, secrets):
        text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
    return text


def _request_line(request: Request) -> str:
    return f"{request.method} {request.path}"
