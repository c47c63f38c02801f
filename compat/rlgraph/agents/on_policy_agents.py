"""ActorCriticAgent and PPOAgent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ....core.protocols import Array
from ..spaces.errors import translate_errors
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
                ``rewards``, ``terminals`` and ``next_states``, perhaps ``importance_weights``; it does not touch the
                memory. A record goes on with the next one if its next state is that one's state; else it bootstraps.

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

    def flush_env_buffers(self, env_id: str | None = None) -> None:
        """Store what an environment's buffer holds, as after a time limit: the episode ends without a terminal.

        Args:
            env_id: which; None: all.
        """
        super().flush_env_buffers(env_id)
        self.memory.end(env_id)

    def reset_env_buffers(self, env_id: str | None = None) -> None:
        """Drop what an environment's buffer holds; what was stored of the episode ends there, without a terminal.

        Args:
            env_id: which; None: all.
        """
        super().reset_env_buffers(env_id)
        self.memory.end(env_id)

    def _store(self, env_id: str | None, columns: Mapping[str, Any], noted: Sequence[dict[str, Array] | None]) -> None:
        self.on_policy_core.store_of(env_id, columns, noted)

    def _before_update(self) -> None:
        """What is in buffers counts as well, where a batch is of records."""
        core = self.on_policy_core
        core.require_batch(sum(len(buffer) for buffer in self._buffers.values()))
        if not core.by_episodes:
            for name in list(self._buffers):
                self._flush(name)


class ActorCriticAgent(OnPolicyAgent):
    """Actor-critic: a policy that follows advantages, and a network of its own for the values of states.

    ``update`` takes one step on the newest records, and drops them. They must be observed in order, with an ``env_id``
    for each environment. Log-probabilities and values are those of acting time, where :meth:`get_action` has chosen
    what is observed.

    Args:
        value_function_spec: a list of layers, after which one unit values the state.
        gae_lambda: of generalized advantage estimation, 0 .. 1.
        sample_episodes: True: a batch is the newest ``batch_size`` whole episodes. False: the newest ``batch_size``
            records, those included that are still in buffers; where an episode goes on, the last one bootstraps.
        memory_spec: ``ring_buffer``, of 1,000 records by default.
        weight_entropy: how much the entropy of the policy counts, in its loss.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "actor_critic"


class PPOAgent(OnPolicyAgent):
    """Proximal policy optimisation: an actor-critic with several steps on the same records.

    ``update`` takes the newest records, estimates their advantages once, and takes ``update_spec["num_iterations"]``
    steps, each on ``update_spec["sample_size"]`` of them, drawn with replacement; losses are those of the last step.
    The memory keeps them. Otherwise it is as :class:`ActorCriticAgent`.

    Args:
        value_function_spec: a list of layers, after which one unit values the state.
        clip_ratio: how far the ratio of probabilities may leave 1.
        gae_lambda: of generalized advantage estimation, 0 .. 1.
        standardize_advantages: to a mean of 0 and a standard deviation of 1, over the whole batch.
        sample_episodes: see :class:`ActorCriticAgent`.
        memory_spec: ``ring_buffer``, of 1,000 records by default.
        weight_entropy: how much the entropy of the policy counts, in its loss.
        value_function_clipping: how far a value may leave that of acting time; None does not clip.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "ppo"
