"""Mutual exclusion of an agent's calls."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class HasLock(Protocol):
    """An object whose calls wait for each other."""

    _lock: threading.RLock


P = ParamSpec("P")
R = TypeVar("R")
One = TypeVar("One", bound=HasLock)


def exclusive(method: Callable[Concatenate[One, P], R]) -> Callable[Concatenate[One, P], R]:
    """Hold the object's lock during a method: its executor, generators and histories serve one thread at a time."""

    @functools.wraps(method)
    def alone(self: One, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            return method(self, *args, **kwargs)

    return alone
