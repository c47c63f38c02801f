"""DQNAgent and ApexAgent: Q-learning with a target network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.tensorflow_import import load_tensorflow
from ..spaces.readers import counted_from_zero
from .core import ONLY, Acted
from .replay_core import ReplayCore, rows_of
from .results import Loss
from .traced import Learned, TracedModel, specs_of

_POLICY, _TARGET = "policy/", "target/"


class QCore(ReplayCore):
    """Q-learning.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: boxes of one preprocessed state by flat name.
        action: the space of the action, an IntBox.
        seed: of all that is drawn.
        counts_items: the target's copies go by the records of batches, as ApexAgent's; else by timesteps.
    """

    def __init__(
        self,
        name: str,
        form: Mapping[str, Any],
        states: Mapping[str, Any],
        action: Any,
        seed: int,
        *,
        counts_items: bool,
    ) -> None:
        box = counted_from_zero({ONLY: action})[ONLY]
        super().__init__(name, form, states, ArraySpec(action.shape, np.int32), box, seed)
        self._counts_items, self._update = counts_items, form["update_spec"]
        load_tensorflow()
        from ..model.q_learning import model_fn

        params = {"form": form, "states": specs_of(states), "shape": action.shape, "categories": action.num_categories}
        params["low"] = self._low = np.broadcast_to(action.low, action.shape).astype(np.int32)
        row = {**self.row, "weight": ArraySpec((), np.float32)}
        numbers = ("learning_rate", "sync")
        self._model = TracedModel(model_fn, params, self.observation, row, numbers, self.batch_size, seed)
        self.synchronize()
        self._since_copy = 0
        self.last_q_table: dict[str, Any] | None = None
        """The states of the last batch from the memory, and their values before the step; kept if asked for."""

    def act(
        self,
        features: Mapping[str, Array],
        internals: Mapping[str, Array] | None,
        explore: bool,
        timestep: int,
        lanes: Sequence[int],
    ) -> Acted:
        """As :meth:`Core.act`."""
        predictions, _ = self._model.act(features)
        actions = {ONLY: predictions["action"] - self._low if self._low.any() else predictions["action"]}
        if explore and self._exploration is not None:
            actions, explored = self._exploration(actions, timestep, self.exploration_rng, lanes)
            return Acted(actions, explored)
        return Acted(actions, np.zeros(len(lanes), np.bool_))

    def q_values(self, features: Mapping[str, Array]) -> Array:
        """Values of all actions, float32 [B, ..., A]."""
        predictions, _ = self._model.act(features)
        values: Array = predictions["q_values"]
        return values

    # -- learning -----------------------------------------------------------------------------------------------------

    def sampled(self, batch: Mapping[str, Any]) -> None:
        """Keep the table of values, if it was asked for."""
        if self.form["store_last_q_table"]:
            states = batch["observation"]
            self.last_q_table = {"observation": states, "q_values": self.q_values(states)}

    def train(self, batch: Mapping[str, Any], updates: int) -> tuple[Loss, Array]:
        """As :meth:`ReplayCore.train`; the target becomes a copy of the policy first, where that is due."""
        self._since_copy += len(batch["reward"]) if self._counts_items else self._update["update_interval"]
        copies = bool(self._since_copy >= self._update["sync_interval"])
        if copies:
            self._since_copy = 0
        learned = self._step(batch, updates, copies=copies)
        return self._loss(learned, batch["weight"]), learned.errors

    def td_loss(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """The loss of a batch of the caller's. Nothing is learnt: all variables are put back."""
        before = self._model.weights()
        try:
            learned = self._step(self.given(batch), updates, copies=False)
        finally:
            self._model.set_weights(before)
        return self._loss(learned, batch["weight"])

    def synchronize(self) -> None:
        """Copy the policy's weights to the target network."""
        weights = self._model.named_weights()
        targets = [name for name in weights if name.startswith(_TARGET)]
        self._model.set_named({name: weights[_POLICY + name.removeprefix(_TARGET)] for name in targets})

    def _step(self, batch: Mapping[str, Any], updates: int, *, copies: bool) -> Learned:
        numbers = {**self.learning_rates(updates), "sync": float(copies)}
        return self._model.train(rows_of(batch), numbers, updates)

    def _loss(self, learned: Learned, weight: Array) -> Loss:
        error = np.abs(learned.errors)
        inside = np.minimum(error, np.float32(1.0)) if self.form["huber_loss"] else None
        each = error * error if inside is None else inside * (error - np.float32(0.5) * inside)
        each *= weight
        loss = float(np.add.reduce(each, dtype=np.float64)) / len(each)
        return Loss(loss, (loss, each))

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {**super().state_dict(), "since_copy": self._since_copy}

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._since_copy = state["since_copy"]
