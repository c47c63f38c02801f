"""PPOAgent."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core
from .rollout_core import RolloutCore


class PPOAgent(Agent):
    """Proximal policy optimisation: an actor-critic with several steps on the same records.

    ``update`` takes the newest records, estimates their advantages once, and takes ``update_spec["num_iterations"]``
    steps, each on ``update_spec["sample_size"]`` records drawn with replacement; losses are those of the last step.
    The records stay in the memory. Everything else is as in :class:`ActorCriticAgent`.

    Args:
        value_function_spec: a list of layers, followed by one unit for the value.
        clip_ratio: clipping range of the probability ratio (the paper's epsilon).
        gae_lambda: lambda of generalized advantage estimation, 0 .. 1.
        standardize_advantages: scale advantages to mean 0 and standard deviation 1 over the whole batch.
        sample_episodes: see :class:`ActorCriticAgent`.
        memory_spec: ``ring_buffer``, of 1,000 records by default.
        weight_entropy: weight of the policy's entropy in the loss.
        value_function_clipping: how far a value may move from its value when acting; None: no limit.
        **kwargs: see :class:`Agent`.
    """

    kind: ClassVar[str] = "ppo"
    core_class: ClassVar[type[Core]] = RolloutCore
    chains_batches: ClassVar[bool] = True
