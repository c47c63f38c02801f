"""The model of DQNAgent and ApexAgent: Q-learning with a target network that is copied on the agent's request.

Sources: Mnih et al. 2015 (https://doi.org/10.1038/nature14236), van Hasselt et al. 2016 (double,
https://arxiv.org/abs/1509.06461), Wang et al. 2016 (dueling, https://arxiv.org/abs/1511.06581).

Shapes in comments: B is the batch, A the number of values of an action, ... the axes of several actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....models.blocks import losses
from ....models.blocks.train_step import minimize
from .networks import QNetwork
from .optimizers import Optimizer

Tensor: TypeAlias = Any


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """Q-learning.

    Predictions: ``action`` int32 [B, ...], greedy, in the environment's numbers, and ``q_values`` float32 [B, ..., A].

    Args:
        features: states by flat name.
        labels: the batch, with ``discount`` float32 [B] (0 after a terminal), ``weight`` (importance weights) and
            ``valid``, ``global_step``, and the number ``sync``: 1 copies the policy to the target network first.
        mode: PREDICT or TRAIN, whose ``td_error`` is float32 [B], the mean over several actions.
        params: ``form``, the normal form; ``states``, specs by flat name; ``shape``, ``categories`` and ``low``
            (int32 of that shape) of the action.
        config: not used.
    """
    del config
    form = params["form"]
    policy = QNetwork("policy", params)
    q_values = policy.values(features)  # [B, ..., A]
    if mode == Modes.PREDICT:
        action = tf.argmax(q_values, axis=-1, output_type=tf.int32)
        if params["low"].any():
            action += params["low"]
        return EstimatorSpec(mode, {"action": action, "q_values": q_values})
    target = QNetwork("target-policy", params)
    sync = labels["numbers"]["sync"]
    for ours, theirs in zip(policy.variables, target.variables, strict=True):
        theirs.assign(sync * ours + (1.0 - sync) * theirs)  # products with 1 and 0 are exact
    after = target.values(labels["next_observation"])
    selector = policy.values(labels["next_observation"]) if form["double_q"] else after
    next_value = losses.double_value(after, tf.stop_gradient(selector))  # [B, ...]
    td_error = losses.td_error(
        losses.action_values(q_values, labels["action"] - params["low"]),
        _spread(labels["reward"], next_value),
        _spread(labels["discount"], next_value),
        next_value,
    )
    if td_error.shape.rank > 1:
        td_error = tf.reduce_mean(td_error, axis=list(range(1, td_error.shape.rank)))  # [B]
    error = losses.huber(td_error) if form["huber_loss"] else tf.square(td_error)
    weight = labels["weight"] * labels["valid"]
    loss = tf.reduce_sum(weight * error) / tf.reduce_sum(labels["valid"])
    minimize(loss, policy.variables, Optimizer(form["optimizer_spec"], labels["global_step"]), None)
    return EstimatorSpec(mode, loss=loss, td_error=td_error)


def _spread(x: Tensor, like: Tensor) -> Tensor:
    """Reshape [B] to [B, 1, ...] with as many axes as another tensor."""
    return tf.reshape(x, [-1] + [1] * (like.shape.rank - 1))
