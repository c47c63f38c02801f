"""Worker: base class of workers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class Worker(ABC):
    """Runs an agent in environments."""

    @abstractmethod
    def execute_timesteps(self, num_timesteps: int) -> dict[str, Any]:
        """Run for a number of timesteps."""

    @abstractmethod
    def execute_episodes(self, num_episodes: int) -> dict[str, Any]:
        """Run until a number of episodes have ended."""
