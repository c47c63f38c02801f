"""One environment of a Runner, with its running episode."""

from __future__ import annotations

import enum
import time
from typing import Any, Final

from ..environments.environment import Environment
from ..environments.limited import LimitedEnvironment
from ..environments.remote import RemoteEnvironment

VALUES: Final = ("rewards", "timesteps", "seconds", "agent_seconds", "env_seconds")
"""Values recorded for each episode."""


class Phase(enum.Enum):
    """Phase of a lane."""

    IDLE = "no episode runs"
    STARTING = "the environment resets"
    ACTING = "it is the agent's turn"
    EXECUTING = "the environment executes actions, and the agent has not observed what follows"


class Lane:
    """An environment with its episode.

    Args:
        environment: a remote environment, which is not waited for, or a checked one.
        index: its position among the environments, and the agent's parallel index in training.
        evaluated: act with ``evaluation``, without observing?
        counted: do the run's limits, counters and callbacks apply to it?
    """

    def __init__(self, environment: Environment, index: int, *, evaluated: bool, counted: bool) -> None:
        self.index, self.evaluated, self.counted = index, evaluated, counted
        self.phase, self.states, self.internals = Phase.IDLE, None, None
        self.terminal, self.last_reward, self._began = 0, 0.0, 0.0
        is_checked = isinstance(environment, LimitedEnvironment | RemoteEnvironment)
        self._environment: Any = environment if is_checked else LimitedEnvironment(environment)
        self._is_remote = isinstance(environment, RemoteEnvironment)
        self._reply: Any = None
        self.clear()

    @property
    def values(self) -> tuple[float, ...]:
        """Values of the episode, in the order of :data:`VALUES`."""
        seconds = time.perf_counter() - self._began
        return self.reward, self.timestep, seconds, self.agent_seconds, self.env_seconds

    @property
    def owes(self) -> bool:
        """Does the episode need another act of the agent before it can end?"""
        return self.phase in (Phase.STARTING, Phase.ACTING)

    def start(self, internals: Any) -> None:
        """Begin an episode."""
        self.clear()
        self.terminal, self.internals = 0, internals
        self.phase, self._began = Phase.STARTING, time.perf_counter()
        self._call("reset")

    def clear(self) -> None:
        """Reset the counts of an episode."""
        self.reward, self.timestep, self.agent_seconds, self.env_seconds = 0.0, 0, 0.0, 0.0

    def execute(self, actions: Any) -> None:
        """Act."""
        self.timestep += 1
        self.phase = Phase.EXECUTING
        self._call("execute", actions)

    def _call(self, method: str, *given: Any) -> None:
        if self._is_remote:
            getattr(self._environment, f"start_{method}")(*given)
            return
        began = time.perf_counter()
        self._reply = getattr(self._environment, method)(*given)
        self.env_seconds += time.perf_counter() - began

    def ready(self) -> bool:
        """Has the environment answered?"""
        return not self._is_remote or self._environment.ready()

    def receive(self) -> bool:
        """Take the environment's answer.

        Returns:
            Whether it answers an act; ``terminal`` and ``last_reward`` are then set.
        """
        reply, self._reply = self._reply, None
        if self._is_remote:
            reply = self._environment.receive()
            self.env_seconds += self._environment.seconds
        if self.phase is Phase.STARTING:
            self.states, self.phase = reply, Phase.ACTING
            return False
        self.states, self.terminal, self.last_reward = reply[0], int(reply[1]), float(reply[2])
        self.reward += self.last_reward
        return True

    def observed(self) -> None:
        """End the timestep; ``terminal`` says whether the episode continues."""
        self.phase = Phase.IDLE if self.terminal else Phase.ACTING
