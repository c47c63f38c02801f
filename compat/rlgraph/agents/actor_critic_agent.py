"""ActorCriticAgent."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core
from .rollout_core import RolloutCore


class ActorCriticAgent(Agent):
    """Actor-critic: a policy that follows advantages, and a network of its own for the values of states.

    ``update`` takes one step on the newest records, and drops them. They must be observed in order, with an ``env_id``
    for each environment. Log-probabilities and values are those of acting time, where :meth:`get_action` has chosen
    what is observed.

    ``update`` returns the policy's mean loss, which unpacks into ``loss, loss_per_item, value_loss,
    value_loss_per_item``: those of the (last) step, before it. Those of items are float32 [B]: of the policy less the
    entropy times ``weight_entropy``, of values the squared error without a half; all of them times the importance
    weights. In a batch of the caller's a record goes on with the next one if its next state is that one's state, as it
    is where there are no ``next_states``; else it bootstraps.

    Args:
        gae_lambda: of generalized advantage estimation, 0 .. 1.
        sample_episodes: True: a batch is the newest ``batch_size`` whole episodes, or those of a memory that is full.
            False: the newest ``batch_size`` records, those included that are still in buffers; where an episode goes
            on, the last one bootstraps.
        memory_spec: ``ring_buffer``, of 1,000 records by default.
        value_function_spec: a list of layers, after which one unit values the state. None: one unit after the policy's
            layers, as of a ``baseline-action-adapter``; half of its loss is added to the policy's.
        weight_entropy: how much the entropy of the policy counts, in its loss.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "actor_critic"
    core_class: ClassVar[type[Core]] = RolloutCore
    chains_batches: ClassVar[bool] = True
