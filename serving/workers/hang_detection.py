"""Whether a worker hangs: its process is there, but it gets nowhere.

A worker answers, and between answers it beats once a second: from its only loop, and within what takes long there (a
journal that is replayed, agents that are saved one after another). So a beat says that it gets on. A thread that beats
would say only that the process runs, and go on beating beside a loop that is stuck. Updates that take long run in a
thread of the worker, beside the loop, and so do not keep it from beating.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from .child import Child

CHECKS: Final = 10
"""In the time after which a child is given up."""
START_SECONDS: Final = 60.0
"""That a child may take at least until it is heard of for the first time: it must load what it needs."""
logger = logging.getLogger("axonrl.serving")


async def watched(child: Child, seconds: float) -> int:
    """Wait until a child has ended, and kill it when it hangs.

    It hangs if it has requests to answer and nothing came of it for so many checks in turn. They are counted, and no
    clock is asked: while the gateway itself was stopped, or the machine asleep, no check was made.

    Args:
        child: a worker.
        seconds: after which it hangs.

    Returns:
        How often it was killed: 0 where it ended by itself.
    """
    interval = seconds / CHECKS
    heard, silent, killed = 0, 0, 0
    while not child.gone.is_set():
        try:
            await asyncio.wait_for(child.gone.wait(), interval)
        except asyncio.TimeoutError:
            silent = silent + 1 if child.owes and child.heard == heard else 0
            heard = child.heard
        most = CHECKS if heard else max(CHECKS, START_SECONDS / interval)
        if silent > most and child.process is not None:
            logger.error(
                "%s hangs (process %d): nothing came of it for %g seconds, and %d requests wait: it is killed",
                child.name, child.process.pid, silent * interval, child.owes, extra={"worker": child.number},
            )  # fmt: skip
            child.process.kill()
            silent, killed = 0, killed + 1
    return killed
