"""IMPALA: an actor-critic that learns from the actions of a slightly older policy, corrected by V-trace.

Source: Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, sections 4.1 and 4.2. Differences from the paper:
docs/algorithms/impala.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks import rollouts
from .blocks.actor_critic import ActorCritic
from .blocks.actor_critic_params import VALUE, PolicyValueParams
from .blocks.losses import approximate_kl
from .blocks.optimizers import scheduled_value
from .blocks.params import from_params, integer, one_of, optional, param, real
from .blocks.returns import vtrace
from .blocks.train_step import minimizing

Tensor: TypeAlias = Any

_SCALARS = ("loss", "policy_loss", "value_loss", "entropy", "kl", "ratio_mean", "clip_fraction", "gradient_norm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class IMPALAParams(PolicyValueParams):
    """The parameters of IMPALA. Schedules follow ``global_step``, which counts rollouts."""

    learning_rate: ScheduleLike = 6e-4
    entropy_coefficient: ScheduleLike = 0.01
    epochs: int = param(1, "optimizer steps on a rollout, each with V-trace computed anew", integer(at_least=1))
    rho_clip: float | None = param(
        1.0, "largest probability ratio that weights a TD error; `null` does not clip", optional(real(above=0))
    )
    c_clip: float | None = param(
        1.0, "largest probability ratio that weights later TD errors; `null` does not clip", optional(real(above=0))
    )
    policy_rho_clip: float | None = param(
        1.0, "largest probability ratio that weights an advantage; `null` does not clip", optional(real(above=0))
    )
    trace_lambda: float = param(
        1.0, "lambda of V-trace: from one-step TD errors (0) to returns (1)", real(at_least=0, at_most=1)
    )
    reduction: str = param(
        "mean",
        "reduction of the losses over timesteps; the paper sums, which needs lower learning rates",
        one_of(("mean", "sum")),
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | IMPALAParams | None, config: RunConfig
) -> EstimatorSpec:
    """IMPALA, for a BatchMemory.

    Predictions and recurrent state are those of PPO. Metrics, each the mean over the steps of the optimizer:
    ``policy_loss``, ``value_loss``, ``entropy``, ``kl`` (estimate, from the policy that acted), ``ratio_mean`` (of
    probabilities), ``clip_fraction`` (of ratios above ``rho_clip``), ``gradient_norm`` (before clipping); and
    ``learning_rate``.

    Raises:
        ArgumentError: the spaces do not fit, the memory does not yield rollouts, or a parameter is invalid.
    """
    params = from_params(IMPALAParams, params)
    length = 1 if labels is None else int(labels["reward"].shape[0])
    network = ActorCritic(config, params, "IMPALA", length)
    if mode == Modes.PREDICT:
        return network.predict(features, record=("log_prob",))

    rows = network.rows(features, labels, ("log_prob",))
    entropy_coefficient = scheduled_value(params.entropy_coefficient, "entropy_coefficient", labels)

    def terms(_: Any) -> dict[str, Tensor]:
        return _losses(network, rows, labels, params, entropy_coefficient)

    if mode == Modes.EVAL:
        scalars = terms(0)
        return EstimatorSpec(mode, loss=scalars.pop("loss"), eval_metric_ops=scalars)
    step, learning_rate = minimizing(terms, network.variables, labels, params)
    means = step(0) if params.epochs == 1 else rollouts.repeat(step, _SCALARS, params.epochs)[0]
    loss = means.pop("loss")
    return EstimatorSpec(mode, loss=loss, metrics={**means, "learning_rate": learning_rate})


def _losses(
    network: ActorCritic,
    rows: Mapping[str, Any],
    labels: Mapping[str, Any],
    params: IMPALAParams,
    entropy_coefficient: Tensor,
) -> dict[str, Tensor]:
    """The loss of a rollout (section 4.2), and its terms."""
    outputs, *both = network.evaluate_with_next(rows)
    value, next_value = (values[VALUE] for values in both)
    policy = network.actions.distribution(outputs)
    log_prob = policy.log_prob(rows["action"])  # [B]
    log_ratio = log_prob - rows["log_prob"]
    traced = vtrace(
        network.in_time(log_ratio, labels),
        labels["reward"],
        labels["discount"],
        labels["truncated"],
        network.in_time(value, labels),
        network.in_time(next_value, labels),
        rho_clip=params.rho_clip,
        c_clip=params.c_clip,
        policy_rho_clip=params.policy_rho_clip,
        lambda_=params.trace_lambda,
    )
    reduce = tf.reduce_mean if params.reduction == "mean" else tf.reduce_sum
    policy_loss = -reduce(network.in_time(log_prob, labels) * traced.advantage)
    value_loss = reduce(0.5 * tf.square(traced.target - network.in_time(value, labels)))
    entropy = reduce(policy.entropy())
    ratio = tf.exp(log_ratio)
    clipped = tf.zeros_like(ratio) if params.rho_clip is None else tf.cast(ratio > params.rho_clip, tf.float32)
    return {
        "loss": policy_loss + params.value_coefficient * value_loss - entropy_coefficient * entropy,
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": approximate_kl(log_ratio),
        "ratio_mean": tf.reduce_mean(ratio),
        "clip_fraction": tf.reduce_mean(clipped),
    }
