"""Environments of the tests of Ray, which actors import; they note which processes they are in."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

REPORTS = "AXONRL_TEST_REPORTS"
"""Environment variable: the folder of the notes."""


class Reporting(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Notes what its process has loaded at its 30th timestep."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self._timesteps = 0

    def step(self, action: Any) -> Any:
        self._timesteps += 1
        if self._timesteps == 30:
            memory = Path("/proc/self/smaps_rollup").read_text().split()
            kilobytes = {name: int(memory[memory.index(name) + 1]) for name in ("Rss:", "Pss:", "Private_Dirty:")}
            note = {"pid": os.getpid(), "tensorflow": "tensorflow" in sys.modules, **kilobytes}
            Path(os.environ[REPORTS], f"{os.getpid()}.json").write_text(json.dumps(note))
        return super().step(action)


class Broken(gymnasium.Env[Any, Any]):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        raise OSError("the simulator is gone")


def damaging() -> Any:
    """In an actor: the third fragment of its first incarnation has a NaN."""
    if "tensorflow" not in sys.modules:
        from axonrl.distributed import collecting

        kind: Any = collecting.Collector
        collect = kind.collect

        def spoiled(self: Any, request: Any) -> Any:
            fragment = collect(self, request)
            if request.id[1:] == (0, 2):
                fragment.columns["reward"][3, 0] = np.nan
            return fragment

        if collect.__name__ == "collect":
            kind.collect = spoiled
    return gymnasium.make("CartPole-v1")


def reporting() -> Any:
    return Reporting()


def broken() -> Any:
    return Broken()
