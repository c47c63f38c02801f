"""Errors of calls: the service's, by kind, and arguments refused before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ArgumentError(ValueError):
    """An argument is invalid, and nothing was sent.

    Args:
        message: what is wrong, what was given and what is expected.
        argument: the argument's name or place, as in the message: ``"noise"``, ``"state[2]"``.
    """

    def __init__(self, message: str, argument: str) -> None:
        super().__init__(message, argument)  # both, so that pickling keeps them
        self.argument = argument

    def __str__(self) -> str:
        return str(self.args[0])


class ServiceError(RuntimeError):
    """The service refused or failed. Code that needs to know why reads the fields, never the message.

    Args:
        message: the request, the answer and what to do.
        status: the HTTP status; None if there was no answer.
        code: the service's name of the problem, such as ``"name_taken"``; ``"unreachable"``, ``"timeout"`` and
            ``"certificate"`` if there was no answer.
        detail: the service's own sentence.
        request_id: the request's id in the service's logs; None if unknown.
        errors: places of invalid values: ``{"where": "step_data.state[3]", "what": "..."}``.
        retry_after: seconds after which to ask again; None if the service did not say.
    """

    def __init__(
        self,
        message: str,
        status: int | None = None,
        code: str = "",
        detail: str = "",
        request_id: str | None = None,
        errors: Sequence[dict[str, str]] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.detail = detail
        self.request_id = request_id
        self.errors = list(errors)
        self.retry_after = retry_after

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.status, self.code, self.detail, self.request_id, self.errors, self.retry_after)
        return type(self), (str(self), *fields)


class AuthenticationError(ServiceError, ValueError):
    """The token or the password was refused, or the token does not allow this call."""


class NotFound(ServiceError, LookupError):  # noqa: N818 - the documented names of the exceptions
    """There is no such agent."""


class Conflict(ServiceError):  # noqa: N818
    """The call conflicts with the current state: the name is taken, the agent inactive or failed, the quota used up."""


class InvalidRequest(ServiceError, ValueError):  # noqa: N818
    """The service refused a value; nothing changed."""


class RateLimited(ServiceError):  # noqa: N818
    """Too many requests, for longer than the client may wait. ``retry_after`` says when to try again."""


class ServiceUnavailable(ServiceError, ConnectionError):  # noqa: N818
    """No connection, no answer in time, or a service that is temporarily unable to work."""
