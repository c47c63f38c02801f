"""DQNAgent and ApexAgent: Q-learning from a memory, or from batches of the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....contracts import Array, ArraySpec, State
from ....quiet import load_tensorflow
from ..processing.decays import make_decay
from ..processing.exploration import make_exploration
from ..values.readers import counted_from_zero
from .buffers import summed
from .core import Acted, Core
from .records import Records, make_sampler
from .results import Loss
from .traced import Learned, TracedModel, specs_of

_POLICY, _TARGET = "policy/", "target/"
ONLY: Final = ""
"""The flat name of the only action."""


class QCore(Core):
    """Q-learning.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: specs of one preprocessed state by flat name.
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
        super().__init__(name, seed)
        self._form, self._counts_items = form, counts_items
        self._discount, self._update = form["discount"], form["update_spec"]
        self._n_step = form["observe_spec"]["n_step"]
        boxes = counted_from_zero({ONLY: action})
        self._exploration = make_exploration(f"{name}: exploration_spec", form["exploration_spec"], boxes)
        self._learning_rate = make_decay(
            f"{name}: optimizer_spec['learning_rate']", form["optimizer_spec"]["learning_rate"]
        )
        observation = {key: ArraySpec(spec.shape, spec.dtype) for key, spec in states.items()}
        number = ArraySpec((), np.float32)
        row = {
            "action": ArraySpec(action.shape, np.int32),
            "reward": number,
            "discount": number,
            "next_observation": observation,
        }
        load_tensorflow()
        from ..model.q_learning import model_fn

        params = {"form": form, "states": specs_of(states), "shape": action.shape, "categories": action.num_categories}
        weighted = {**row, "weight": number}
        rows = self._update["batch_size"]
        self._model = TracedModel(model_fn, params, observation, weighted, ("learning_rate", "sync"), rows, seed)
        self.synchronize()
        memory = form["memory_spec"]
        columns = {"observation": observation, **row, "terminal": ArraySpec((), np.bool_)}
        self.records = Records(memory["capacity"], columns, make_sampler(memory), self.memory_rng)
        self._since_copy = 0
        self.last_batch: dict[str, Any] | None = None
        """The batch of the last update from the memory, with ``weight`` and ``index``; kept if asked for."""
        self.last_q_table: dict[str, Any] | None = None
        """Its states, and their values before the step; likewise."""

    # -- acting -------------------------------------------------------------------------------------------------------

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
        actions = {ONLY: predictions["action"]}
        explored = np.zeros(len(predictions["action"]), np.bool_)
        if explore and self._exploration is not None:
            actions, explored = self._exploration(actions, timestep, self.exploration_rng, lanes)
        return Acted(actions, explored)

    def q_values(self, features: Mapping[str, Array]) -> Array:
        """Values of all actions, float32 [B, ..., A]."""
        predictions, _ = self._model.act(features)
        values: Array = predictions["q_values"]
        return values

    # -- learning -----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Records in the memory."""
        return len(self.records)

    @property
    def can_update(self) -> bool:
        """Is there a batch in the memory?"""
        return len(self.records) >= int(self._update["batch_size"])

    def store(self, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        """Put consecutive records of one environment [T, ...] into the memory, over ``n_step`` timesteps each."""
        count = len(columns["reward"])
        rows = summed(dict(columns), self._discount, self._n_step)
        self.records.insert({**rows, "action": rows["action"][ONLY]}, count)

    def update(self, updates: int) -> Loss:
        """As :meth:`Core.update`."""
        count = self._update["batch_size"]
        self.require(len(self.records), count)
        batch, weight = self.records.sample(count)
        weight = np.ones(count, np.float32) if weight is None else weight
        if self._form["store_last_memory_batch"]:
            self.last_batch = {**batch, "weight": weight, "index": self.records.drawn}
        if self._form["store_last_q_table"]:
            states: Any = batch["observation"]
            self.last_q_table = {"observation": states, "q_values": self.q_values(states)}
        loss, td_error = self._learn(batch, weight, updates)
        if self.records.is_prioritized:
            self.records.update_priorities(td_error)
        return loss

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """As :meth:`Core.learn`."""
        return self._learn(self._given(batch), batch["weight"], updates)[0]

    def td_loss(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """The loss of a batch of the caller's. Nothing is learnt: all variables are put back."""
        before = self._model.weights()
        try:
            learned = self._step(self._given(batch), batch["weight"], updates, copies=False)
        finally:
            self._model.set_weights(before)
        return self._loss(learned, batch["weight"])

    def synchronize(self) -> None:
        """Copy the policy's weights to the target network."""
        weights = self._model.named_weights()
        targets = [name for name in weights if name.startswith(_TARGET)]
        self._model.set_named({name: weights[_POLICY + name.removeprefix(_TARGET)] for name in targets})

    def _learn(self, batch: Mapping[str, Any], weight: Array, updates: int) -> tuple[Loss, Array]:
        self._since_copy += len(weight) if self._counts_items else self._update["update_interval"]
        copies = bool(self._since_copy >= self._update["sync_interval"])
        if copies:
            self._since_copy = 0
        learned = self._step(batch, weight, updates, copies=copies)
        return self._loss(learned, weight), learned.errors

    def _step(self, batch: Mapping[str, Any], weight: Array, updates: int, *, copies: bool) -> Learned:
        names = ("observation", "action", "reward", "discount", "next_observation")
        rows = {**{name: batch[name] for name in names}, "weight": weight}
        numbers = {"learning_rate": self._learning_rate.value(updates), "sync": float(copies)}
        return self._model.train(rows, numbers, updates)

    def _loss(self, learned: Learned, weight: Array) -> Loss:
        error = np.abs(learned.errors)
        if self._form["huber_loss"]:
            each = np.where(error < 1.0, 0.5 * error**2, error - 0.5) * weight
        else:
            each = error**2 * weight
        each = each.astype(np.float32)
        loss = float(each.mean(dtype=np.float64))
        return Loss(loss, (loss, each))

    def _given(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A batch of the caller's as the memory has it: its rewards are sums already."""
        power = self._discount**self._n_step
        discount = np.where(batch["terminal"], 0.0, power).astype(np.float32)
        return {**batch, "action": batch["action"][ONLY], "discount": discount}

    # -- weights and state --------------------------------------------------------------------------------------------

    def weights(self) -> dict[str, Array]:
        """Of the policy, by name."""
        named = self._model.named_weights()
        return {name.removeprefix(_POLICY): array for name, array in named.items() if name.startswith(_POLICY)}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the policy's weights; the target's stay."""
        self._model.set_named({_POLICY + name: array for name, array in weights.items()})

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {
            **super().state_dict(),
            "model": self._model.state_dict(),
            "records": self.records.state_dict(),
            "since_copy": self._since_copy,
            "exploration": None if self._exploration is None else self._exploration.state_dict(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        self._model.load_state_dict(state["model"])
        self.records.load_state_dict(state["records"])
        self._since_copy = state["since_copy"]
        if self._exploration is not None:
            self._exploration.load_state_dict(state["exploration"])
        super().load_state_dict(state)
