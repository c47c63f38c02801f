"""Core of DQNAgent, ApexAgent and SACAgent: learning from records of core's ReplayMemory, with target networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ....core.tensorflow_import import load_tensorflow
from ....explorations import SquashedGaussian
from ....memories import Prioritized, ReplayMemory, Uniform
from ..environments.gymnasium_adapter import gymnasium_space
from ..spaces import Space
from ..utils.rlgraph_errors import as_array, refuse
from .core import ONLY, Core
from .results import Loss
from .rows import Row
from .traced import TracedModel, arrays_of, lows_of, specs_of

_NUMBER = ArraySpec((), np.float32)


class Replay(ReplayMemory):
    """The memory of single records, in the order in which they were stored; its length is the number of records.

    Args:
        spec: ``memory_spec`` in normal form.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.is_prioritized: bool = spec["type"] == "prioritized_replay"
        """Do records have priorities?"""
        sampler = Prioritized(spec["alpha"], spec["beta"]) if self.is_prioritized else Uniform()
        super().__init__(spec["capacity"], 1, sampler=sampler)

    @property
    def capacity(self) -> int:
        """Most records that it can hold."""
        return self.size

    def update_records(self, indices: Any, priorities: Any) -> None:
        """Set priorities of records; records that were overwritten meanwhile are skipped.

        Args:
            indices: numbers [B] of records, such as ``last_memory_batch["indices"]``.
            priorities: priorities [B], finite and at least 0.

        Raises:
            RLGraphError: the memory has no priorities, or an index or a priority is invalid.
        """
        where = "memory.update_records"
        tickets, values = as_array(f"{where}: indices", indices), as_array(f"{where}: priorities", priorities)
        stored = int(self.next_numbers()[0])
        if not self.is_prioritized:
            refuse(f"{where}: priorities", "are for a memory_spec of type prioritized_replay", priorities)
        if tickets.dtype.kind not in "iu" or tickets.ndim != 1 or not ((tickets >= 0) & (tickets < stored)).all():
            refuse(f"{where}: indices", f"must be ints in 0 .. {stored - 1}, got {indices!r:.200}", indices)
        is_number = values.shape == tickets.shape and values.dtype.kind in "iuf"
        if not is_number or not ((values >= 0) & np.isfinite(values)).all():
            problem = f"must be {len(tickets)} finite numbers, at least 0; got {priorities!r:.200}"
            refuse(f"{where}: priorities", problem, priorities)
        self.prioritize(tickets.astype(np.int64), values)

    def _spare_rows(self, timesteps: int, row_bytes: int) -> int:
        """Enough for the worst case, in which records of several environments alternate."""
        return timesteps


def sum_rewards(rows: Sequence[Row], discount: float, n_step: int) -> list[Row]:
    """Records with n-step returns, from consecutive records.

    Discounted rewards are summed up to a terminal, to the last record, or over ``n_step``; the next state is that after
    the last of these m rewards, and its discount ``discount ** m`` is the record's ``power``.
    """
    found = []
    for k, row in enumerate(rows):
        reward, power, last = 0.0, 1.0, row
        for last in rows[k : k + n_step]:
            reward += power * float(last["reward"])
            power *= discount
            if last["terminal"]:
                break
        after = {"next_observation": last["next_observation"], "terminal": last["terminal"]}
        found.append({**row, **after, "reward": np.float32(reward), "power": np.float32(power)})
    return found


class ReplayCore(Core):
    """Q-learning, or soft actor-critic if the form's kind is ``sac``.

    Its arguments are those of :class:`Core`.
    """

    memory: Replay
    model: TracedModel

    def __init__(self, name: str, form: Mapping[str, Any], states: Space, actions: Space, seed: int) -> None:
        super().__init__(name, form, states, actions, seed)
        load_tensorflow()
        box, is_soft = self.boxes[ONLY], form["kind"] == "sac"
        params: dict[str, Any] = {"form": form, "states": specs_of(states.flat()), "shape": box.shape}
        if is_soft:
            from ..model.soft_actor_critic import model_fn

            params["action_space"] = gymnasium_space(actions)
            self.policy = SquashedGaussian(params["action_space"])
        else:
            from ..model.q_learning import model_fn

            params |= {"categories": box.num_categories, "low": lows_of(box)}
        self._numbers = () if is_soft else ("sync",)
        observation = arrays_of(states.flat())
        kept: dict[str, Any] = {
            "action": ArraySpec(box.shape, np.float32 if is_soft else np.int32),
            "reward": _NUMBER,
            "next_observation": observation,
        }
        row = {**kept, "discount": _NUMBER, "weight": _NUMBER}
        self._learnt = ("observation", *row)
        self.model = TracedModel(model_fn, params, observation, row, self.batch_size, seed, self._numbers)
        self.synchronize()
        ends = dict.fromkeys(("terminated", "truncated"), ArraySpec((), np.bool_))
        self.memory = Replay(form["memory_spec"])
        self.memory.build({"observation": observation, **kept, **ends, "power": _NUMBER}, 1, self.memory_rng)
        self._since_copy = 0

    @property
    def batch_size(self) -> int:
        """Records per update."""
        return int(self.form["update_spec"]["batch_size"])

    def q_values(self, features: Mapping[str, Array]) -> Array:
        """Values of all actions, float32 [B, ..., A]."""
        values: Array = self.model.act(features)[0]["q_values"]
        return values

    # -- storing and learning -----------------------------------------------------------------------------------------

    def store(self, env_id: str | None, rows: Sequence[Row]) -> None:
        """See ``Core.store``."""
        for row in sum_rewards(rows, self.form["discount"], self.form["observe_spec"]["n_step"]):
            self.memory.step(
                observation=row["observation"],
                action=row["action"][ONLY],
                reward=row["reward"],
                next_observation=row["next_observation"],
                terminated=row["terminal"],
                truncated=False,
                power=row["power"],
            )

    def can_update(self, more: int = 0) -> bool:
        """Does the memory hold a batch, or is it full?"""
        return len(self.memory) >= min(self.batch_size, self.memory.capacity)

    def require_batch(self, more: int = 0) -> None:
        """See ``Core.require_batch``."""
        self.require(len(self.memory), min(self.batch_size, self.memory.capacity))

    def update(self, updates: int) -> Loss:
        """See ``Core.update``."""
        batch: dict[str, Any] = self.memory.draw(self.batch_size)
        batch["discount"] = batch["power"] * (1 - batch["terminated"])
        batch.setdefault("weight", np.ones(self.batch_size, np.float32))
        if self.form.get("store_last_memory_batch"):
            self.last_batch = {**batch, "index": self.memory.tickets()}
        errors = self._train(batch, updates)
        self.memory.update_priorities(errors)
        return self._loss(errors, batch["weight"])

    def learn(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """See ``Core.learn``."""
        return self._loss(self._train(self._as_memory_batch(batch), updates), batch["weight"])

    def td_loss(self, batch: Mapping[str, Any], updates: int) -> Loss:
        """The loss of a caller's batch, without learning: all variables are restored."""
        before = self.model.weights()
        try:
            errors = self._step(self._as_memory_batch(batch), updates, copies=False)
        finally:
            self.model.set_weights(before)
        return self._loss(errors, batch["weight"])

    def synchronize(self) -> None:
        """Copy the online weights to the target networks."""
        weights = self.model.named_weights()
        targets = [name for name in weights if name.startswith("target-")]
        self.model.set_named({name: weights[name.removeprefix("target-")] for name in targets})

    def _train(self, batch: Mapping[str, Any], updates: int) -> Array:
        """Take one step, after copying the policy to the target network if that is due; returns TD errors [B].

        The interval between copies counts records learnt from for ApexAgent; for DQNAgent each update counts as
        ``update_interval`` timesteps.
        """
        spec = self.form["update_spec"]
        self._since_copy += len(batch["reward"]) if self.form["kind"] == "apex" else spec["update_interval"]
        copies = bool(self._numbers) and self._since_copy >= spec["sync_interval"]
        if copies:
            self._since_copy = 0
        if self.form.get("store_last_q_table"):
            states = batch["observation"]
            self.last_q_table = {"states": states, "q_values": self.q_values(states)}
        return self._step(batch, updates, copies=copies)

    def _step(self, batch: Mapping[str, Any], updates: int, *, copies: bool) -> Array:
        numbers = dict.fromkeys(self._numbers, float(copies))
        return self.model.train({name: batch[name] for name in self._learnt}, updates, **numbers)

    def _as_memory_batch(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A caller's batch in the memory's form; its rewards are n-step sums already."""
        power = self.form["discount"] ** self.form["observe_spec"]["n_step"]
        discount = np.where(batch["terminal"], 0.0, power).astype(np.float32)
        return {**batch, "action": batch["action"][ONLY], "discount": discount}

    def _loss(self, errors: Array, weight: Array) -> Loss:
        error = np.abs(errors)
        inside = np.minimum(error, np.float32(1.0)) if self.form.get("huber_loss") else None
        each = error * error if inside is None else inside * (error - np.float32(0.5) * inside)
        each *= weight
        loss = float(np.add.reduce(each, dtype=np.float64)) / len(each)
        return Loss(loss, (loss, each))

    def state_dict(self) -> State:
        """The complete state of acting and learning."""
        return {**super().state_dict(), "since_copy": self._since_copy}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        super().load_state_dict(state)
        self._since_copy = state["since_copy"]
