"""Inner parts of a kind of agent: a traced model, core's policy and memory, and random generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import Array, State
from ..processing.exploration import EpsilonExploration, make_exploration
from ..spaces import Space
from ..utils.rlgraph_errors import refuse
from .results import Loss
from .rows import Row

ONLY: Final = ""
"""The flat name of the only action."""
_POLICY: Final = "policy/"
"""Prefix of the names of the variables that are an agent's weights."""


class Asked(NamedTuple):
    """Inputs of an act."""

    features: Mapping[str, Array]
    """States [B, ...] by flat name."""
    internals: Mapping[str, Array] | None
    """The recurrent state [B, ...] by name; None for a model without one."""
    explore: bool
    """False: greedy actions, without random draws."""
    timestep: int
    ids: Sequence[str]
    """The environment of each state."""


class Acted(NamedTuple):
    """Actions [B, ...] by flat name, with further values."""

    actions: dict[str, Array]
    explored: Array
    """bool [B]: was the action a random one?"""
    internals: dict[str, Array] | None = None
    """The next recurrent state [B, ...] by name."""
    extras: dict[str, Array] | None = None
    """Values specific to the kind of agent, [B, ...] by name."""


class Core:
    """The part of an agent that depends on its kind. The base class stores nothing and learns nothing.

    Args:
        name: name of the agent, for messages.
        form: the normal form.
        states: the space of preprocessed states.
        actions: the action space.
        seed: seed of all random draws.

    Attributes:
        model: a TracedModel, set by subclasses; None: no model.
        policy: one of core's explorations, which draws from the model's predictions; None: the greedy action.
        memory: the memory; its length is the number of records.
        exploration: exploration by ``exploration_spec``; None: no exploration.
        exploration_rng: generator of action draws.
        memory_rng: generator of batch draws.
        last_batch: batch of the last update from the memory; None unless ``store_last_memory_batch``.
        last_q_table: states of the last update's batch, also a caller's, and their values before the step; None unless
            ``store_last_q_table``.
    """

    model: Any = None
    policy: Any = None
    memory: Any = None
    takes_buffered = False
    """Does an update from the memory include records still in buffers?"""
    last_batch: dict[str, Any] | None = None
    last_q_table: dict[str, Any] | None = None

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        del states
        self.name, self.form, self.boxes = name, form, actions.flat()
        self.exploration_rng = np.random.default_rng([seed, 0])
        self.memory_rng = np.random.default_rng([seed, 1])
        spec = form["exploration_spec"] if form["kind"] != "random" else None
        self.exploration = make_exploration(f"{name}: exploration_spec", spec, self.boxes)

    # -- acting -------------------------------------------------------------------------------------------------------

    def act(self, asked: Asked) -> Acted:
        """Choose actions."""
        predictions, following = self.model.act(asked.features, asked.internals)
        drawn = _by_name(predictions["action"])
        if not asked.explore:
            return Acted(self._within(drawn), np.zeros(len(asked.ids), np.bool_), following)
        if self.policy is not None:
            drawn = _by_name(self.policy(predictions, asked.timestep, self.exploration_rng)[0])
        actions, explored = self.explore(self._within(drawn), asked)
        self.note(asked, predictions, drawn if self.exploration is None else actions, actions)
        return Acted(actions, explored, following)

    def _within(self, actions: Mapping[str, Array]) -> dict[str, Array]:
        """Floats clipped: draws of a normal distribution may exceed any bounds, squashed means do by rounding."""
        return {
            name: np.clip(part, *self.boxes[name].bounds) if part.dtype.kind == "f" else part
            for name, part in actions.items()
        }

    def explore(self, actions: dict[str, Array], asked: Asked) -> tuple[dict[str, Array], Array]:
        """Actions after ``exploration_spec``, and bool [B]: which are random."""
        if self.exploration is None:
            return actions, np.zeros(len(asked.ids), np.bool_)
        return self.exploration(actions, asked.timestep, self.exploration_rng, asked.ids)

    def note(
        self, asked: Asked, predictions: Mapping[str, Any], drawn: Mapping[str, Array], actions: Mapping[str, Array]
    ) -> None:
        """Remember an act until its record is observed; ``drawn`` are the actions before clipping."""

    def epsilon(self, timestep: int) -> float | None:
        """Epsilon at a timestep; None without epsilon-greedy exploration."""
        return self.exploration.level(timestep) if isinstance(self.exploration, EpsilonExploration) else None

    def zero_internals(self, rows: int) -> dict[str, Array] | None:
        """The initial recurrent state, [B, ...] by name; None for a model without one."""
        return None

    # -- storing and learning -----------------------------------------------------------------------------------------

    def observed(self, env_id: str | None, row: Row) -> Row:
        """Complete a record with what was noted when the agent acted; ``env_id`` None: environment unknown."""
        return row

    def store(self, env_id: str | None, rows: Sequence[Row]) -> None:
        """Store consecutive records of an environment; None: environment unknown, no records will follow."""

    def end(self, env_id: str | None) -> None:
        """End the stored episode of an environment without a terminal; None: of all environments."""

    def drop(self, env_id: str) -> None:
        """Forget an environment's last act: its record will not be observed."""

    def update(self, updates: int) -> Loss | None:
        """One update from the memory, after ``updates`` earlier ones."""
        return None

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss | None:
        """One update from the caller's own batch."""
        return None

    def can_update(self, more: int = 0) -> bool:
        """Is there enough for an update, counting ``more`` records still in buffers?"""
        return False

    def require_batch(self, more: int = 0) -> None:
        """Refuse an update if too little is stored."""

    def require(self, found: int, wanted: int, what: str = "records") -> None:
        """Refuse an update if fewer are stored than wanted."""
        if found < wanted:
            problem = f"needs a batch of {wanted} {what} in the memory, which has {found}: observe more first"
            refuse(f"{self.name}: update", problem, found)

    # -- state --------------------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Array]:
        """Weights of the acting policy by name, without target networks and optimizer."""
        return {} if self.model is None else self.model.part(_POLICY)

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set some or all of these weights, already checked; other variables are kept."""
        if self.model is not None:
            self.model.set_named({_POLICY + name: array for name, array in weights.items()})

    @property
    def _parts(self) -> dict[str, Any]:
        """The stateful parts."""
        parts = {"model": self.model, "exploration": self.exploration, "memory": self.memory}
        return {name: part for name, part in parts.items() if hasattr(part, "state_dict")}

    def state_dict(self) -> State:
        """The complete state of acting and learning."""
        return {
            "exploration_rng": self.exploration_rng.bit_generator.state,
            "memory_rng": self.memory_rng.bit_generator.state,
            **{name: part.state_dict() for name, part in self._parts.items()},
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        self.exploration_rng.bit_generator.state = state["exploration_rng"]
        self.memory_rng.bit_generator.state = state["memory_rng"]


class RandomCore(Core):
    """Draws random actions; records are not stored."""

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        super().__init__(name, form, states, actions, seed)
        self._actions = actions

    def act(self, asked: Asked) -> Acted:
        """See ``Core.act``; ignores ``explore``: there is no greedy action."""
        drawn = self._actions.flatten(self._actions.sample(len(asked.ids), rng=self.exploration_rng))
        return Acted(drawn, np.ones(len(asked.ids), np.bool_))


def _by_name(actions: Any) -> dict[str, Array]:
    return dict(actions) if isinstance(actions, Mapping) else {ONLY: actions}
