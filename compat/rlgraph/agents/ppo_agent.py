"""PPOAgent."""

from __future__ import annotations

from typing import ClassVar

from .agent import Agent
from .core import Core
from .rollout_core import RolloutCore


class PPOAgent(Agent):
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
    core_class: ClassVar[type[Core]] = RolloutCore
    chains_batches: ClassVar[bool] = True
