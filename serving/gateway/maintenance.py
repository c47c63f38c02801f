"""Background tasks of a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ..logs import LOGGER
from .gateway import Gateway
from .problems import ProblemError

_REFRESH: Final = 4.0
"""Seconds between refreshes: changes by the command line take effect within 5 seconds, with one for the query."""
_NOTE, _TIDY, _DAY = 60.0, 3600.0, 86400.0


def housekeeping(gateway: Gateway) -> list[asyncio.Task[None]]:
    """Tasks that run until they are cancelled."""
    threads, rooms = gateway.threads, gateway.rooms
    jobs: list[tuple[float, Callable[[], Awaitable[object]]]] = [
        (_REFRESH, gateway.tokens.refresh),
        (_REFRESH, gateway.finish_removals),
        (_NOTE, gateway.note_used),
        (_NOTE, gateway.record_unrecorded),
        (_TIDY, lambda: threads.call(rooms.idempotency.tidy)),
        (_DAY, lambda: threads.call(rooms.accounts.tidy)),
        (_DAY, lambda: threads.call(rooms.audit.prune)),
    ]
    return [asyncio.create_task(_repeated(seconds, job)) for seconds, job in jobs]


async def _repeated(seconds: float, job: Callable[[], Awaitable[object]]) -> None:
    """Start a job every ``seconds``, however long it takes; one that takes longer starts again at once."""
    loop = asyncio.get_running_loop()
    begins = loop.time()
    while True:
        begins = max(begins + seconds, loop.time())
        await asyncio.sleep(begins - loop.time())
        try:
            await job()
        except ProblemError as problem:
            LOGGER.warning("will try again in %g seconds: %s", seconds, problem.detail)
        except Exception:
            LOGGER.exception("will try again in %g seconds", seconds)
