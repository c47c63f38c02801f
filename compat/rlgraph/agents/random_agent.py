"""RandomAgent: uniform actions; it learns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ....core.protocols import Array
from ..spaces import Space
from .agent import Agent
from .core import Acted, Asked, Core
from .rows import Row


class RandomCore(Core):
    """Draws actions; what is observed is forgotten."""

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        super().__init__(name, form, states, actions, seed)
        self._actions = actions

    def act(self, asked: Asked) -> Acted:
        """See ``Core.act``; ignores ``explore``: there is no best action."""
        drawn = self._actions.flatten(self._actions.sample(len(asked.lanes), rng=self.exploration_rng))
        for name, low in self.lows.items():
            drawn[name] = drawn[name] - low.astype(drawn[name].dtype)  # actions count from 0 inside
        return Acted(drawn, np.ones(len(asked.lanes), np.bool_))

    def store(self, env_id: str | None, rows: Sequence[Row], noted: Sequence[dict[str, Array] | None]) -> None:
        """Nothing is stored."""

    def update(self, updates: int) -> None:
        """Nothing is learnt."""

    def learn(self, batch: Mapping[str, Any], updates: int) -> None:
        """Nothing is learnt."""


class RandomAgent(Agent):
    """Draws actions uniformly from its action space.

    It takes the arguments of :class:`Agent`, of which only the spaces matter.
    """

    kind: ClassVar[str] = "random"
    core_class: ClassVar[type[Core]] = RandomCore
