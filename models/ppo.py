"""PPO: proximal policy optimisation.

Sources: Schulman et al. 2017 (https://arxiv.org/abs/1707.06347), with advantages by Schulman et al. 2016
(https://arxiv.org/abs/1506.02438); details by Engstrom et al. 2020 (https://arxiv.org/abs/2005.12729) and Andrychowicz
et al. 2020 (https://arxiv.org/abs/2006.05990). Differences from the papers: docs/algorithms/ppo.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks import losses, rollouts
from .blocks.actor_critic import ActorCritic
from .blocks.actor_critic_params import INTRINSIC_VALUE, VALUE, ActorCriticParams
from .blocks.optimizers import scheduled_value
from .blocks.params import flag, from_params, integer, optional, param, real, schedule
from .blocks.rnd import RND
from .blocks.train_step import minimizing

Tensor: TypeAlias = Any

_SCALARS = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm")
_RETURNS = {VALUE: "return", INTRINSIC_VALUE: "intrinsic_return"}
"""Rows that each head of the value network learns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOParams(ActorCriticParams):
    """The parameters of PPO. Schedules follow ``global_step``, which counts rollouts, or the run."""

    learning_rate: ScheduleLike = 3e-4
    epochs: int = param(10, "passes over a rollout", integer(at_least=1))
    minibatch_size: int | None = param(
        64, "timesteps per optimizer step; must divide the rollout; `null`: all", optional(integer(at_least=1))
    )
    clip: ScheduleLike = param(
        0.2,
        "clip range: how far the probability ratio may move from 1 before its gradient is cut",
        schedule(at_least=0),
    )
    value_clip: float | None = param(
        None, "clip range of values around the recorded ones; `null` does not clip", optional(real(above=0))
    )
    max_kl: float | None = param(
        None,
        "approximate KL divergence from the policy that acted, in nats; the first step above it ends the update",
        optional(real(above=0)),
    )
    recompute_advantages: bool = param(
        False, "recompute values, advantages and returns with the current value network before every pass", flag()
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | PPOParams | None, config: RunConfig
) -> EstimatorSpec:
    """PPO, for a BatchMemory.

    Predictions: ``action`` (the likeliest), ``value`` float32 [B], and ``logits`` float32 [B, A] for Discrete and
    MultiDiscrete actions, [B, ...] for MultiBinary ones, ``mean`` and ``log_std`` float32 [B, ...] for Boxes, and for a
    Dict or a Tuple one set per leaf, such as ``logits/left/arm``; ``action_mask`` bool [B, A] where observations have a
    mask. Metrics, each the mean over the steps of the optimizer: ``policy_loss``, ``value_loss``, ``entropy``, ``kl``
    (estimate, from the policy that acted), ``clip_fraction``, ``gradient_norm`` (before clipping); and
    ``explained_variance`` (of the returns, by the recorded values), ``optimizer_steps``, ``learning_rate``.

    With intrinsic rewards there is the prediction ``intrinsic_value`` [B], and the metrics ``intrinsic_reward`` (the
    mean of the rollout), ``intrinsic_value_loss`` and ``predictor_loss``.

    Raises:
        ArgumentError: the spaces do not fit, the minibatches do not divide the rollout, the memory does not yield
            rollouts, or a parameter is invalid.
    """
    params = from_params(PPOParams, params)
    network = ActorCritic(config, params, "PPO and A2C", params.sequence_length, values=params.values)
    if mode == Modes.PREDICT:
        return network.predict(features, record=("log_prob", *params.values))

    bonus = None
    if params.intrinsic_coefficient is not None:
        bonus = RND(network.observations, params, labels, learns=mode == Modes.TRAIN)
    rollout = network.rollout(features, labels, params.gae_lambda, bonus)
    clip = scheduled_value(params.clip, "clip", labels)
    entropy_coefficient = scheduled_value(params.entropy_coefficient, "entropy_coefficient", labels)
    terms = partial(_losses, network, params, clip, entropy_coefficient, bonus)
    if mode == Modes.EVAL:
        scalars = terms(rollout)
        return EstimatorSpec(mode, loss=scalars.pop("loss"), eval_metric_ops=scalars)
    refresh = None
    if params.recompute_advantages:
        refresh = partial(network.recomputed, network.rows(features, labels), labels, params.gae_lambda, bonus)
    return _training(network, params, labels, rollout, terms, bonus, refresh)


def _training(
    network: ActorCritic,
    params: PPOParams,
    labels: Mapping[str, Any],
    rollout: Mapping[str, Any],
    terms: Callable[[Mapping[str, Any]], dict[str, Tensor]],
    bonus: RND | None,
    refresh: Callable[[], Mapping[str, Tensor]] | None,
) -> EstimatorSpec:
    """The spec of TRAIN: a step of the optimizer for each minibatch, on the loss that ``terms`` computes from its rows.

    Before every pass, ``refresh`` recomputes advantages; None keeps those of the rollout.
    """
    variables, names = network.variables, [*_SCALARS]
    metrics = {"explained_variance": rollouts.explained_variance(rollout["value"], rollout["return"])}
    if bonus is not None:
        variables = [*variables, *bonus.variables]
        names += ["intrinsic_value_loss", "predictor_loss"]
        metrics["intrinsic_reward"] = tf.reduce_mean(bonus.reward)
    update, learning_rate = minimizing(terms, variables, labels, params)
    means = rollouts.over_minibatches(
        update,
        rollout,
        names,
        params.epochs,
        params.minibatch_size,
        together=network.sequence_length,
        stop_above=("kl", params.max_kl),
        refresh=refresh,
    )
    loss = means.pop("loss")
    return EstimatorSpec(Modes.TRAIN, loss=loss, metrics={**means, **metrics, "learning_rate": learning_rate})


def _losses(
    network: ActorCritic,
    params: PPOParams,
    clip: Tensor,
    entropy_coefficient: Tensor,
    bonus: RND | None,
    rows: Mapping[str, Any],
) -> dict[str, Tensor]:
    """The loss of some rows (Schulman et al. 2017, equation 9), and its terms."""
    outputs, values = network.evaluate(rows)
    policy = network.actions.distribution(outputs)
    advantage = rollouts.normalize(rows["advantage"]) if params.normalize_advantages else rows["advantage"]
    log_ratio = policy.log_prob(rows["action"]) - rows["log_prob"]  # [B]
    ratio = tf.exp(log_ratio)
    policy_loss = tf.reduce_mean(losses.clipped_surrogate(log_ratio, advantage, clip))
    value_losses = {
        f"{name}_loss": tf.reduce_mean(
            losses.clipped_squared(value, rows[name], rows[_RETURNS[name]], params.value_clip)
        )
        for name, value in values.items()
    }
    entropy = tf.reduce_mean(policy.entropy())
    loss = policy_loss + params.value_coefficient * tf.add_n([*value_losses.values()]) - entropy_coefficient * entropy
    scalars = {
        "policy_loss": policy_loss,
        **value_losses,
        "entropy": entropy,
        "kl": losses.approximate_kl(log_ratio),
        "clip_fraction": tf.reduce_mean(tf.cast(tf.abs(ratio - 1) > clip, tf.float32)),
    }
    if bonus is not None:
        scalars["predictor_loss"] = bonus.loss(rows)
        loss += scalars["predictor_loss"]
    return {"loss": loss, **scalars}
