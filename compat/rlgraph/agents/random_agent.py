"""RandomAgent: uniform actions; it learns nothing."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core, RandomCore


class RandomAgent(Agent):
    """Draws actions uniformly from its action space.

    It takes the arguments of :class:`Agent`, but uses only the spaces.
    """

    kind: ClassVar[str] = "random"
    core_class: ClassVar[type[Core]] = RandomCore
