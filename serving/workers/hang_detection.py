"""Detects hung workers, whose process exists but makes no progress.

Between answers a worker sends a heartbeat once a second: from its only loop, and from long operations there (replaying
a journal, saving agents). So a heartbeat proves progress; one from a thread would only prove that the process runs, and
continue beside a stuck loop. Long updates run in a separate thread, and do not delay heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from .child import Child

CHECKS: Final = 10
"""Number of checks within the time after which a child is given up."""
START_SECONDS: Final = 60.0
"""Minimum seconds allowed until a child's first frame, as it must load its modules."""
logger = logging.getLogger("axonrl.serving")


async def watched(child: Child, seconds: float) -> int:
    """Wait until a child has ended, and kill it if it hangs.

    It hangs if it has unanswered requests and sent nothing during :data:`CHECKS` checks in a row. The pool's own poll
    of counters is such a request, so an idle worker is watched, too. Checks are counted instead of reading a clock:
    while the gateway itself is stopped, or the machine asleep, none happen.

    Args:
        child: a worker.
        seconds: time without progress that counts as hanging.

    Returns:
        Number of kills: 0 if it ended by itself.
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
                "%s hangs (process %d): nothing came from it for %g seconds, and it owes %d answers: it is killed",
                child.name, child.process.pid, silent * interval, child.owes, extra={"worker": child.number},
            )  # fmt: skip
            child.process.kill()
            silent, killed = 0, killed + 1
    return killed
