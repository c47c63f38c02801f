"""Methods of an environment, whatever is around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import SyncVectorEnv

from ..errors import ArgumentError
from .making import similar


class Methods:
    """Finds methods by name: of the outermost wrapper that has one, of a vector environment or of one of its parts.

    Where the parts are elsewhere, in processes or as arrays, another environment like them is made, once.

    Args:
        env: an environment or a vector environment; None has no methods.
    """

    def __init__(self, env: Any) -> None:
        self._env = env
        self._made: gymnasium.Env[Any, Any] | None = None

    def __call__(self, name: str) -> Callable[..., Any] | None:
        """The method of that name; None where there is none, or no environment to ask.

        Raises:
            ArgumentError: the parts of a vector environment cannot be asked.
        """
        env = self._env
        if env is None:
            return None
        if not isinstance(env, gymnasium.Env):  # a vector environment
            if callable(own := getattr(env, name, None)):
                found: Callable[..., Any] = own
                return found
            env = env.envs[0] if isinstance(env, SyncVectorEnv) else self._one()
        try:
            method = env.get_wrapper_attr(name)
        except AttributeError:
            return None
        return method if callable(method) else None

    def close(self) -> None:
        """Close what was made."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def _one(self) -> gymnasium.Env[Any, Any]:
        if self._made is None:
            try:
                self._made = similar(self._env)
            except ArgumentError as error:
                raise ArgumentError(
                    f"the memory asks for a method of the environment, and none of its parts can be asked: {error};"
                    " or give the function to the memory",
                    "env",
                    self._env,
                ) from error
        return self._made
