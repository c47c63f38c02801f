"""DQNAgent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..utils.rlgraph_errors import translate_errors
from .agent import Agent
from .core import Core
from .q_core import QCore
from .results import Loss


class DQNAgent(Agent):
    """Q-learning with a target network and a memory.

    Args:
        double_q: the policy selects the next action, the target network values it.
        dueling_q: values are a state's and advantages; ``action_adapter_spec`` needs ``units_state_value_stream`` and
            ``units_advantage_stream``.
        huber_loss: of the TD error; else its square.
        n_step: timesteps of a record, in the place of ``observe_spec["n_step"]``.
        memory_spec: ``replay`` (of 1,000 records by default) or ``prioritized_replay``.
        store_last_memory_batch: keep the batch of the last update from the memory in ``last_memory_batch``.
        store_last_q_table: keep its states and their values in ``last_q_table``.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "dqn"
    _counts_items: ClassVar[bool] = False

    def _make_core(self) -> Core:
        states = self.preprocessed_state_space.flat()
        name = type(self).__name__
        with translate_errors(name):
            return QCore(name, self.form, states, self.action_space, self.seed, counts_items=self._counts_items)

    @property
    def q_core(self) -> QCore:
        """What learns."""
        core = self.core
        assert isinstance(core, QCore)
        return core

    @property
    def memory(self) -> Any:
        """The memory: its length is the number of records."""
        return self.q_core.records

    @property
    def last_memory_batch(self) -> dict[str, Any] | None:
        """What the last update drew, by the names that ``update`` takes; with priorities also ``indices``.

        None without ``store_last_memory_batch``, or before an update.
        """
        batch = self.q_core.last_batch
        if batch is None:
            return None
        space = self.preprocessed_state_space
        found = {
            "states": space.unflatten(batch["observation"]),
            "actions": batch["action"],
            "rewards": batch["reward"],
            "terminals": batch["terminal"],
            "next_states": space.unflatten(batch["next_observation"]),
        }
        if self.q_core.records.is_prioritized:
            found |= {"indices": batch["index"], "importance_weights": batch["weight"]}
        return found

    @property
    def last_q_table(self) -> dict[str, Any] | None:
        """``states`` and ``q_values`` [B, actions] of that batch, before the step.

        None without ``store_last_q_table``, or before an update.
        """
        table = self.q_core.last_q_table
        if table is None:
            return None
        states = self.preprocessed_state_space.unflatten(table["observation"])
        return {"states": states, "q_values": table["q_values"]}

    @exclusive
    def get_td_loss(self, batch: Any) -> Loss:
        """The loss of a batch, as :meth:`update` takes it, which unpacks into the loss and ``loss_per_item``.

        Nothing is learnt.
        """
        self._begin("get_td_loss")
        return self.q_core.td_loss(self.read_batch("get_td_loss", batch), self.updates)

    def _q_values(self, states: Any) -> Array:
        self._begin("get_q_values")
        arrays, single = self._read_preprocessed("get_q_values", states)
        values = self.q_core.q_values(arrays)
        return values[0] if single else values

    def _api_methods(self) -> dict[str, Callable[..., Any]]:
        return {
            **super()._api_methods(),
            "sync_target_qnet": self.q_core.synchronize,
            "get_td_loss": self.get_td_loss,
            "get_q_values": self._q_values,
        }
