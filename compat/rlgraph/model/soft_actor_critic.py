"""The model of SACAgent: soft actor-critic with critics of states and actions, and a temperature that is learnt.

Source: Haarnoja et al. 2018b, https://arxiv.org/abs/1812.05905, which the numbers of equations refer to.

Shapes in comments: B is the batch, A the number of the action's components.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from .... import noise
from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....models.blocks import squashed
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from .networks import Heads, Network, dense, vector
from .optimizers import Step

Tensor: TypeAlias = Any

_LOG_STD = (-20.0, 2.0)
"""Bounds; appendix D of the first paper's code."""


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """Soft actor-critic.

    Predictions: ``action`` float32 [B, ...] in the action's units, the squashed mean; ``mean`` and ``log_std``
    float32 [B, ...] before squashing.

    Args:
        features: states by flat name.
        labels: the batch, with ``discount`` float32 [B] (0 after a terminal), ``weight`` and ``valid``, and the
            ``global_step``. The target critics are to be copies at first.
        mode: PREDICT or TRAIN, whose ``td_error`` is float32 [B]: the root of the mean square over the critics.
        params: ``form``, the normal form; ``states``, specs by flat name; ``low``, ``high`` [A] and ``shape`` of the
            action.
        config: not used.
    """
    del config
    form, low, high = params["form"], params["low"], params["high"]
    policy = _Policy(form, params["states"], len(low))
    mean, log_std = policy(features)
    if mode == Modes.PREDICT:
        found = {"action": squashed.to_units(tf.tanh(mean), low, high), "mean": mean, "log_std": log_std}
        return EstimatorSpec(mode, {name: tf.reshape(part, [-1, *params["shape"]]) for name, part in found.items()})
    valid = labels["valid"]
    names = [f"q-{index}" for index in range(2 if form["double_q"] else 1)]
    critics = [_Critic(name, form, params["states"], len(low)) for name in names]
    targets = [_Critic(f"target-{name}", form, params["states"], len(low)) for name in names]
    share = form["value_function_sync_spec"]["sync_tau"]
    with scopes("temperature"):
        log_alpha = keras.Variable(np.float32(math.log(form["initial_alpha"])), name="log_alpha")
    alpha = tf.exp(log_alpha.value)
    rows, size = int(valid.shape[0]), len(low)
    mean_of = _mean_over(valid)

    after = labels["next_observation"]
    next_action, next_log_prob = squashed.sample(*policy(after), noise.normal([rows, size]))
    next_values = [target(after, next_action) for target in targets]
    soft_value = tf.reduce_min(tf.stack(next_values), axis=0) - alpha * next_log_prob
    goal = tf.stop_gradient(labels["reward"] + labels["discount"] * soft_value)  # equation 2
    action = squashed.from_units(tf.reshape(labels["action"], [-1, size]), low, high)
    errors = [goal - critic(features, action) for critic in critics]  # [B] each
    each = tf.add_n([tf.square(error) for error in errors]) / len(errors)
    critic_loss = mean_of(labels["weight"] * each)  # equation 5, without its half

    own_action, log_prob = squashed.sample(mean, log_std, noise.normal([rows, size]))
    value = tf.reduce_min(tf.stack([critic(features, own_action) for critic in critics]), axis=0)
    policy_loss = mean_of(tf.stop_gradient(alpha) * log_prob - value)  # equation 7
    entropy = -mean_of(log_prob)
    alpha_loss = log_alpha.value * tf.stop_gradient(entropy - form["target_entropy"])  # equation 18, of log alpha

    updates, spec = labels["global_step"], form["optimizer_spec"]
    own = [variable for critic in critics for variable in critic.variables]
    steps = [Step(own, form["value_function_optimizer_spec"], updates)]
    steps += [Step(part, spec, updates) for part in (policy.variables, [log_alpha])]
    gradients = [step.gradients(loss) for step, loss in zip(steps, (critic_loss, policy_loss, alpha_loss), strict=True)]
    for step, gradient in zip(steps, gradients, strict=True):
        step.apply(gradient)
    for critic, target in zip(critics, targets, strict=True):
        for ours, theirs in zip(critic.variables, target.variables, strict=True):
            theirs.assign(share * ours + (1.0 - share) * theirs)
    return EstimatorSpec(mode, loss=critic_loss, td_error=tf.sqrt(each))


class _Policy:
    """From states to a Gaussian before squashing."""

    def __init__(self, form: Mapping[str, Any], states: Mapping[str, ValueSpec], size: int) -> None:
        with scopes("policy"):
            self._network = Network("network_spec", form["network_spec"], states)
            self._heads = Heads(form, self._network.output, {"output": [dense("output", 2 * size)]})
        self.variables = [*self._network.variables, *self._heads.variables]

    def __call__(self, features: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and logarithm of the standard deviation, float32 [B, A] each."""
        mean, log_std = tf.split(self._heads(self._network(features))["output"], 2, axis=-1)
        return mean, tf.clip_by_value(log_std, *_LOG_STD)


class _Critic:
    """From states and squashed actions to a value."""

    def __init__(self, name: str, form: Mapping[str, Any], states: Mapping[str, ValueSpec], size: int) -> None:
        self._states = states
        width = sum(math.prod(spec.shape) * (spec.num_values or 1) for spec in states.values())
        with scopes(name):
            inputs = {"": ValueSpec("", "float", (width + size,))}
            layers = [*form["value_function_spec"], dense("value", 1)]
            self._network = Network("value_function_spec", layers, inputs)
        self.variables = self._network.variables

    def __call__(self, features: Mapping[str, Tensor], action: Tensor) -> Tensor:
        """Values float32 [B] of actions [B, A] in -1 .. 1."""
        parts = [vector(features[name], spec) for name, spec in self._states.items()]
        return tf.reshape(self._network.of(tf.concat([*parts, action], axis=-1)), [-1])


def _mean_over(valid: Tensor) -> Callable[[Tensor], Tensor]:
    total = tf.reduce_sum(valid)
    return lambda x: tf.reduce_sum(valid * x) / total
