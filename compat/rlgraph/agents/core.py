"""Inner parts of a kind of agent: a traced model, core's policy and memory, and what they draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import Array, State
from ..processing.exploration import Exploration, epsilon_of, make_exploration
from ..spaces import IntBox, Space
from ..spaces.readers import counted_from_zero
from ..utils.rlgraph_errors import refuse
from .results import Loss
from .rows import Row

ONLY: Final = ""
"""The flat name of the only action."""
_POLICY: Final = "policy/"
"""Before the names of the variables that are an agent's weights."""


class Asked(NamedTuple):
    """Inputs of an act."""

    features: Mapping[str, Array]
    """States [B, ...] by flat name."""
    internals: Mapping[str, Array] | None
    """The recurrent state [B, ...] by name; None of a model without."""
    explore: bool
    """False: the best actions, and nothing is drawn."""
    timestep: int
    lanes: Sequence[int]
    """The environment of each state."""


class Acted(NamedTuple):
    """Actions [B, ...] by flat name, and what else is known of them. Integers count from 0."""

    actions: dict[str, Array]
    explored: Array
    """bool [B]: was the action a random one?"""
    internals: dict[str, Array] | None = None
    """The next recurrent state [B, ...] by name."""
    extras: dict[str, Array] | None = None
    """Values of them for the memory: log-probabilities and values [B], say."""


class Core:
    """The part of an agent that depends on its kind. This one stores nothing and learns nothing.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: the space of preprocessed states.
        actions: the action space.
        seed: of all that it draws.

    Attributes:
        model: a TracedModel, set by subclasses; None: there is none.
        policy: one of core's explorations, which draws from what the model predicts; None: the best action.
        memory: whose length is the number of records.
        exploration: of ``exploration_spec``; None: there is none.
        exploration_rng: what actions are drawn from.
        memory_rng: what batches are drawn from.
    """

    model: Any = None
    policy: Any = None
    memory: Any = None
    takes_buffered = False
    """Do records in buffers count in an update from the memory?"""

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        del states
        self.name, self.form = name, form
        flat = actions.flat()
        self.boxes = counted_from_zero(flat)
        """Boxes of the actions inside, by key."""
        self.lows = {
            key: np.broadcast_to(box.low, box.shape).astype(np.int32)
            for key, box in flat.items()
            if isinstance(box, IntBox) and box.num_categories is not None
        }
        """For integers: the amount that is taken away from them inside."""
        self._shifts = {key: low for key, low in self.lows.items() if low.any()}
        self.exploration_rng = np.random.default_rng([seed, 0])
        self.memory_rng = np.random.default_rng([seed, 1])
        spec = form["exploration_spec"] if form["kind"] != "random" else None
        self.exploration: Exploration | None = make_exploration(f"{name}: exploration_spec", spec, self.boxes)

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(self, asked: Asked) -> Acted:
        """Choose actions."""
        predictions, following = self.model.act(asked.features, asked.internals)
        if not asked.explore:
            return Acted(self._best(predictions), np.zeros(len(asked.lanes), np.bool_), following)
        drawn = self._best(predictions) if self.policy is None else self._drawn(predictions, asked.timestep)
        actions, explored = self._explored(drawn if self.policy is None else self._within(drawn), asked)
        return Acted(
            actions, explored, following, self._noted(predictions, drawn if self.exploration is None else actions)
        )

    def _explored(self, actions: dict[str, Array], asked: Asked) -> tuple[dict[str, Array], Array]:
        """Actions after ``exploration_spec``, and bool [B]: where something random was done."""
        if self.exploration is None:
            return actions, np.zeros(len(asked.lanes), np.bool_)
        return self.exploration(actions, asked.timestep, self.exploration_rng, asked.lanes)

    def _best(self, predictions: Mapping[str, Any]) -> dict[str, Array]:
        best = predictions["action"]
        parts = best if isinstance(best, Mapping) else {ONLY: best}
        return {name: part - self._shifts[name] if name in self._shifts else part for name, part in parts.items()}

    def _drawn(self, predictions: Mapping[str, Any], timestep: int) -> dict[str, Array]:
        drawn, _ = self.policy(predictions, timestep, self.exploration_rng)
        return drawn if isinstance(drawn, dict) else {ONLY: drawn}

    def _within(self, drawn: dict[str, Array]) -> dict[str, Array]:
        """Draws, which a normal distribution has beyond all bounds, as actions of their spaces."""
        return {
            name: np.clip(part, *self.boxes[name].bounds) if part.dtype.kind == "f" else part
            for name, part in drawn.items()
        }

    def _noted(self, predictions: Mapping[str, Any], drawn: Mapping[str, Array]) -> dict[str, Array] | None:
        """Notes to keep on an act until it is observed; None: nothing."""
        return None

    def epsilon(self, timestep: int) -> float | None:
        """The probability of random actions at a time; None for a model that does not explore by it."""
        return epsilon_of(self.exploration, timestep)

    def zero_internals(self, rows: int) -> dict[str, Array] | None:
        """The recurrent state in which episodes begin, [B, ...] by name; None for a model without."""
        return None

    # -- storing and learning -----------------------------------------------------------------------------------------

    def store(self, env_id: str | None, rows: Sequence[Row], noted: Sequence[dict[str, Array] | None]) -> None:
        """Put consecutive records of an environment into the memory; None: it is unknown, and nothing follows.

        ``noted`` has what was remembered of those that the agent acted itself.
        """
        raise NotImplementedError

    def end(self, env_id: str | None) -> None:
        """End an environment's stored episode there, without a terminal; None: of all environments."""

    def update(self, updates: int) -> Loss | None:
        """One update from the memory, of which there were ``updates`` before."""
        raise NotImplementedError

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss | None:
        """One update from a batch of the caller's."""
        raise NotImplementedError

    def can_update(self, more: int = 0) -> bool:
        """Has the memory what an update needs, with ``more`` records that are still in buffers?"""
        return False

    def require_batch(self, more: int = 0) -> None:
        """Refuse an update for which too little is stored."""

    def require(self, found: int, wanted: int, what: str = "records") -> None:
        """Refuse an update from less than is wanted."""
        if found < wanted:
            problem = f"needs {wanted} {what} in the memory, one batch; there are {found}: observe more before"
            refuse(f"{self.name}: update", problem, found)

    # -- state --------------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Array]:
        """Weights of the acting policy by name, without target and optimizer."""
        return {} if self.model is None else self.model.part(_POLICY)

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set some or all of them, which were checked; all other variables stay."""
        if self.model is not None:
            self.model.set_named({_POLICY + name: array for name, array in weights.items()})

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        parts = {"model": self.model, "exploration": self.exploration, "memory": self.memory}
        return {
            "exploration_rng": self.exploration_rng.bit_generator.state,
            "memory_rng": self.memory_rng.bit_generator.state,
            **{name: part.state_dict() for name, part in parts.items() if part is not None},
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        for name, part in {"model": self.model, "exploration": self.exploration, "memory": self.memory}.items():
            if part is not None:
                part.load_state_dict(state[name])
        self.exploration_rng.bit_generator.state = state["exploration_rng"]
        self.memory_rng.bit_generator.state = state["memory_rng"]
