"""Settings of workers."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class WorkerSettings:
    """Settings of a worker.

    Args:
        data: the service's folder.
        syncs: whether accepted records are forced to the disk before they are acknowledged; otherwise once a second.
        idle_seconds: time without requests after which an agent is unloaded; the next request loads it.
        memory: bytes of a worker above which the least recently used agents are unloaded; 0 for no limit.
        checkpoint_steps: steps after which a checkpoint is written.
        checkpoint_seconds: seconds after which one is written if anything has changed.
        log_level: lowest level that is logged.
    """

    data: str = ""
    syncs: bool = True
    idle_seconds: float = 900.0
    memory: int = 0
    checkpoint_steps: int = 10_000
    checkpoint_seconds: float = 60.0
    log_level: str = "info"
