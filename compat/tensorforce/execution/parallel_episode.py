"""One environment of a Runner, and the episode that runs in it."""

from __future__ import annotations

import enum
import time
from typing import Any

from ..environments.environment import Environment
from ..environments.limited import LimitedEnvironment
from ..environments.remote import RemoteEnvironment


class Phase(enum.Enum):
    """Phase of a lane."""

    IDLE = "no episode runs"
    STARTING = "the environment resets"
    ACTING = "it is the agent's turn"
    EXECUTING = "the environment executes actions, and the agent has not observed what follows"


class ParallelEpisode:
    """An environment and its episode.

    Args:
        environment: reset and executed without waiting if it is remote; else checked.
        index: its place among the environments, and the agent's parallel index if it trains.
        evaluated: acts with ``evaluation``; the agent observes nothing.
        counted: the run's limits, counters and callbacks apply to it.
    """

    def __init__(self, environment: Environment, index: int, *, evaluated: bool, counted: bool) -> None:
        self.index = index
        self.evaluated = evaluated
        self.counted = counted
        self.phase = Phase.IDLE
        self.states: Any = None
        self.internals: Any = None
        self.reward = 0.0
        self.timestep = 0
        self.terminal = 0
        self.last_reward = 0.0
        self.agent_seconds = self.env_seconds = 0.0
        self._began = 0.0
        self._remote = environment if isinstance(environment, RemoteEnvironment) else None
        is_checked = isinstance(environment, LimitedEnvironment | RemoteEnvironment)
        self._environment = environment if is_checked else LimitedEnvironment(environment)
        self._reply: Any = None

    @property
    def owes(self) -> bool:
        """Is there an episode that needs another act of the agent before it can end?"""
        return self.phase in (Phase.STARTING, Phase.ACTING)

    @property
    def seconds(self) -> float:
        """Since the episode began."""
        return time.perf_counter() - self._began

    def start(self, internals: Any) -> None:
        """Begin an episode."""
        self.clear()
        self.terminal = 0
        self.internals = internals
        self._began = time.perf_counter()
        self.phase = Phase.STARTING
        if self._remote is not None:
            self._remote.start_reset()
        else:
            self._reply = self._environment.reset()
            self.env_seconds += time.perf_counter() - self._began

    def clear(self) -> None:
        """Nothing has been counted of an episode."""
        self.reward, self.timestep, self.agent_seconds, self.env_seconds = 0.0, 0, 0.0, 0.0

    def execute(self, actions: Any) -> None:
        """Act."""
        self.timestep += 1
        self.phase = Phase.EXECUTING
        if self._remote is not None:
            self._remote.start_execute(actions)
        else:
            began = time.perf_counter()
            self._reply = self._environment.execute(actions)
            self.env_seconds += time.perf_counter() - began

    def ready(self) -> bool:
        """Has the environment answered?"""
        return self._remote is None or self._remote.ready()

    def receive(self) -> bool:
        """Take the environment's answer.

        Returns:
            Does it follow upon actions? Then ``terminal`` and ``last_reward`` are set.
        """
        reply = self._reply
        if self._remote is not None:
            reply = self._remote.receive()
            self.env_seconds += self._remote.seconds
        self._reply = None
        if self.phase is Phase.STARTING:
            self.states = reply
            self.phase = Phase.ACTING
            return False
        self.states, self.terminal, self.last_reward = reply[0], int(reply[1]), float(reply[2])
        self.reward += self.last_reward
        return True

    def observed(self) -> None:
        """The timestep is over: the episode goes on or has ended, as ``terminal`` says."""
        self.phase = Phase.IDLE if self.terminal else Phase.ACTING
