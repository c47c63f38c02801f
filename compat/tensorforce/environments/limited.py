"""A wrapper that adds a time limit to an environment, and checks its inputs and outputs."""

from __future__ import annotations

import math
from typing import Any

from ....core.checks import shortened
from ..spaces.errors import integer, refuse
from ..spaces.readers import StateReader, read_actions, read_reward, read_terminal
from ..spaces.specs import Values, check_together, read_values
from .environment import Environment


class LimitedEnvironment(Environment):
    """An environment whose episodes end after a number of timesteps.

    Returned values are checked against the specifications; other attributes are read from and set on ``environment``.

    Args:
        environment: the wrapped environment.
        limit: timesteps; None: only the environment's own limit.

    Raises:
        TensorforceError: its states, actions or limit are invalid, or ``limit`` is above its own.
    """

    def __init__(self, environment: Environment, limit: int | None = None) -> None:
        self._name = name = str(environment)
        self._execute = f"{name}.execute"
        self._states_spec, self._actions_spec = environment.states(), environment.actions()
        states, self._actions = read_specs(environment)
        self._read = StateReader(states, self._actions)
        own = environment.max_episode_timesteps()
        own = None if own is None else integer(f"{name}.max_episode_timesteps()", own, at_least=1)
        self._limit = own if limit is None else limit
        if own is not None and limit is not None and limit > own:
            problem = f"must be at most {own}, as {name}.max_episode_timesteps() is; got {limit}"
            refuse("Environment.create: max_episode_timesteps", problem, limit)
        self._last = math.inf if self._limit is None else self._limit
        self._timestep = 0
        self._running = False
        self._begun = False
        if limit is not None:
            environment._max_episode_timesteps = limit
        self.environment = environment  # from here on, other attributes are the environment's

    def __setattr__(self, name: str, value: Any) -> None:
        if "environment" not in vars(self) or name in vars(self):
            super().__setattr__(name, value)
        else:
            setattr(self.environment, name, value)

    def states(self) -> dict[str, Any]:
        """Specification of states."""
        return self._states_spec

    def actions(self) -> dict[str, Any]:
        """Specification of actions."""
        return self._actions_spec

    def max_episode_timesteps(self) -> int | None:
        """The limit; None: no limit."""
        return self._limit

    def reset(self) -> Any:
        """Begin an episode; a running one is dropped."""
        self._running, self._begun = False, True
        states = self.environment.reset()
        self._read(f"{self._name}.reset", states)
        self._timestep, self._running = 0, True
        return states

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        """Act; terminal is always 0, 1 or 2.

        Raises:
            TensorforceError: no episode runs, or the actions or the returned values are invalid.
        """
        if not self._running:
            why = "the episode has ended" if self._begun else "no episode has begun"
            refuse(self._execute, f"was called although {why}: call reset first", None)
        read_actions(self._execute, actions, self._actions, bounded=False)
        self._running = False  # also if the environment raises
        returned = self.environment.execute(actions)
        if not isinstance(returned, tuple | list) or len(returned) != 3:
            refuse(self._execute, f"must return states, terminal, reward; got {shortened(returned)}", returned)
        states, terminal, reward = returned
        self._read(self._execute, states)
        ended, reward = read_terminal(self._execute, terminal), read_reward(self._execute, reward)
        self._timestep += 1
        if ended == 0 and self._timestep >= self._last:
            ended = 2
        self._running = ended == 0
        return states, ended, reward

    def close(self) -> None:
        """Close the environment."""
        self._running = False
        self.environment.close()

    def __str__(self) -> str:
        return self._name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "environment" not in self.__dict__:  # during unpickling or copying
            raise AttributeError(name)
        return getattr(self.environment, name)


def read_specs(environment: Environment) -> tuple[Values, Values]:
    """States and actions declared by an environment.

    Raises:
        TensorforceError: they are invalid.
    """
    name = str(environment)
    states = read_values(name, environment.states(), "states")
    actions = read_values(name, environment.actions(), "actions")
    check_together(name, states, actions)
    return states, actions
