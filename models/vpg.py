"""VPG: vanilla policy gradient, REINFORCE with or without a value as baseline.

Sources: Williams 1992 (https://doi.org/10.1007/BF00992696) and Sutton et al. 2000
(https://papers.nips.cc/paper/1713), with advantages by Schulman et al. 2016 (https://arxiv.org/abs/1506.02438).
Differences from the papers: docs/algorithms/vpg.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks.actor_critic import ActorCritic
from .blocks.actor_critic_params import VALUE
from .blocks.optimizers import learning_rate_at, make_optimizer, scheduled_value
from .blocks.params import from_params, one_of, param, schedule
from .blocks.rollouts import normalize
from .blocks.train_step import minimize
from .blocks.value_fit import ValueFittingParams, fit_value, value_loss

NONE = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VPGParams(ValueFittingParams):
    """The parameters of VPG. Schedules follow ``global_step``, which counts rollouts, or the run."""

    baseline: str = param(VALUE, "subtracted from returns: a learned `value`, or nothing", one_of((VALUE, NONE)))
    gae_lambda: float = 1.0
    value_learning_rate: ScheduleLike = param(
        1e-3, "learning rate of the value's optimizer; `learning_rate` is the policy's", schedule(at_least=0)
    )
    entropy_coefficient: ScheduleLike = param(0.0, "weight of the entropy bonus", schedule(at_least=0))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.baseline == NONE and self.gae_lambda != 1:
            message = "gae_lambda must be 1 without a baseline, which leaves only discounted returns; got"
            raise ArgumentError(f"{message} {self.gae_lambda:g}", "gae_lambda", self.gae_lambda)


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | VPGParams | None, config: RunConfig
) -> EstimatorSpec:
    """VPG, for a BatchMemory.

    Predictions and recurrent state are those of PPO, without ``value`` if there is no baseline. Metrics:
    ``policy_loss``, ``entropy``, ``advantage_std`` (before normalisation), ``gradient_norm`` (of the policy, before
    clipping), ``learning_rate``; with a value also ``value_loss`` (the mean over the steps of its optimizer) and
    ``explained_variance`` (of the returns, by the recorded values).

    Raises:
        ArgumentError: the spaces do not fit, the minibatches do not divide the rollout, the memory does not yield
            rollouts, or a parameter is invalid.
    """
    params = from_params(VPGParams, params)
    has_value = params.baseline == VALUE
    values = (VALUE,) if has_value else ()
    network = ActorCritic(config, params, "VPG", params.sequence_length, values=values)
    if mode == Modes.PREDICT:
        return network.predict(features, record=values)

    rollout = network.rollout(features, labels, params.gae_lambda)
    advantage = normalize(rollout["advantage"]) if params.normalize_advantages else rollout["advantage"]
    policy = network.actions.distribution(network.evaluate(rollout)[0])
    policy_loss = -tf.reduce_mean(advantage * policy.log_prob(rollout["action"]))  # its gradient: 2000, theorem 1
    entropy = tf.reduce_mean(policy.entropy())
    loss = policy_loss - scheduled_value(params.entropy_coefficient, "entropy_coefficient", labels) * entropy
    scalars = {"policy_loss": policy_loss, "entropy": entropy}
    if mode == Modes.EVAL:
        if has_value:
            scalars["value_loss"] = value_loss(network, rollout)
        return EstimatorSpec(mode, loss=loss, eval_metric_ops=scalars)

    learning_rate = learning_rate_at(params.learning_rate, labels)
    optimizer = make_optimizer(params.optimizer, learning_rate, params.optimizer_epsilon)
    norm = minimize(loss, network.policy_variables, optimizer, params.max_gradient_norm)
    spread = tf.math.reduce_std(rollout["advantage"])
    scalars |= {"advantage_std": spread, "gradient_norm": norm, "learning_rate": learning_rate}
    if has_value:
        value_learning_rate = scheduled_value(params.value_learning_rate, "value_learning_rate", labels, at_least=0)
        scalars |= fit_value(network, rollout, params, value_learning_rate)
        loss += scalars["value_loss"]
    return EstimatorSpec(mode, loss=loss, metrics=scalars)
