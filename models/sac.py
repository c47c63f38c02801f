"""SAC: a policy that maximises return and entropy, twin critics, and a learned temperature.

Sources: Haarnoja et al. 2018a (https://arxiv.org/abs/1801.01290) and 2018b (https://arxiv.org/abs/1812.05905), which
the numbers of equations refer to; for Discrete actions Christodoulou 2019 (https://arxiv.org/abs/1910.07207).
Differences from the papers: docs/algorithms/sac.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ..contracts import EstimatorSpec, Modes, RunConfig
from .blocks.actions import flat
from .blocks.critics import TwinCritics
from .blocks.learning import parts
from .blocks.observations import Observations
from .blocks.optimizers import learning_rate_at, make_optimizer
from .blocks.params import from_params
from .blocks.soft_actor_critic import SoftActorCritic, SoftParams, transitions
from .blocks.soft_policies import soft_policy
from .blocks.state_dependent import StateDependentParams
from .blocks.temperature import Temperature

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACParams(StateDependentParams, SoftParams):
    """The parameters of SAC. Actor, critics and temperature have an optimizer each."""


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | SACParams | None, config: RunConfig
) -> EstimatorSpec:
    """SAC, for a ReplayMemory.

    Predictions of a Box: ``action`` float32 [B, ...] (the squashed mean), ``mean`` and ``log_std`` float32 [B, ...]
    (before squashing; with state-dependent exploration ``scaled_features`` float32 [B, W, A] in place of the second).
    Of Discrete actions: ``action`` int32 [B] (the likeliest), ``logits`` float32 [B, A], and ``action_mask`` bool
    [B, A] where observations have a mask. ``loss`` is the critics', ``td_error`` the mean of theirs. Metrics:
    ``actor_loss``, ``temperature``, ``entropy`` (of a Box: of actions in -1 .. 1), ``q_mean``, ``learning_rate``; where
    gradients are clipped also ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping). They are means
    over the gradient steps.

    Raises:
        ArgumentError: the action space is neither a bounded Box of floats nor Discrete, the observations do not fit,
            the batch is not one of a replay memory or cannot be split, or a parameter is invalid or does not fit.
    """
    params = from_params(SACParams, params)
    observations = Observations(config.observation_space, config.action_space, params.action_mask)
    size = math.prod(observations.shape)
    policy = soft_policy(config.action_space, size, params, "SAC")
    if mode == Modes.PREDICT:
        seen = flat(observations.encode(features))
        predictions = policy.predictions(seen, observations.masks(features))
        return EstimatorSpec(mode, predictions, exploration=policy.exploration())

    critics, targets = (
        TwinCritics(name, [size + policy.action_size], params, outputs=policy.critic_outputs, zeros=name == "target")
        for name in ("critic", "target")
    )
    learner = SoftActorCritic(policy, critics, targets, Temperature(params), params)
    batch = transitions(features, labels, policy, observations, "SAC")
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=learner.critic_loss(batch)[0])

    learning_rate = learning_rate_at(params.learning_rate, labels)
    optimizers = [make_optimizer(params.optimizer, learning_rate, params.optimizer_epsilon) for _ in range(3)]
    td_errors, scalars = [], []
    for i, part in enumerate(parts(batch, params.updates)):
        # Target critics become copies at gradient step 0, which only the first part of a batch can have.
        td_error, of_critics = learner.train_critics(part, labels["global_step"] + i, optimizers[0])
        td_errors.append(td_error)
        scalars.append({**of_critics, **learner.train_policy(part, *optimizers[1:])})
    means = {name: tf.add_n([step[name] for step in scalars]) / len(scalars) for name in scalars[0]}
    loss = means.pop("critic_loss")
    metrics = {**means, "learning_rate": learning_rate}
    return EstimatorSpec(mode, loss=loss, td_error=tf.concat(td_errors, axis=0), metrics=metrics)
