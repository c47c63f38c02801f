"""The view that a memory gets of the environment that fills it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv

from ..core.errors import ArgumentError
from ..core.protocols import Episode
from .episodes import checked_episodes, read_episodes
from .ids import similar
from .spaces import AnySpace


class EnvironmentView:
    """Spaces and methods of an environment; see :class:`axonrl.core.protocols.EnvironmentView`.

    Args:
        observation_space: the observation space of one environment.
        action_space: the action space of one environment.
        env: an environment or a vector environment; None where a caller owns the loop.
        folder: tried first for relative paths; None for the current folder.
    """

    def __init__(
        self, observation_space: AnySpace, action_space: AnySpace, env: Any = None, folder: Path | None = None
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._env, self._folder = env, folder or Path()

    def method(self, name: str) -> Callable[..., Any] | None:
        """A method of the outermost wrapper that has it, of a vector environment, or of one of its environments.

        If these are in other processes or stepped as arrays, a similar environment is made for it.

        Returns:
            None if there is no such method, or no environment to ask.
        """
        found = None if isinstance(self._env, gymnasium.Env) else getattr(self._env, name, None)
        if not callable(found) and self._one is not None:
            try:
                found = self._one.get_wrapper_attr(name)
            except AttributeError:
                return None
        return found if callable(found) else None

    def episodes(self, data: str | Path | Iterable[Episode], name: str = "episodes") -> Iterator[Episode]:
        """The episodes in a file or a folder, or a caller's, checked alike; see :func:`~.episodes.read_episodes`."""
        spaces = self.observation_space, self.action_space
        if not isinstance(data, str | Path):
            return checked_episodes(name, data, *spaces)
        below = self._folder / data
        return read_episodes(below if below.exists() else data, *spaces)

    @functools.cached_property
    def _one(self) -> gymnasium.Env[Any, Any] | None:
        env = self._env
        if env is None or isinstance(env, gymnasium.Env):
            return env
        if isinstance(env, SyncVectorEnv):
            return env.envs[0]
        try:
            return similar(env)
        except ArgumentError:
            return None
