"""Environments of Gymnasium."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import gymnasium
import numpy as np

from ....core.checks import shortened
from ....environments import make
from ...common.gymnasium_ids import registered_id
from ..spaces.errors import integer, number, refuse, translate_errors
from .environment import Environment
from .gymnasium_spaces import part_of

logger = logging.getLogger("axonrl")
AnyEnv: TypeAlias = "gymnasium.Env[Any, Any]"

_WHERE: Final = "gym"
_NO_LIMIT: Final = -1
"""Arguments of ``gymnasium.make``."""


class GymnasiumEnvironment(Environment):
    """An environment of Gymnasium or Gym, whose ``reset`` has no info and whose ``step`` has a single ``done``.

    Args:
        level: an id, such as ``"CartPole-v1"``; without a version (``"CartPole"``) the newest one, without its time
            limit. Or a ``gymnasium.Env``, an object with its methods and spaces, or a class of these.
        visualize: show the environment in a window.
        max_episode_steps: overrides the time limit; False: none.
        terminal_reward: added to the reward of a timestep that ends the episode (not at a time limit).
        reward_threshold: no effect.
        drop_states_indices: entries to drop from a state of rank 1.
        visualize_directory: where to write a video of each episode.
        **kwargs: arguments of the environment.

    Raises:
        TensorforceError: an argument is invalid, the level is unknown, or its spaces are not supported.
    """

    def __init__(
        self,
        level: Any,
        visualize: bool = False,
        max_episode_steps: int | bool | None = None,
        terminal_reward: float = 0.0,
        reward_threshold: float | None = None,
        drop_states_indices: Sequence[int] | None = None,
        visualize_directory: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._terminal_reward = number(f"{_WHERE}: terminal_reward", terminal_reward)
        if reward_threshold is not None:
            logger.warning("gym: reward_threshold has no effect; an episode ends when the environment says so")
        if visualize_directory is not None and not isinstance(visualize_directory, str | os.PathLike):
            refuse(f"{_WHERE}: visualize_directory", f"must be a path, got {visualize_directory!r}")
        if visualize or visualize_directory is not None:
            if not isinstance(level, str | type):
                refuse(f"{_WHERE}: visualize", "needs a level that is an id or a class; give an object its render_mode")
            kwargs.setdefault("render_mode", "human" if visualize_directory is None else "rgb_array")
        steps = _NO_LIMIT if max_episode_steps is False else max_episode_steps
        if max_episode_steps is not None and max_episode_steps is not False:
            steps = integer(f"{_WHERE}: max_episode_steps", max_episode_steps, at_least=1)
        env, self._limit = _open_environment(level, steps, kwargs)
        if visualize_directory is not None:
            try:
                env = gymnasium.wrappers.RecordVideo(env, visualize_directory, episode_trigger=lambda _: True)
            except gymnasium.error.DependencyNotInstalled as error:
                env.close()
                problem = f"needs a package that is not installed: {error}"
                refuse(f"{_WHERE}: visualize_directory", problem, visualize_directory)
        self.env = env
        self._timestep, self._warned = 0, False
        spec = getattr(env, "spec", None)
        self._name = spec.id if spec is not None else type(getattr(env, "unwrapped", env)).__name__
        try:
            states = part_of(f"{self._name}: states", getattr(env, "observation_space", None), actions=False)
            actions = part_of(f"{self._name}: actions", getattr(env, "action_space", None), actions=True)
            self._kept = _kept_indices(states.spec, drop_states_indices)
        except BaseException:
            if env is not level:
                env.close()
            raise
        self._states_spec, self._actions_spec = states.spec, actions.spec
        if self._kept is not None:
            self._states_spec = states.spec | {"shape": (len(self._kept),)}
        self._read, self._write = states.read, actions.write

    def states(self) -> dict[str, Any]:
        """The specification of the observation space, without bounds."""
        return self._states_spec

    def actions(self) -> dict[str, Any]:
        """The specification of the action space."""
        return self._actions_spec

    def max_episode_timesteps(self) -> int | None:
        """The environment's time limit."""
        return self._limit

    def reset(self) -> Any:
        """Begin an episode."""
        self._timestep = 0
        found: Any = self.env.reset()
        if isinstance(found, tuple) and len(found) == 2 and isinstance(found[1], dict):
            return self._state_of(found[0])
        self._warn("reset without info")
        return self._state_of(found)

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        """Act: terminal is 1 if the environment has terminated, 2 if it was only truncated."""
        found: Any = self.env.step(self._write(actions))
        if len(found) == 4:
            self._warn("step with four values")
            observation, reward, done, info = found
            truncated = done and bool(info.get("TimeLimit.truncated", False))
            terminated = done and not truncated
        else:
            observation, reward, terminated, truncated, _ = found
        self._timestep += 1
        reward = float(np.asarray(reward).item())
        if terminated:
            return self._state_of(observation), 1, reward + self._terminal_reward
        return self._state_of(observation), 2 if truncated or self._timestep == self._limit else 0, reward

    def close(self) -> None:
        """Close the environment."""
        if callable(close := getattr(self.env, "close", None)):
            close()

    def __str__(self) -> str:
        return self._name

    def _warn(self, what: str) -> None:
        if not self._warned:  # once
            self._warned = True
            logger.warning("%s has the interface of Gym (%s) and is used like Gymnasium's", self._name, what)

    def _state_of(self, observation: Any) -> Any:
        states = self._read(observation)
        return states if self._kept is None else states[self._kept]


def _open_environment(level: Any, steps: int | None, kwargs: dict[str, Any]) -> tuple[AnyEnv, int | None]:
    """The environment and its time limit."""
    if isinstance(level, str):
        name, versioned = registered_id(level)
        if versioned and name != level:
            logger.warning("Gymnasium no longer has %s: using %s, whose results may differ", level, name)
        if steps is None and not versioned:
            steps = _NO_LIMIT
        limit: dict[str, Any] = {} if steps is None else {"max_episode_steps": steps}
        with translate_errors(_WHERE):
            env = make(name, None, **limit, **kwargs)
        return env, _limit_of(env)
    if not all(callable(getattr(level, name, None)) for name in ("reset", "step")):
        refuse(f"{_WHERE}: level", f"must be an id, a gymnasium.Env or a class of them; got {shortened(level)}", level)
    if isinstance(level, type):
        env = level(**kwargs)
    elif kwargs:
        refuse(f"{_WHERE}: {next(iter(kwargs))}", "needs an id or a class; the level is an object", kwargs)
    else:
        env = level
    own = _limit_of(env)
    if steps is None or (steps == _NO_LIMIT and own is None):
        return env, own
    if steps == _NO_LIMIT or (own is not None and steps > own):
        refuse(f"{_WHERE}: max_episode_steps", f"cannot be above {own}, which the level was made with", steps)
    return env, steps


def _limit_of(env: Any) -> int | None:
    spec = getattr(env, "spec", None)
    return None if spec is None else spec.max_episode_steps


def _kept_indices(spec: dict[str, Any], dropped: Sequence[int] | None) -> Any:
    """Indices of the entries of a state to keep; None: all."""
    if dropped is None:
        return None
    where = f"{_WHERE}: drop_states_indices"
    if not isinstance(spec.get("type"), str) or len(spec["shape"]) != 1:
        refuse(where, f"needs one state of rank 1, but states are {shortened(spec)}", dropped)
    if not isinstance(dropped, list | tuple | range | set | np.ndarray):
        refuse(where, f"must be a list of indices, got {shortened(dropped)}", dropped)
    size = spec["shape"][0]
    indices = {integer(where, index, at_least=0) for index in dropped}
    if not indices or max(indices) >= size or len(indices) == size:
        refuse(where, f"must be some, but not all, of 0 .. {size - 1}; got {dropped!r}", dropped)
    return np.array([index for index in range(size) if index not in indices])
