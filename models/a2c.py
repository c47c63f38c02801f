"""A2C: advantage actor-critic, as PPO with one step of the optimizer for each rollout.

The rollout is then still that of the policy which is being improved: every ratio of probabilities is 1, none is
clipped, and the gradient of PPO's objective is the policy gradient. So the parts are PPO's, and no code stands twice.

Sources: Mnih et al. 2016 (https://arxiv.org/abs/1602.01783); for the equality Huang et al. 2022
(https://arxiv.org/abs/2205.09123). What differs from the papers is said in docs/algorithms/a2c.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..contracts import EstimatorSpec, RunConfig
from ..explorations import ScheduleLike
from . import ppo
from .blocks.actor_critic import NetworkParams
from .blocks.params import from_params

_WITHOUT_MEANING = ("clip_fraction", "kl", "optimizer_steps")
"""Metrics of PPO that never change here: 0, 0 and 1."""


@dataclasses.dataclass(frozen=True)
class A2CParams(NetworkParams):
    """The parameters of A2C: those of the networks, and these. Schedules follow ``global_step``: it counts rollouts.

    Args:
        value_coefficient: weight of the value's squared error.
        entropy_coefficient: weight of the entropy: a number, or a schedule.
        normalize_advantages: to mean 0 and standard deviation 1 in every rollout.
        gae_lambda: between one-step TD errors (0) and whole returns (1).
        optimizer: by Keras' name in lower case.
        learning_rate: a number, or a schedule.
        max_gradient_norm: gradients are scaled down to this global norm; ``None`` leaves them.

    Raises:
        ValueError: a value is of the wrong type or out of range; names it.
    """

    value_coefficient: float = 0.5
    entropy_coefficient: ScheduleLike = 0.01  # Mnih et al. 2016, for Atari
    normalize_advantages: bool = False
    gae_lambda: float = 1.0  # Mnih et al. 2016, algorithm S3: returns up to the end of the rollout
    optimizer: str = "rmsprop"
    learning_rate: ScheduleLike = 7e-4
    max_gradient_norm: float | None = 0.5

    def __post_init__(self) -> None:
        self.as_ppo()  # checks the values

    def as_ppo(self) -> ppo.PPOParams:
        """The parameters of PPO that make it A2C."""
        given = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return ppo.PPOParams(**given, epochs=1, minibatch_size=None)


def model_fn(
    features: Any,
    labels: Any,
    mode: str,
    params: Mapping[str, Any] | A2CParams | None,
    config: RunConfig,
) -> EstimatorSpec:
    """A2C as a ``model_fn``, for a BatchMemory.

    Predictions are those of :func:`ppo.model_fn`, and so are the metrics: ``policy_loss``, ``value_loss``, ``entropy``,
    ``gradient_norm`` (before clipping), ``explained_variance``, ``learning_rate``.

    Args:
        features: observations, tensor [B, ...] or a mapping of such; [T, N, ...] in TRAIN and EVAL.
        labels: the rollout [T, N, ...], with ``log_prob`` and ``value`` as they were recorded; and the counters.
        mode: one of ``Modes``.
        params: the values of :class:`A2CParams` that differ from its defaults.
        config: gives the spaces.

    Raises:
        ValueError: the spaces do not fit, the memory is not one of rollouts, or a parameter is wrong.
    """
    spec = ppo.model_fn(features, labels, mode, from_params(A2CParams, params).as_ppo(), config)
    metrics = {name: value for name, value in spec.metrics.items() if name not in _WITHOUT_MEANING}
    return dataclasses.replace(spec, metrics=metrics)
