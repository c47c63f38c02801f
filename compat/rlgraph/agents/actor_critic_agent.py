"""ActorCriticAgent."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core
from .rollout_core import RolloutCore


class ActorCriticAgent(Agent):
    """Actor-critic: a policy gradient with advantages, and a separate network for the values of states.

    ``update`` takes one step on the newest records, and drops them. They must be observed in order, with an ``env_id``
    for each environment. Records of actions chosen by :meth:`get_action` use the log-probabilities and values of that
    call.

    ``update`` returns the policy's mean loss, which unpacks into ``loss, loss_per_item, value_loss,
    value_loss_per_item``, all of the (last) step and before it. Losses per item are float32 [B]: the policy's minus
    ``weight_entropy`` times the entropy, and the squared error of values without the factor 0.5; both times the
    importance weights. In the caller's own batch a record is continued by the next one if its next state equals that
    one's state, which is assumed without ``next_states``; else it bootstraps.

    Args:
        gae_lambda: lambda of generalized advantage estimation, 0 .. 1.
        sample_episodes: True: a batch is the newest ``batch_size`` whole episodes, or those of a memory that is full.
            False: the newest ``batch_size`` records, including those still in buffers; the last record of an
            unfinished episode bootstraps.
        memory_spec: ``ring_buffer``, of 1,000 records by default.
        value_function_spec: a list of layers, followed by one unit for the value. None: one unit on top of the policy's
            layers, as in a ``baseline-action-adapter``; half of its loss is added to the policy's.
        weight_entropy: weight of the policy's entropy in the loss.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "actor_critic"
    core_class: ClassVar[type[Core]] = RolloutCore
    chains_batches: ClassVar[bool] = True
