"""The loop of ``Agent.train`` without updates, and its parts called alone, in CPU time."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from axonrl import Agent, RunConfig
from axonrl.explorations import EpsilonGreedy
from axonrl.memories import ReplayMemory
from axonrl.models import dqn

from .. import settings
from ..timing import cpu_microseconds, cpu_seconds_of
from .axonrl import TRANSITION

LONG, SHORT = 500, 10
"""Timesteps of an episode."""
NEVER = 2**40
"""More timesteps than any run has."""
MEMORY_SIZE = 1_000
"""Small, so that the checkpoint at the end of ``train`` is."""
WARM_UP_SHARE = 0.1


class Idle(gymnasium.Env[Any, Any]):
    """Does nothing for ``length`` timesteps."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self.length, self.timestep = length, 0
        self.observation = np.zeros(4, np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.timestep = 0
        return self.observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.timestep += 1
        return self.observation, 1.0, self.timestep == self.length, False, {}


def agent_in(folder: str) -> Agent:
    """A DQN with two hidden layers of 64 units, in LiteRT."""
    params = {"hidden": (64, 64), "epsilon": settings.EPSILON}
    memory = ReplayMemory(MEMORY_SIZE, settings.BATCH_SIZE, discount=settings.DISCOUNT)
    return Agent(dqn.model_fn, memory, Path(folder, "run"), RunConfig(seed=0, runtime="litert"), params)


def loop(timesteps: int) -> dict[str, float]:
    """CPU microseconds of a timestep, of an episode, and of the parts of a timestep.

    Args:
        timesteps: measured for each length of episodes, beyond a first call.
    """
    long, short = (_of_a_timestep(length, timesteps) for length in (LONG, SHORT))
    parts = _parts(timesteps)
    return {
        f"a timestep, episodes of {LONG}": long,
        f"a timestep, episodes of {SHORT}": short,
        "an episode": (short - long) / (1 / SHORT - 1 / LONG),
        **parts,
        "the parts together": sum(parts.values()),
    }


def _of_a_timestep(length: int, timesteps: int) -> float:
    """Microseconds, from the difference between a long and a short call: a call's own costs cancel out."""
    env = Idle(length)
    with tempfile.TemporaryDirectory() as folder:
        agent = agent_in(folder)

        def train(count: int) -> None:
            agent.train(env, NEVER, NEVER, timesteps=count)

        few = int(WARM_UP_SHARE * timesteps)
        train(few)  # traces, converts and fills the memory
        short, long = (cpu_seconds_of(partial(train, count)) for count in (few, few + timesteps))
    return (long - short) / timesteps * 1e6


def _parts(calls: int) -> dict[str, float]:
    observation = np.zeros((1, 4), np.float32)
    with tempfile.TemporaryDirectory() as folder:
        agent = agent_in(folder)
        agent.train(Idle(LONG), NEVER, NEVER, timesteps=1)
        actor = agent._model.executor
        predictions, _ = actor.act(observation)
        acting = cpu_microseconds(partial(actor.act, observation), calls)
    memory = ReplayMemory(MEMORY_SIZE, settings.BATCH_SIZE, discount=settings.DISCOUNT)
    memory.build(TRANSITION, 1, np.random.default_rng(0))
    memory.trust_identity()  # as the loop does
    row = observation[0]
    transition = {"observation": row, "action": np.int32(1), "reward": 1.0, "next_observation": row}
    storing = cpu_microseconds(partial(memory.step, terminated=False, truncated=False, **transition), calls)
    explore = EpsilonGreedy(settings.EPSILON, Idle.action_space)
    exploring = cpu_microseconds(partial(explore, predictions, 0, np.random.default_rng(0)), calls)
    return {"acting": acting, "storing": storing, "exploring": exploring}
