"""Environments of the tests of Ray, which actors import; they note which processes they are in."""

import contextlib
import json
import os
import sys
import time
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
            path = Path(os.environ[REPORTS], f"{os.getpid()}.json")
            path.with_suffix(".tmp").write_text(json.dumps(note))
            path.with_suffix(".tmp").rename(path)  # whole, also where the actor is killed meanwhile
        return super().step(action)


class Broken(gymnasium.Env[Any, Any]):
    observation_space, action_space = gymnasium.spaces.Box(-1, 1, (1,)), gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        raise OSError("the simulator is gone")


def damaging() -> Any:
    """In an actor: the third unroll of its first incarnation has a NaN."""
    if "tensorflow" not in sys.modules:
        from axonrl.distributed import actor

        kind: Any = actor.Collector
        collect = kind.collect

        def spoiled(self: Any, request: Any) -> Any:
            unroll = collect(self, request)
            if request.id[1:] == (0, 2):
                unroll.columns["reward"][3, 0] = np.nan
            return unroll

        if collect.__name__ == "collect":
            kind.collect = spoiled
    return gymnasium.make("CartPole-v1")


def reporting() -> Any:
    return Reporting()


def broken() -> Any:
    return Broken()


class Slow(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Its first step ends when an environment of another process has made 1,000."""

    def step(self, action: Any) -> Any:
        while not Path(os.environ[REPORTS], "fast").exists():
            time.sleep(0.01)
        return super().step(action)


class Fast(gymnasium.Wrapper[Any, Any, Any, Any]):
    steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 1000:
            Path(os.environ[REPORTS], "fast").touch()
        return super().step(action)


def slow() -> Any:
    """Slow in the first actor that makes one."""
    env, first = gymnasium.make("CartPole-v1"), Path(os.environ[REPORTS], "slow")
    if "tensorflow" in sys.modules:
        return env
    with contextlib.suppress(FileExistsError):
        first.symlink_to(str(os.getpid()))
    return Slow(env) if first.readlink().name == str(os.getpid()) else Fast(env)


class Images(gymnasium.Env[Any, Any]):
    """Four frames of an Atari game in each observation, 28,224 bytes; which tells the number of the timestep."""

    observation_space, action_space = gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8), gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> Any:
        self._t = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self._t += 1
        return self._seen(), 1.0, False, self._t == 200, {}

    def _seen(self) -> Any:
        return np.full((84, 84, 4), self._t, np.uint8)


def images() -> Any:
    return Images()
