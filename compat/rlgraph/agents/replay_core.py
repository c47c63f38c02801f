"""Agents that learn from a memory of single records, or from batches of the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from .buffers import summed
from .core import ONLY
from .model_core import ModelCore
from .records import Records, make_sampler
from .results import Loss


class ReplayCore(ModelCore):
    """The memory, and what an update is.

    Args:
        name: of the agent, for messages.
        form: the normal form.
        states: boxes of one preprocessed state by flat name.
        action: specs of one action.
        box: its space; integers count from 0.
        seed: of all that is drawn.
    """

    def __init__(
        self,
        name: str,
        form: Mapping[str, Any],
        states: Mapping[str, Any],
        action: ArraySpec,
        box: Any,
        seed: int,
    ) -> None:
        super().__init__(name, form, {ONLY: box}, seed)
        self._n_step = form["observe_spec"]["n_step"]
        self.observation = {key: ArraySpec(box.shape, box.dtype) for key, box in states.items()}
        number = ArraySpec((), np.float32)
        self.row = {
            "action": action,
            "reward": number,
            "discount": number,
            "next_observation": self.observation,
        }
        """Specs of what is learnt from, beside the observation."""
        memory = form["memory_spec"]
        columns = {"observation": self.observation, **self.row, "terminal": ArraySpec((), np.bool_)}
        self.records = Records(memory["capacity"], columns, make_sampler(memory), self.memory_rng)
        self.last_batch: dict[str, Any] | None = None
        """The batch of the last update from the memory, with ``weight`` and ``index``; kept if asked for."""

    @property
    def size(self) -> int:
        """Records in the memory."""
        return len(self.records)

    @property
    def batch_size(self) -> int:
        """Records that an update draws."""
        return int(self.form["update_spec"]["batch_size"])

    @property
    def can_update(self) -> bool:
        """Is there a batch in the memory, or is that full?"""
        return len(self.records) >= min(self.batch_size, self.records.capacity)

    def store(self, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        """Put consecutive records of one environment [T, ...] into the memory, over ``n_step`` timesteps each."""
        count = len(columns["reward"])
        rows = summed(dict(columns), self.form["discount"], self._n_step)
        self.records.insert({**rows, "action": rows["action"][ONLY]}, count)

    def update(self, updates: int) -> Loss:
        """As :meth:`Core.update`."""
        count = self.batch_size
        self.require(len(self.records), min(count, self.records.capacity))
        batch, weight = self.records.sample(count)
        weight = np.ones(count, np.float32) if weight is None else weight
        if self.form.get("store_last_memory_batch"):
            self.last_batch = {**batch, "weight": weight, "index": self.records.drawn}
        self.sampled(batch)
        loss, td_error = self.train({**batch, "weight": weight}, updates)
        if self.records.is_prioritized:
            self.records.update_priorities(td_error)
        return loss

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """As :meth:`Core.learn`."""
        return self.train(self.given(batch), updates)[0]

    def sampled(self, batch: Mapping[str, Any]) -> None:
        """Be told the batch of an update from the memory, before the step."""

    def train(self, batch: Mapping[str, Any], updates: int) -> tuple[Loss, Array]:
        """One step on a batch with ``weight``: the loss, and the TD errors [B]. What subclasses define."""
        raise NotImplementedError

    def given(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A batch of the caller's as the memory has it: its rewards are sums already."""
        power = self.form["discount"] ** self._n_step
        discount = np.where(batch["terminal"], 0.0, power).astype(np.float32)
        return {**batch, "action": batch["action"][ONLY], "discount": discount}

    def state_dict(self) -> State:
        """Everything that acting and learning follow from."""
        return {**super().state_dict(), "records": self.records.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self.records.load_state_dict(state["records"])


def rows_of(batch: Mapping[str, Any]) -> dict[str, Any]:
    """What a model learns from, of a batch."""
    names = ("observation", "action", "reward", "discount", "next_observation", "weight")
    return {name: batch[name] for name in names}
