"""Small agents and clusters of the tests of Ray, and what these look at."""

import importlib
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from axonrl import Agent, RunConfig
from axonrl.hooks import Hook
from axonrl.memories import BatchMemory, Prioritized, ReplayMemory
from axonrl.models import dqn, impala

SHARED: dict[str, Any] = {"actors": 2, "envs_per_actor": 2, "unroll": 10, "actor_cpus": 0.5, "shard_cpus": 0.5}
QUICK: dict[str, Any] = {**SHARED, "restart_delay_s": 0.05, "stall_timeout_s": 300, "unroll_timeout_s": 240}
SMALL: dict[str, Any] = {"hidden": (4,), "optimizer": "sgd"}
CONFIG = RunConfig(seed=1, progress=False)


def rollouts(folder: Path | str, size: int = 40, **params: Any) -> Agent:
    return Agent(impala.model_fn, BatchMemory(size), folder, CONFIG, {**SMALL, **params})


def replay(folder: Path | str, size: int = 2000, batch_size: int = 8) -> Agent:
    memory = ReplayMemory(size, batch_size, n_step=3, sampler=Prioritized())
    return Agent(dqn.model_fn, memory, folder, CONFIG, SMALL)


def factory(name: str) -> Any:
    return getattr(importlib.import_module("for_actors"), name)  # as actors import it


def notes_in(folder: Path) -> dict[int, Any]:
    return {int(path.stem): json.loads(path.read_text()) for path in folder.glob("*.json")}


def there(pids: Iterable[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


def remaining(pids: Iterable[int]) -> set[int]:
    """Those that have not ended after 30 s."""
    until = time.monotonic() + 30
    while (left := there(pids)) and time.monotonic() < until:
        time.sleep(0.1)
    return left


class Once(Hook):
    """Does something at the third update, and stops when something is true later."""

    def __init__(self, act: Callable[[], None], until: Callable[[], bool]) -> None:
        self._act, self._until = act, until

    def after_update(self, session: Any, facts: Any) -> None:
        if session.global_step == 3:
            self._act()
        elif session.global_step > 3 and self._until():
            session.request_stop("it has happened")
