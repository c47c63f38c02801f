"""What the cores of all agents with a model have: its weights, its learning rate, and exploration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ....core.protocols import Array, State
from ..processing.decays import make_decay
from ..processing.exploration import Exploration, epsilon_of, make_exploration
from .core import Core
from .traced import TracedModel

_POLICY: Final = "policy/"
"""Before the names of the variables that are an agent's weights."""


class ModelCore(Core):
    """A core whose subclasses set ``_model``.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        actions: boxes by flat name, whose integers count from 0: what exploration chooses among.
        seed: of all that is drawn.
    """

    _model: TracedModel

    def __init__(self, name: str, form: Mapping[str, Any], actions: Mapping[str, Any], seed: int) -> None:
        super().__init__(name, seed)
        self.form = form
        self._exploration = make_exploration(f"{name}: exploration_spec", form["exploration_spec"], actions)
        optimizers = {"learning_rate": "optimizer_spec", "value_learning_rate": "value_function_optimizer_spec"}
        self._rates = {
            rate: (make_decay(f"{name}: {part}['learning_rate']", spec["learning_rate"]), spec.get("decay", 0.0))
            for rate, part in optimizers.items()
            if (spec := form.get(part)) is not None
        }

    def learning_rates(self, updates: int) -> dict[str, float]:
        """Of an update, of which there were so many before; ``sgd`` has a ``decay`` beside (Keras 2's rule)."""
        return {name: rate.value(updates) / (1.0 + decay * updates) for name, (rate, decay) in self._rates.items()}

    @property
    def exploration(self) -> Exploration | None:
        """As :meth:`Core.exploration`."""
        return self._exploration

    @property
    def model(self) -> TracedModel:
        """The model with its weights."""
        return self._model

    def epsilon(self, timestep: int) -> float | None:
        """As :meth:`Core.epsilon`."""
        return epsilon_of(self._exploration, timestep)

    def weights(self) -> dict[str, Array]:
        """Of the policy, by name."""
        return self._model.part(_POLICY)

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the policy's weights; all other variables stay."""
        self._model.set_named({_POLICY + name: array for name, array in weights.items()})

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {
            **super().state_dict(),
            "model": self._model.state_dict(),
            "exploration": None if self._exploration is None else self._exploration.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        self._model.load_state_dict(state["model"])
        if self._exploration is not None:
            self._exploration.load_state_dict(state["exploration"])
        super().load_state_dict(state)
