"""The model of IMPALAAgent: an actor-critic that learns from whole unrolls, corrected by V-trace.

Source: Espeholt et al. 2018, https://arxiv.org/abs/1802.01561, sections 4.1 and 4.2. Losses are summed over time.

Shapes in comments: B unrolls of T timesteps and one state more; A the number of values of an action, ... the axes of
several actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....models.blocks.distributions import Categorical
from ....models.blocks.returns import vtrace
from ....models.blocks.train_step import minimize
from ..specs.impala import PREVIOUS_REWARD
from .impala_networks import Outputs, PolicyNetwork
from .optimizers import Optimizer

Tensor: TypeAlias = Any


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """IMPALA.

    Predictions: ``action`` int32 [B, ...], the likeliest, in the environment's numbers, ``logits`` float32 [B, ..., A]
    and ``value`` float32 [B]. The recurrent state is ``hidden`` and ``cell``.

    Args:
        features: states by flat name, with the previous action (-1: none) and reward if they are fed; in TRAIN
            [B, T + 1, ...]. With a recurrent state there are two parts, ``observation`` and ``state``.
        labels: the timesteps, [B, T]: ``action``, ``reward``, ``discount`` (0 after a terminal), ``terminal`` (the next
            state belongs to another episode), ``truncated`` with ``final_value`` (the value of a cut episode's last
            state), and ``log_prob`` of the behaviour policy; ``valid`` [B]; and ``global_step``.
        mode: PREDICT or TRAIN, whose ``td_error`` is the loss of each timestep, float32 [B, T].
        params: ``form``, the normal form; ``states``, specs by flat name, and ``scale`` of images; ``fed``, inputs fed
            besides states; ``shape``, ``categories`` and ``low`` (int32 of that shape) of the action.
        config: not used.
    """
    del config
    form = params["form"]
    state = None
    if isinstance(features.get("state"), Mapping):
        features, state = features["observation"], features["state"]
    if PREVIOUS_REWARD in features:
        clipped = clipped_rewards(features[PREVIOUS_REWARD], form["reward_clipping"])
        features = {**features, PREVIOUS_REWARD: clipped}
    network = PolicyNetwork(params)
    if mode == Modes.PREDICT:
        found = network(features, 1, state, None)
        action = tf.argmax(found.logits, axis=-1, output_type=tf.int32)
        if params["low"].any():
            action += params["low"]
        predictions = {"action": action, "logits": found.logits, "value": found.value}
        return EstimatorSpec(mode, predictions, state=found.state or None)

    length = labels["reward"].shape[1] + 1
    rows = {name: tf.reshape(part, [-1, *part.shape[2:]]) for name, part in features.items()}
    begins = tf.pad(labels["terminal"], [[0, 0], [1, 0]])  # [B, T + 1]
    losses = _losses(network(rows, length, state, begins), labels, form)  # [B, T]
    valid = labels["valid"]
    loss = tf.reduce_sum(valid * tf.reduce_sum(losses, axis=1)) / tf.reduce_sum(valid)
    minimize(loss, network.variables, Optimizer(form["optimizer_spec"], labels["global_step"]), None)
    return EstimatorSpec(mode, loss=loss, td_error=losses)


def _losses(found: Outputs, labels: Mapping[str, Tensor], form: Mapping[str, Any]) -> Tensor:
    """The loss of each timestep (section 4.2), float32 [B, T]."""
    length = labels["reward"].shape[1]
    logits = tf.reshape(found.logits, [-1, length + 1, *found.logits.shape[1:]])[:, :-1]
    values = tf.reshape(found.value, [-1, length + 1])
    value, following = values[:, :-1], values[:, 1:]
    policy = Categorical(logits)
    log_prob = _over_components(policy.log_prob(labels["action"]))
    truncated = labels["truncated"]
    traced = vtrace(
        _swap_axes(log_prob - labels["log_prob"]),
        _swap_axes(clipped_rewards(labels["reward"], form["reward_clipping"])),
        _swap_axes(labels["discount"]),
        _swap_axes(truncated),
        _swap_axes(value),
        _swap_axes(truncated * labels["final_value"] + (1.0 - truncated) * following),
    )
    return (
        -form["weight_pg"] * log_prob * _swap_axes(traced.advantage)
        + form["weight_baseline"] * 0.5 * tf.square(_swap_axes(traced.target) - value)
        - form["weight_entropy"] * _over_components(policy.entropy())
    )


def clipped_rewards(reward: Tensor, kind: str | None) -> Tensor:
    """Clip rewards for the loss.

    Args:
        reward: float32 of any shape.
        kind: None: unchanged. ``clamp_one``: clipped to -1 .. 1. ``soft_asymmetric``: ``5 tanh(r / 5)``, times 0.3 if
            negative, as in the program of Espeholt et al. 2018, not as in their figure D.1.
    """
    if kind is None:
        return reward
    if kind == "clamp_one":
        return tf.clip_by_value(reward, -1.0, 1.0)
    squashed = 5.0 * tf.tanh(reward / 5.0)
    return tf.maximum(squashed, 0.0) + 0.3 * tf.minimum(squashed, 0.0)


def _swap_axes(x: Tensor) -> Tensor:
    """Transpose [B, T] to [T, B], or back.

    A product with ones and zeros, which is exact: LiteRT's converter moves a transposition through the sums of V-trace
    and makes them wrong.
    """
    return tf.matmul(x, tf.eye(x.shape[0]), transpose_a=True)


def _over_components(x: Tensor) -> Tensor:
    """The sum over several actions, [B, T]."""
    return x if x.shape.rank == 2 else tf.reduce_sum(x, axis=list(range(2, x.shape.rank)))
