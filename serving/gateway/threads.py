"""Blocking calls, in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from ..refusals import RefusedError
from .problems import of_error
from .prometheus import Meters

_P = ParamSpec("_P")
_R = TypeVar("_R")

_THREADS, _LOGINS = 8, 2
_GIVE_UP: Final = 10.0
"""Seconds: twice the database's own busy timeout."""


class Threads:
    """Threads for the database, and separate ones for logins, as hashing a password takes 100 ms.

    Args:
        meters: counts the database's errors.
    """

    def __init__(self, meters: Meters) -> None:
        self._database = ThreadPoolExecutor(_THREADS, "axonrl-database")
        self._logins = ThreadPoolExecutor(_LOGINS, "axonrl-login")
        self._meters = meters

    async def call(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call a function of the database.

        Raises:
            RefusedError: the call was refused, or the database does not answer.
        """
        return await self._in(self._database, lambda: function(*args, **kwargs))

    async def hash(self, function: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Call a function that checks or sets a password; see :meth:`call`."""
        return await self._in(self._logins, lambda: function(*args, **kwargs))

    async def _in(self, executor: ThreadPoolExecutor, function: Callable[[], _R]) -> _R:
        try:
            return await asyncio.wait_for(asyncio.get_running_loop().run_in_executor(executor, function), _GIVE_UP)
        except asyncio.TimeoutError:
            if executor is self._logins:  # most of the time was that of others' hashing
                problem = RefusedError("unavailable", "Too many logins at the same time")
            else:
                problem = RefusedError("database_unavailable", "the database does not answer")
        except Exception as error:
            known = of_error(error)
            if known is None:
                raise
            problem = known
        if problem.code == "database_unavailable":
            self._meters.count("database_errors")
        raise problem

    def close(self) -> None:
        """End idle threads, without waiting for busy ones."""
        self._database.shutdown(wait=False, cancel_futures=True)
        self._logins.shutdown(wait=False, cancel_futures=True)
