"""Requests with retries: coroutines, which wait over asyncio, and run to their end over a transport that blocks."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from .credentials import Secret
from .messages import REPEATED, Lost, Request, Response, Result, conclude

_FIRST: Final = 0.05
_LONGEST: Final = 2.0


class Transport(Protocol):
    """Connections to a service."""

    async def send(self, request: Request, token: Secret | None, timeout: float) -> Response | Lost:
        """The answer with any status, or the reason why there is none. Redirects are answers."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def call(self, function: Callable[[], Result]) -> Result:
        """Call a function that blocks."""


def run(call: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine over a blocking transport, which never suspends it."""
    try:
        call.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise RuntimeError("a call over a blocking transport was suspended")


async def send_with_retries(
    transport: Transport, request: Request, token: Secret | None, timeout: float, deadline: float
) -> Response:
    """The successful answer to a request, after retries.

    Args:
        transport: connections to the service.
        request: the request.
        token: the caller's token.
        timeout: seconds of an attempt.
        deadline: seconds after which no further attempt begins.

    Raises:
        ServiceError: the service refused, or did not answer.
    """
    ends, made, lost = time.monotonic() + deadline, 0, False
    while True:
        outcome = await transport.send(request, token, timeout)
        made += 1
        if lost and isinstance(outcome, Response):
            outcome = outcome._replace(again=True)
        lost = lost or isinstance(outcome, Lost) or outcome.status in (502, 504)
        wait = pause(outcome, made, ends - time.monotonic(), random.random())
        if wait is None:
            secrets = [secret.reveal() for secret in (token, request.password) if secret is not None]
            return conclude(request, outcome, secrets)
        if wait:
            await transport.sleep(wait)


def pause(outcome: Response | Lost, attempt: int, left: float, draw: float) -> float | None:
    """Seconds to wait before a request is repeated; None if it is not.

    Args:
        outcome: outcome of the last attempt.
        attempt: number of attempts made.
        left: seconds until the deadline.
        draw: a random number in 0 .. 1.
    """
    if outcome.for_good if isinstance(outcome, Lost) else outcome.status not in REPEATED:
        return None
    told = outcome.retry_after if isinstance(outcome, Response) else None
    wait = max(draw * min(_LONGEST, _FIRST * 2 ** min(attempt - 1, 10)), told or 0.0)
    return wait if wait < left else None
