"""Calls as generators, without I/O: operations of both clients, and the steps in which a client carries them out."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeAlias, TypeVar, overload

from .credentials import Secret
from .errors import ServiceError
from .messages import Lost, Request, Response, Result, conclude

_REPEATED: Final = frozenset({429, 502, 503, 504})
_FIRST: Final = 0.05
_LONGEST: Final = 2.0

P = ParamSpec("P")
Result_co = TypeVar("Result_co", covariant=True)

Flow: TypeAlias = Generator[Request, Response, Result]
"""A call: it yields requests, and gets their successful answers sent, or errors thrown in."""


class Attempt(NamedTuple):
    """A request to be sent once, within ``timeout`` seconds; its outcome is a Response or Lost."""

    request: Request
    token: Secret | None
    timeout: float


Steps: TypeAlias = Generator[Attempt | float | Callable[[], Any], Any, Result]
"""What a client does: send an attempt, wait for seconds, or call a function that blocks; the outcome is sent back."""


class Blocking(Protocol):
    """A client whose calls block."""

    def _carry_out(self, flow: Flow[Result], in_order: bool) -> Result: ...


class Awaiting(Protocol):
    """A client whose calls are awaited."""

    def _carry_out(self, flow: Flow[Result], in_order: bool) -> Coroutine[Any, Any, Result]: ...


class Operation(Protocol[P, Result_co]):
    """A method of both clients."""

    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Callable[P, Result_co]: ...
    @overload
    def __get__(self, client: Awaiting, owner: object = None) -> Callable[P, Coroutine[Any, Any, Result_co]]: ...


class Attribute(Protocol[Result_co]):
    """A property of the blocking client, and a method of the other."""

    @overload
    def __get__(self, client: Blocking, owner: object = None) -> Result_co: ...
    @overload
    def __get__(self, client: Awaiting, owner: object = None) -> Callable[[], Coroutine[Any, Any, Result_co]]: ...


def operation(call: Callable[Concatenate[Any, P], Flow[Result]], *, in_order: bool = False) -> Operation[P, Result]:
    """A method that carries out a call; ``in_order``: after earlier such calls of the same object."""

    @functools.wraps(call)
    def asked(client: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        return client._carry_out(call(client, *args, **kwargs), in_order)

    return asked  # type: ignore[return-value] # a function binds as Operation says


def ordered(call: Callable[Concatenate[Any, P], Flow[Result]]) -> Operation[P, Result]:
    """An operation of one environment, whose calls are made in order."""
    return operation(call, in_order=True)


def attribute(call: Callable[[Any], Flow[Result]]) -> Attribute[Result]:
    """A property that carries out a call; where calls are awaited, it returns a function."""

    @functools.wraps(call)
    def asked(client: Any) -> Any:
        def ask() -> Any:
            return client._carry_out(call(client), False)

        return ask if client._awaits else ask()

    return property(asked)  # type: ignore[return-value]


def carried_out(flow: Flow[Result], exchange: Callable[[Request], Steps[Response | ServiceError]]) -> Steps[Result]:
    """Carry out a flow; returns or raises its result.

    Args:
        flow: the call.
        exchange: the steps of one request, and its outcome.
    """
    try:
        request = next(flow)
        while True:
            outcome = yield from exchange(request)
            request = flow.throw(outcome) if isinstance(outcome, ServiceError) else flow.send(outcome)
    except StopIteration as end:
        result: Result = end.value
        return result


def repeated(request: Request, token: Secret | None, timeout: float, deadline: float) -> Steps[Response | ServiceError]:
    """Outcome of a request, with retries.

    Args:
        request: the request.
        token: the caller's token.
        timeout: seconds of an attempt.
        deadline: seconds after which no further attempt begins.
    """
    if request.after:
        yield request.after
    ends, made, lost = time.monotonic() + deadline, 0, False
    wait: float | None = 0.0
    while wait is not None:
        if wait:
            yield wait
        outcome: Response | Lost = yield Attempt(request, token, timeout)
        made += 1
        if lost and isinstance(outcome, Response):
            outcome = outcome._replace(again=True)
        lost = lost or isinstance(outcome, Lost) or outcome.status in (502, 504)
        wait = pause(outcome, made, ends - time.monotonic(), random.random())
    return conclude(request, outcome, [secret.reveal() for secret in (token, request.password) if secret is not None])


def pause(outcome: Response | Lost, attempt: int, left: float, draw: float) -> float | None:
    """Seconds to wait before a request is repeated; None if it is not.

    Args:
        outcome: outcome of the last attempt.
        attempt: number of attempts made.
        left: seconds until the deadline.
        draw: a random number in 0 .. 1.
    """
    if outcome.for_good if isinstance(outcome, Lost) else outcome.status not in _REPEATED:
        return None
    told = outcome.retry_after if isinstance(outcome, Response) else None
    wait = max(draw * min(_LONGEST, _FIRST * 2 ** min(attempt - 1, 10)), told or 0.0)
    return wait if wait < left else None


def outcome_of(function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result | ServiceError:
    """What a function returns, or the ServiceError that it raises."""
    try:
        return function(*args, **kwargs)
    except ServiceError as error:
        return error
