"""RandomAgent: uniform actions; it learns nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ....core.protocols import Array
from ..spaces import IntBox, Space
from .agent import Agent
from .core import Acted, Core


class RandomCore(Core):
    """Draws actions; what is observed is forgotten."""

    def __init__(self, name: str, actions: Space, seed: int) -> None:
        super().__init__(name, seed)
        self._actions = actions

    def act(
        self,
        features: Mapping[str, Array],
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Acted:
        """As :meth:`Core.act`; without ``explore`` too: there is no best action."""
        rows = len(lanes)
        drawn = self._actions.flatten(self._actions.sample(rows, rng=self.exploration_rng))
        for name, box in self._actions.flat().items():
            if isinstance(box, IntBox) and box.num_categories is not None:
                drawn[name] = drawn[name] - box.low.astype(box.dtype)  # actions count from 0 inside
        return Acted(drawn, np.ones(rows, np.bool_))

    def store(self, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
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

    def _make_core(self) -> Core:
        return RandomCore(type(self).__name__, self.action_space, self.seed)
