"""A2C: advantage actor-critic, as PPO with one step of the optimizer per rollout.

In that step the policy is still the one that acted: all probability ratios are 1, none is clipped, and the gradient of
PPO's objective is the policy gradient.

Sources: Mnih et al. 2016 (https://arxiv.org/abs/1602.01783); for the equivalence Huang et al. 2022
(https://arxiv.org/abs/2205.09123). Differences from the papers: docs/algorithms/a2c.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..core.protocols import EstimatorSpec, RunConfig
from ..core.schedules import ScheduleLike
from . import ppo
from .blocks.actor_critic_params import ActorCriticParams
from .blocks.params import from_params

_CONSTANT = ("clip_fraction", "kl", "optimizer_steps")
"""Metrics of PPO that are always 0, 0 and 1 here."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class A2CParams(ActorCriticParams):
    """The parameters of A2C. Schedules follow ``global_step``, which counts rollouts, or the run."""

    optimizer: str = "rmsprop"
    learning_rate: ScheduleLike = 7e-4
    entropy_coefficient: ScheduleLike = 0.01  # Mnih et al. 2016, for Atari
    normalize_advantages: bool = False
    gae_lambda: float = 1.0  # Mnih et al. 2016, algorithm S3: returns up to the end of the rollout


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | A2CParams | None, config: RunConfig
) -> EstimatorSpec:
    """A2C, for a BatchMemory.

    Predictions are those of PPO. Metrics: ``policy_loss``, ``value_loss``, ``entropy``, ``gradient_norm`` (before
    clipping), ``explained_variance``, ``learning_rate``.

    Raises:
        ArgumentError: the spaces do not fit, the memory does not yield rollouts, or a parameter is invalid.
    """
    given = vars(from_params(A2CParams, params))
    spec = ppo.model_fn(features, labels, mode, ppo.PPOParams(**given, epochs=1, minibatch_size=None), config)
    return dataclasses.replace(spec, metrics={k: v for k, v in spec.metrics.items() if k not in _CONSTANT})
