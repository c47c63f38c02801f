"""Mutual exclusion of an agent's calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound="Callable[..., Any]")


def exclusive(method: Method) -> Method:
    """Hold the object's ``lock`` during a method: its executor, generators and histories serve one thread at a time."""

    @functools.wraps(method)
    def with_lock(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            return method(self, *args, **kwargs)

    return with_lock  # type: ignore[return-value] # the same signature
