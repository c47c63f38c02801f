"""What a kind of agent does behind its methods: acting, storing, learning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import Array, State
from ..utils.rlgraph_errors import RLGraphError, refuse
from .results import Loss

ONLY: Final = ""
"""The flat name of the only action."""


class Acted(NamedTuple):
    """Actions [B, ...] by flat name, and what else is known of them."""

    actions: dict[str, Array]
    explored: Array
    """bool [B]: was the action a random one?"""
    internals: dict[str, Array] | None = None
    """The next recurrent state [B, ...] by name."""
    extras: dict[str, Array] | None = None
    """What the memory is to have of them: log-probabilities and values [B], say."""


class Core:
    """The part of an agent that depends on its kind. This one stores nothing and learns nothing.

    Args:
        name: of the agent, for messages.
        seed: of all that it draws.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.exploration_rng = np.random.default_rng([seed, 0])
        """What actions are drawn from."""
        self.memory_rng = np.random.default_rng([seed, 1])
        """What batches are drawn from."""

    def act(
        self,
        features: Mapping[str, Array],
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Acted:
        """Actions for states [B, ...]; without ``explore`` the best ones, and nothing is drawn."""
        raise NotImplementedError

    def store(self, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        """Put consecutive records of one environment [T, ...] into the memory.

        ``noted`` has the extras of those that the agent acted itself.
        """
        raise self.cannot("observe")

    def update(self, updates: int) -> Loss | None:
        """One update from the memory, of which there were ``updates`` before."""
        raise self.cannot("update")

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss | None:
        """One update from a batch of the caller's."""
        raise self.cannot("update: batch")

    @property
    def size(self) -> int:
        """Records in the memory."""
        return 0

    @property
    def can_update(self) -> bool:
        """Has the memory what an update needs?"""
        return False

    def weights(self) -> dict[str, Array]:
        """Of the policy that acts, by name."""
        return {}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set some or all of them, which were checked."""

    def epsilon(self, timestep: int) -> float | None:
        """The probability of random actions at a time; None for a model that does not explore by it."""
        return None

    @property
    def exploration(self) -> Any:
        """How actions differ from the model's own; None for those."""
        return None

    @property
    def model(self) -> Any:
        """The TracedModel; None for an agent without."""
        return None

    def zero_internals(self, rows: int) -> dict[str, Array] | None:
        """The recurrent state in which episodes begin, [B, ...] by name; None for a model without."""
        return None

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {
            "exploration_rng": self.exploration_rng.bit_generator.state,
            "memory_rng": self.memory_rng.bit_generator.state,
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.exploration_rng.bit_generator.state = state["exploration_rng"]
        self.memory_rng.bit_generator.state = state["memory_rng"]

    def cannot(self, what: str) -> RLGraphError:
        """The error of a call that this kind of agent has not."""
        return RLGraphError(f"{self.name}: {what} is not for this agent", what)

    def require(self, found: int, wanted: int, what: str = "records") -> None:
        """Refuse an update for which too little is stored."""
        if found < wanted:
            problem = f"needs {wanted} {what} in the memory, one batch; there are {found}: observe more before"
            refuse(f"{self.name}: update", problem, found)
