"""DQNAgent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ....core.protocols import Array
from ...common.exclusion import exclusive
from .agent import Agent
from .core import Core
from .replay_core import ReplayCore
from .results import Loss


class DQNAgent(Agent):
    """Q-learning with a target network and a memory.

    Args:
        double_q: the policy selects the next action, the target network values it.
        dueling_q: separate streams for a state's value and advantages; ``action_adapter_spec`` needs
            ``units_state_value_stream`` and ``units_advantage_stream``.
        huber_loss: Huber loss of the TD error; else its square.
        n_step: rewards summed per record; same as ``observe_spec["n_step"]``.
        memory_spec: ``replay`` (of 1,000 records by default) or ``prioritized_replay``.
        store_last_memory_batch: keep the last batch from the memory in ``last_memory_batch``.
        store_last_q_table: keep the states of the last update's batch and their values in ``last_q_table``.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "dqn"
    core_class: ClassVar[type[Core]] = ReplayCore

    @exclusive
    def get_td_loss(self, batch: Any) -> Loss:
        """The loss of a batch, without learning; the batch is as for :meth:`update`.

        The loss unpacks into the loss and ``loss_per_item``.
        """
        self.begin("get_td_loss")
        return self._replay.td_loss(self._records.batch("get_td_loss", batch), self.updates)

    @property
    def _replay(self) -> ReplayCore:
        core = self.core
        assert isinstance(core, ReplayCore)
        return core

    def _q_values(self, states: Any) -> Array:
        self.begin("get_q_values")
        arrays, single = self.perception.read("get_q_values", states, False)
        values = self._replay.q_values(arrays)
        return values[0] if single else values

    def _api_methods(self) -> dict[str, Callable[..., Any]]:
        own: dict[str, Callable[..., Any]] = {
            "sync_target_qnet": self._replay.synchronize,
            "get_td_loss": self.get_td_loss,
            "get_q_values": self._q_values,
        }
        return {**super()._api_methods(), **own}
