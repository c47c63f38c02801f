"""What ActorCriticAgent and PPOAgent share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array
from ...common.exclusion import exclusive
from ..utils.rlgraph_errors import translate_errors
from .agent import Agent
from .core import Core
from .on_policy_core import OnPolicyCore
from .results import Loss
from .rollouts import Rollouts


class OnPolicyAgent(Agent):
    """What both have."""

    def _make_core(self) -> Core:
        states, actions = self.preprocessed_state_space.flat(), self.action_space.flat()
        name = type(self).__name__
        with translate_errors(name):
            return OnPolicyCore(name, self.form, states, actions, self.seed)

    @property
    def on_policy_core(self) -> OnPolicyCore:
        """What learns."""
        core = self.core
        assert isinstance(core, OnPolicyCore)
        return core

    @property
    def memory(self) -> Rollouts:
        """The memory: its length is the number of records."""
        return self.on_policy_core.rollouts

    def update(self, batch: Any = None) -> Loss:
        """One update.

        Args:
            batch: None: the newest records of the memory. Else arrays [B, ...] under ``states``, ``actions``,
                ``rewards`` and ``terminals``, perhaps ``next_states`` and ``importance_weights``; it does not touch the
                memory. A record goes on with the next one if its next state is that one's state, as it is where none is
                given; else it bootstraps.

        Returns:
            The policy's mean loss, a float that also unpacks into ``loss, loss_per_item, value_loss,
            value_loss_per_item``: those of the (last) step, before it. Those of items are float32 [B]: of the policy
            less the entropy times ``weight_entropy``, of values the squared error without a half; all of them times
            the importance weights.

        Raises:
            RLGraphError: there is less than a batch, or the batch is wrong. Nothing is changed then.
        """
        loss = super().update(batch)
        assert loss is not None
        return loss

    @property
    def can_update(self) -> bool:
        """Is there what ``update()`` needs, in the memory and in buffers?"""
        return self.on_policy_core.has_batch(sum(len(buffer) for buffer in self._buffers.values()))

    @exclusive
    def flush_env_buffers(self, env_id: str | None = None) -> None:
        """Store what an environment's buffer holds, as after a time limit: the episode ends without a terminal.

        Args:
            env_id: which; None: all.
        """
        super().flush_env_buffers(env_id)
        self.memory.end(env_id)

    @exclusive
    def reset_env_buffers(self, env_id: str | None = None) -> None:
        """Drop what an environment's buffer holds; what was stored of the episode ends there, without a terminal.

        Args:
            env_id: which; None: all.
        """
        super().reset_env_buffers(env_id)
        self.memory.end(env_id)

    def read_batch(self, method: str, batch: Any) -> dict[str, Any]:
        """As :meth:`Agent.read_batch`; ``next_states`` may be missing: they are the states of the next records.

        That of the last record is its own.
        """
        if isinstance(batch, Mapping) and "states" in batch and "next_states" not in batch:
            space = self.preprocessed_state_space
            with translate_errors(f"{type(self).__name__}.{method}: batch"):
                parts = {name: np.asarray(part) for name, part in space.flatten(batch["states"]).items()}
            after = {name: np.concatenate([part[1:], part[-1:]]) if part.ndim else part for name, part in parts.items()}
            batch = {**batch, "next_states": space.unflatten(after)}
        return super().read_batch(method, batch)

    def _store(self, env_id: str | None, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        self.on_policy_core.store_of(env_id, columns, noted)

    def _before_update(self) -> None:
        """What is in buffers counts as well, where a batch is of records."""
        core = self.on_policy_core
        core.require_batch(sum(len(buffer) for buffer in self._buffers.values()))
        if not core.by_episodes:
            for name in list(self._buffers):
                self._flush(name)
