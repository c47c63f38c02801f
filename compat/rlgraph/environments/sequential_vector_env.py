"""Several environments, stepped one after the other."""

from __future__ import annotations

import warnings
from typing import Any

from ....core.checks import shortened
from ..utils.rlgraph_errors import RLGraphWarning, flag, integer, refuse
from .environment import Environment, read_seed
from .openai_gym import OpenAIGymEnv
from .vector_env import VectorEnv


class SequentialVectorEnv(VectorEnv):
    """Several environments from one specification; takes and returns lists with one entry per environment.

    Args:
        num_envs: number of environments.
        env_spec: a specification for ``Environment.from_spec``: a dictionary, or a callable that makes a new
            environment at each call; an environment only if ``num_envs`` is 1.
        num_background_envs: no effect, with a warning: environments are reset on request.
        async_reset: no effect, with a warning.

    Attributes:
        environments: the environments.

    Raises:
        RLGraphError: an argument is invalid, or two of the environments are the same object.
    """

    def __init__(
        self, num_envs: int, env_spec: Any, num_background_envs: int | None = None, async_reset: bool = False
    ) -> None:
        self.num_envs = integer("SequentialVectorEnv: num_envs", num_envs, at_least=1)
        ignored = []
        if num_background_envs is not None:
            integer("SequentialVectorEnv: num_background_envs", num_background_envs, at_least=0)
            ignored.append("num_background_envs")
        if flag("SequentialVectorEnv: async_reset", async_reset):
            ignored.append("async_reset")
        if ignored:
            text = f"SequentialVectorEnv: {', '.join(ignored)} has no effect: environments are reset on request"
            warnings.warn(text, RLGraphWarning, stacklevel=2)
        self.environments: list[Environment] = []
        for index in range(self.num_envs):
            try:
                made = Environment.from_spec(env_spec)
            except BaseException:
                self.terminate()
                raise
            if any(inner(made) is inner(other) for other in self.environments):
                problem = "must make another environment at each call: two of them are one object"
                refuse("SequentialVectorEnv: env_spec", problem, env_spec)
            self.environments.append(made)
            if (made.state_space, made.action_space) != self._spaces():
                self.terminate()
                problem = f"makes environments of different spaces: number {index} differs from the first"
                refuse("SequentialVectorEnv: env_spec", problem, env_spec)
        super().__init__(*self._spaces())

    def get_env(self) -> Environment:
        """The first environment."""
        return self.environments[0]

    def seed(self, seed: int | None = None) -> list[int]:
        """Seed the environments with ``seed``, ``seed + 1``, ...; returns these seeds."""
        first = read_seed("SequentialVectorEnv", seed)
        return [env.seed(first + index) for index, env in enumerate(self.environments)]

    def reset(self, index: int = 0) -> Any:
        """Begin an episode of one environment and return its first state."""
        index = integer("SequentialVectorEnv.reset: index", index, at_least=0)
        if index >= self.num_envs:
            refuse("SequentialVectorEnv.reset: index", f"must be in 0 .. {self.num_envs - 1}, got {index}", index)
        return self.environments[index].reset()

    def reset_all(self) -> list[Any]:
        """Begin an episode of each environment and return their first states."""
        return [env.reset() for env in self.environments]

    def step(self, actions: Any) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """Act in each environment; returns lists of states, rewards, terminals and infos.

        Args:
            actions: one per environment, a list or an array. Reset an environment whose episode has ended first.
        """
        if not hasattr(actions, "__len__") or len(actions) != self.num_envs:
            problem = f"must be {self.num_envs}, one for each environment; got {shortened(actions)}"
            refuse("SequentialVectorEnv.step: actions", problem, actions)
        told = [env.step(action) for env, action in zip(self.environments, actions, strict=True)]
        states, rewards, terminals, infos = (list(column) for column in zip(*told, strict=True))
        return states, rewards, terminals, infos

    def step_flow(self, actions: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """Act in each environment, and begin a new episode in those whose episode ends; returns lists.

        Args:
            actions: see :meth:`step`.
        """
        states, rewards, terminals, _ = self.step(actions)
        told = zip(self.environments, states, terminals, strict=True)
        return [env.reset() if ended else state for env, state, ended in told], rewards, terminals

    def render(self) -> None:
        """Render the first environment."""
        self.environments[0].render()

    def terminate(self) -> None:
        """Terminate all environments."""
        for env in self.environments:
            env.terminate()

    def __str__(self) -> str:
        return f"SequentialVectorEnv({self.num_envs} x {self.environments[0]})"

    def _spaces(self) -> tuple[Any, Any]:
        return self.environments[0].state_space, self.environments[0].action_space


def inner(environment: Environment) -> object:
    """The innermost environment: Gymnasium's if one is wrapped."""
    return environment.gym_env if isinstance(environment, OpenAIGymEnv) else environment
