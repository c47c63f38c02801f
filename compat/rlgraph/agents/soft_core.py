"""SACAgent: soft actor-critic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.tensorflow_import import load_tensorflow
from .core import ONLY, Acted
from .replay_core import ReplayCore, rows_of
from .results import Loss
from .traced import TracedModel, specs_of


class SoftCore(ReplayCore):
    """Soft actor-critic.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: boxes of one preprocessed state by flat name.
        action: the space of the action, a FloatBox with bounds.
        seed: of all that is drawn.
    """

    def __init__(self, name: str, form: Mapping[str, Any], states: Mapping[str, Any], action: Any, seed: int) -> None:
        super().__init__(name, form, states, ArraySpec(action.shape, np.float32), action, seed)
        self._shape = action.shape
        self._low, self._high = (np.broadcast_to(bound, action.shape).reshape(-1) for bound in action.bounds)
        load_tensorflow()
        from ..model.soft_actor_critic import model_fn

        params = {"form": form, "states": specs_of(states), "low": self._low, "high": self._high, "shape": self._shape}
        row = {**self.row, "weight": ArraySpec((), np.float32)}
        numbers = ("learning_rate", "value_learning_rate", "copies")
        self._model = TracedModel(model_fn, params, self.observation, row, numbers, self.batch_size, seed)
        self._copied = False

    def act(
        self,
        features: Mapping[str, Array],
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Acted:
        """As :meth:`Core.act`: draws from the squashed Gaussian, and adds noise if that was specified."""
        predictions, _ = self._model.act(features)
        rows = len(lanes)
        if not explore:
            return Acted({ONLY: predictions["action"]}, np.zeros(rows, np.bool_))
        mean, log_std = predictions["mean"], predictions["log_std"]
        noise = self.exploration_rng.standard_normal(mean.shape, np.float32)
        inside = np.tanh(mean + np.exp(log_std) * noise)
        drawn = (self._high / 2 + self._low / 2) + inside * (self._high / 2 - self._low / 2)
        actions = {ONLY: drawn.reshape(rows, *self._shape).astype(np.float32)}
        if self._exploration is None:
            return Acted(actions, np.zeros(rows, np.bool_))
        actions, explored = self._exploration(actions, timestep, self.exploration_rng, lanes)
        return Acted(actions, explored)

    def train(self, batch: Mapping[str, Any], updates: int) -> tuple[Loss, Array]:
        """As :meth:`ReplayCore.train`; the loss is the critics'."""
        numbers = {**self.learning_rates(updates), "copies": float(not self._copied)}
        learned = self._model.train(rows_of(batch), numbers, updates)
        self._copied = True
        each = (learned.errors**2 * batch["weight"]).astype(np.float32)
        loss = float(each.mean(dtype=np.float64))
        return Loss(loss, (loss, each)), learned.errors

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {**super().state_dict(), "copied": self._copied}

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._copied = state["copied"]
