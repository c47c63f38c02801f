"""How workers keep their agents."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class WorkerSettings:
    """What a worker is started with.

    Args:
        data: the service's folder.
        syncs: is what was accepted forced to the disk before it is acknowledged? Else once a second.
        idle_seconds: an agent that nobody asked for so long is put away; the next request brings it back.
        memory: bytes of a worker above which the agents that were unused longest are put away; 0 for no limit.
        checkpoint_steps: steps after which a checkpoint is written.
        checkpoint_seconds: seconds after which one is written, where anything has changed.
        log_level: from which on lines are logged.
    """

    data: str = ""
    syncs: bool = True
    idle_seconds: float = 900.0
    memory: int = 0
    checkpoint_steps: int = 10_000
    checkpoint_seconds: float = 60.0
    log_level: str = "info"
