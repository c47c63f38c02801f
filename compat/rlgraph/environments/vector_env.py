"""VectorEnv: several environments as one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from .environment import Environment


class VectorEnv(Environment):
    """Several environments as one; takes and returns lists with one entry per environment.

    Attributes:
        num_envs: number of environments.
    """

    num_envs: int

    @abstractmethod
    def reset_all(self) -> list[Any]:
        """Begin an episode of each environment and return their first states."""

    @abstractmethod
    def get_env(self) -> Environment:
        """The first environment."""
