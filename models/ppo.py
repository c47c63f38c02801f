"""PPO: proximal policy optimisation, with the details that its reputation rests on.

Sources: Schulman et al. 2017 (https://arxiv.org/abs/1707.06347), with advantages by Schulman et al. 2016
(https://arxiv.org/abs/1506.02438); the details of Engstrom et al. 2020 (https://arxiv.org/abs/2005.12729) and
Andrychowicz et al. 2020 (https://arxiv.org/abs/2006.05990). What differs from the papers is said in
docs/algorithms/ppo.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from gymnasium import spaces

from .. import noise
from ..checks import choice, integer, number
from ..contracts import EstimatorSpec, Modes, RunConfig
from ..explorations import ScheduleLike, make_schedule
from .blocks import losses, optimizers
from .blocks.actor_critic import (
    ActorCritic,
    NetworkParams,
    distribution,
    exploration_for,
    from_environment,
    like_actions,
    to_environment,
)
from .blocks.params import from_params
from .blocks.returns import gae

Tensor: TypeAlias = Any

_SMALL = 1e-8
"""Keeps the standard deviation of advantages from being divided by where it is zero."""
_METRICS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "gradient_norm")


@dataclasses.dataclass(frozen=True)
class PPOParams(NetworkParams):
    """The parameters of PPO: those of the networks, and these. Schedules follow ``global_step``: it counts rollouts.

    Args:
        epochs: passes over a rollout.
        minibatch_size: timesteps in a step of the optimizer; it divides the rollout. ``None``: the whole rollout.
        clip: how far the ratio of probabilities may leave 1 before its gradient is cut: a number, or a schedule.
        value_clip: how far the value may leave the recorded one; ``None`` does not clip it.
        value_coefficient: weight of the value's squared error.
        entropy_coefficient: weight of the entropy: a number, or a schedule.
        normalize_advantages: to mean 0 and standard deviation 1 in every minibatch.
        gae_lambda: between one-step TD errors (0) and whole returns (1).
        max_kl: the step of the optimizer in which the policy has moved further than this (approximate KL divergence
            from the policy that acted, nats) is the rollout's last; ``None`` never stops early.
        optimizer: by Keras' name in lower case.
        learning_rate: a number, or a schedule.
        max_gradient_norm: gradients are scaled down to this global norm; ``None`` leaves them.

    Raises:
        ValueError: a value is of the wrong type or out of range; names it.
    """

    epochs: int = 10
    minibatch_size: int | None = 64
    clip: ScheduleLike = 0.2
    value_clip: float | None = None
    value_coefficient: float = 0.5
    entropy_coefficient: ScheduleLike = 0.0
    normalize_advantages: bool = True
    gae_lambda: float = 0.95
    max_kl: float | None = None
    optimizer: str = "adam"
    learning_rate: ScheduleLike = 3e-4
    max_gradient_norm: float | None = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("optimizer", self.optimizer, optimizers.OPTIMIZERS)
        if not isinstance(self.normalize_advantages, bool):
            raise ValueError(f"normalize_advantages must be true or false, got {self.normalize_advantages!r}")
        object.__setattr__(self, "epochs", integer("epochs", self.epochs, at_least=1))
        if self.minibatch_size is not None:
            object.__setattr__(self, "minibatch_size", integer("minibatch_size", self.minibatch_size, at_least=1))
        for name in ("value_clip", "max_kl", "max_gradient_norm"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=0)
        number("value_coefficient", self.value_coefficient, at_least=0)
        number("gae_lambda", self.gae_lambda, at_least=0, at_most=1)
        make_schedule(self.clip, "clip", at_least=0)
        make_schedule(self.entropy_coefficient, "entropy_coefficient", at_least=0)
        make_schedule(self.learning_rate, "learning_rate", at_least=0)


def model_fn(
    features: Any,
    labels: Any,
    mode: str,
    params: Mapping[str, Any] | PPOParams | None,
    config: RunConfig,
) -> EstimatorSpec:
    """PPO as a ``model_fn``, for a BatchMemory.

    Predictions: ``action`` (the likeliest, in the environment's units), ``value`` float32 [B], and ``logits`` float32
    [B, A] for Discrete and MultiDiscrete actions, ``mean`` and ``log_std`` float32 [B, ...] for Boxes. Metrics, each
    the mean over the steps of the optimizer: ``policy_loss``, ``value_loss``, ``entropy``, ``kl`` (from the policy
    that acted, estimated), ``clip_fraction``, ``gradient_norm`` (before clipping); and ``explained_variance`` (of the
    returns, by the values that were recorded), ``optimizer_steps``, ``learning_rate``.

    Args:
        features: observations, tensor [B, ...] or a mapping of such; [T, N, ...] in TRAIN and EVAL.
        labels: the rollout [T, N, ...], with ``log_prob`` and ``value`` as they were recorded; and the counters.
        mode: one of ``Modes``.
        params: the values of :class:`PPOParams` that differ from its defaults.
        config: gives the spaces.

    Raises:
        ValueError: the spaces do not fit, the minibatches do not divide the rollout, the memory is not one of
            rollouts, or a parameter is wrong.
    """
    params = from_params(PPOParams, params)
    network = ActorCritic(params, config)
    space = config.action_space
    if mode == Modes.PREDICT:
        outputs, value = network(features)
        action = to_environment(distribution(outputs, space).mode(), space)
        shaped = {k: like_actions(v, space) if isinstance(space, spaces.Box) else v for k, v in outputs.items()}
        predictions = {"action": action, "value": value, **shaped}
        return EstimatorSpec(mode, predictions, exploration=exploration_for(space), record=("log_prob", "value"))

    rollout = _rollout(network, features, labels, params, space)
    step = labels["global_step"]
    if mode == Modes.EVAL:
        loss, parts = _loss(network, rollout, _Coefficients.at(step, params), params, space)
        return EstimatorSpec(mode, loss=loss, eval_metric_ops=parts)
    learning_rate = optimizers.learning_rate_at(params.learning_rate, step)
    explained = _explained_variance(rollout["value"], rollout["return"])
    loss, metrics = _minimize(network, rollout, step, learning_rate, params, space)
    metrics |= {"explained_variance": explained, "learning_rate": learning_rate}
    return EstimatorSpec(mode, loss=loss, metrics=metrics)


# -- the parts --------------------------------------------------------------------------------------------------------


def _rollout(network: ActorCritic, features: Any, labels: Any, params: PPOParams, space: Any) -> dict[str, Any]:
    """The rollout in rows [B, ...], B = T * N, with the advantages and the returns to be learned."""
    if labels["reward"].shape.rank != 2:
        raise ValueError(
            "PPO and A2C learn from rollouts [T, N, ...]: use a BatchMemory; this memory's batches have rewards of"
            f" shape {list(labels['reward'].shape)}"
        )
    shape = labels["reward"].shape  # [T, N]
    next_value = tf.reshape(network.value(_rows(labels["next_observation"])), shape)
    advantage = gae(
        labels["reward"], labels["discount"], labels["truncated"], labels["value"], next_value, params.gae_lambda
    )
    keys = {
        "observation": features,
        "action": labels["action"],
        "log_prob": labels["log_prob"],
        "value": labels["value"],
        "advantage": advantage,
        "return": advantage + labels["value"],
    }
    rollout = {key: _rows(value) for key, value in keys.items()}
    rollout["action"] = from_environment(rollout["action"], space)
    return rollout


def _rows(tree: Any) -> Any:
    """[T, N, ...] as [T * N, ...]."""
    if isinstance(tree, Mapping):
        return {name: _rows(part) for name, part in tree.items()}
    return tf.reshape(tree, [tree.shape[0] * tree.shape[1], *tree.shape[2:]])


@dataclasses.dataclass(frozen=True)
class _Coefficients:
    """What may follow a schedule."""

    clip: Tensor
    entropy: Tensor

    @classmethod
    def at(cls, step: Tensor, params: PPOParams) -> _Coefficients:
        return cls(
            optimizers.scheduled(params.clip, "clip", step),
            optimizers.scheduled(params.entropy_coefficient, "entropy_coefficient", step),
        )


def _loss(
    network: ActorCritic, rows: Mapping[str, Any], coefficients: _Coefficients, params: PPOParams, space: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of some rows, and its parts."""
    outputs, value = network(rows["observation"])
    policy = distribution(outputs, space)
    advantage = rows["advantage"]
    if params.normalize_advantages:
        centred = advantage - tf.reduce_mean(advantage)
        advantage = centred / (tf.sqrt(tf.reduce_mean(tf.square(centred))) + _SMALL)
    log_ratio = policy.log_prob(rows["action"]) - rows["log_prob"]  # [B]
    policy_loss = tf.reduce_mean(losses.clipped_surrogate(log_ratio, advantage, coefficients.clip))
    value_loss = tf.reduce_mean(losses.clipped_squared(value, rows["value"], rows["return"], params.value_clip))
    entropy = tf.reduce_mean(policy.entropy())
    loss = policy_loss + params.value_coefficient * value_loss - coefficients.entropy * entropy
    ratio = tf.exp(log_ratio)
    clipped = tf.abs(ratio - 1) > coefficients.clip
    parts = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "kl": tf.reduce_mean(ratio - 1 - log_ratio),  # http://joschu.net/blog/kl-approx.html, k3
        "clip_fraction": tf.reduce_mean(tf.cast(clipped, tf.float32)),
    }
    return loss, parts


def _explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """1 for perfect values, 0 for such as are as good as none; 0 too where returns are equal but for rounding."""
    variance = tf.math.reduce_variance(returns)
    unexplained = tf.math.reduce_variance(returns - value)
    varies = variance > 1e-12 * tf.reduce_mean(tf.square(returns) + tf.square(value))
    return tf.where(varies, 1 - unexplained / tf.where(varies, variance, 1.0), 0.0)


def _minimize(
    network: ActorCritic,
    rollout: Mapping[str, Any],
    step: Tensor,
    learning_rate: Tensor,
    params: PPOParams,
    space: Any,
) -> tuple[Tensor, dict[str, Tensor]]:
    """All epochs: a loop of steps of the optimizer; returns the means of loss and metrics over them."""
    rows = rollout["advantage"].shape[0]
    size = rows if params.minibatch_size is None else params.minibatch_size
    if rows % size:
        raise ValueError(f"minibatch_size must divide the rollout of {rows} timesteps, got {size}")
    if size == 1 and params.normalize_advantages:
        raise ValueError("normalize_advantages leaves nothing to learn of minibatches of 1 timestep: make them larger")
    coefficients = _Coefficients.at(step, params)
    variables = network.variables
    optimizer = optimizers.make_optimizer(params.optimizer, learning_rate)
    optimizer.build(variables)  # its variables cannot be made inside of a loop

    def update(minibatch: Mapping[str, Any]) -> Tensor:
        loss, parts = _loss(network, minibatch, coefficients, params, space)
        gradients = tf.gradients(loss, [variable.value for variable in variables])
        gradients, parts["gradient_norm"] = optimizers.clip_by_global_norm(gradients, params.max_gradient_norm)
        optimizer.apply(gradients, variables)
        return tf.stack([loss, *(parts[name] for name in _METRICS)])

    if size == rows and params.epochs == 1:
        loss, *values = tf.unstack(update(rollout))
        return loss, {**dict(zip(_METRICS, values, strict=True)), "optimizer_steps": tf.constant(1.0)}

    total = params.epochs * (rows // size)
    orders = tf.concat([noise.permutation(rows) for _ in range(params.epochs)], axis=0)  # [epochs * B]
    orders = tf.reshape(orders, [total, size])

    def goes_on(i: Tensor, kl: Tensor, sums: Tensor) -> Tensor:
        return i < total if params.max_kl is None else tf.logical_and(i < total, kl <= params.max_kl)

    def body(i: Tensor, kl: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        # Not a slice that begins at i: LiteRT takes its size to be unknown, and plans memory anew in every iteration.
        values = update(_taken(rollout, tf.gather(orders, i)))
        return i + 1, values[1 + _METRICS.index("kl")], sums + values

    start = (tf.constant(0), tf.constant(0.0), tf.zeros(1 + len(_METRICS)))
    steps, _, sums = tf.while_loop(goes_on, body, start, parallel_iterations=1)
    steps = tf.cast(steps, tf.float32)
    loss, *values = tf.unstack(sums / steps)
    return loss, {**dict(zip(_METRICS, values, strict=True)), "optimizer_steps": steps}


def _taken(tree: Any, index: Tensor) -> Any:
    if isinstance(tree, Mapping):
        return {name: _taken(part, index) for name, part in tree.items()}
    return tf.gather(tree, index)
