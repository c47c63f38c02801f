"""Decide when to repeat a request, without a clock, a sleep or a connection."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from .messages import Lost, Response

_REPEATED: Final = frozenset({429, 502, 503, 504})
_FIRST: Final = 0.05
_LONGEST: Final = 2.0


def pause(outcome: Response | Lost, attempt: int, left: float, draw: float) -> float | None:
    """Seconds to wait before the request is repeated; None if it is not.

    Args:
        outcome: outcome of the last attempt.
        attempt: number of attempts made.
        left: seconds until the deadline.
        draw: a random number in 0 .. 1.
    """
    if isinstance(outcome, Lost):
        if outcome.for_good:
            return None
        told = None
    elif outcome.status in _REPEATED:
        told = outcome.retry_after
    else:
        return None
    wait = draw * min(_LONGEST, _FIRST * 2 ** min(attempt - 1, 10))
    if told is not None:
        wait = max(wait, told)
    return wait if wait < left else None


def attempts(
    deadline: float, clock: Callable[[], float], draw: Callable[[], float]
) -> Generator[float, Response | Lost, Response | Lost]:
    """Yields the seconds to wait before each attempt, gets its outcome sent, and returns the last one.

    Args:
        deadline: seconds after which no further attempt begins.
        clock: a clock in seconds, from any origin.
        draw: returns random numbers in 0 .. 1.
    """
    ends, wait, made, lost = clock() + deadline, 0.0, 0, False
    while True:
        outcome = yield wait
        made += 1
        again = pause(outcome, made, ends - clock(), draw())
        if again is None:
            return outcome._replace(again=True) if lost and isinstance(outcome, Response) else outcome
        lost = lost or isinstance(outcome, Lost) or outcome.status in (502, 504)
        wait = again
