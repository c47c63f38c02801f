"""The model of ActorCriticAgent and PPOAgent: a policy and state values, from one network or two.

Sources: Mnih et al. 2016 (https://arxiv.org/abs/1602.01783), Schulman et al. 2017 (https://arxiv.org/abs/1707.06347),
Engstrom et al. 2020 (https://arxiv.org/abs/2005.12729) for the clipping of values.

Shapes in comments: B is the batch, N the components of an action, A the number of values of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import tensorflow as tf

from ....core.protocols import EstimatorSpec, Modes, RunConfig
from ....models.blocks import losses
from ....models.blocks.distributions import Gaussian, Joint, MultiCategorical
from ....models.blocks.train_step import minimize
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from .networks import HeadedNetwork, Network, dense
from .optimizers import Optimizer

Tensor: TypeAlias = Any

_SHARED_WEIGHT: Final = 0.25
"""Weight of the value loss, half the squared error, if values share the policy's network; as in RLgraph 0.1.3."""
_LOG_STD_BOUNDS: Final = (-10.0, 10.0)
"""Bounds to which the logarithm of a standard deviation is clipped."""


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """Actor-critic, with PPO's clipped ratios if ``form["kind"]`` is ``"ppo"``.

    Predictions: ``action``, the likeliest, by flat name if there are several; ``value`` float32 [B]; for each discrete
    action ``logits`` float32 [B, N * A], for each continuous one ``mean`` and ``log_std`` float32 of its shape, with
    the suffix ``/<name>`` if it has a name: as core's explorations read them.

    Args:
        features: states by flat name.
        labels: the batch: ``action`` by flat name, ``advantage``, ``return``, ``weight``, ``valid`` float32 [B]; for
            PPO ``log_prob``, and ``value`` if values are clipped, both from the time of acting; and ``global_step``.
        mode: PREDICT or TRAIN, whose ``td_error`` is the policy loss of each row, float32 [B].
        params: ``form``, the normal form; ``states`` and ``actions``, specs by flat name, and ``bounds`` of the
            actions, pairs of arrays of their shapes.
        config: not used.
    """
    del config
    form, actions, shares = params["form"], params["actions"], params["form"]["value_function_spec"] is None
    heads = {name: f"output/{name}" if name else "output" for name in actions}
    outputs = {heads[name]: [_output(name, spec, form["action_adapter_spec"])] for name, spec in actions.items()}
    policy = HeadedNetwork("policy", form, params["states"], outputs)
    with scopes("value-function"):
        inputs = {"": ValueSpec("", "float", (policy.size,))} if shares else params["states"]
        layers = [*(form["value_function_spec"] or ()), dense("output", 1)]
        critic = Network("value_function_spec", layers, inputs)
    hidden = policy.hidden(features)
    found = policy.heads(hidden)
    policies = Joint({name: _distribution(found[heads[name]], spec) for name, spec in actions.items()})
    value = tf.reshape(critic.of(hidden) if shares else critic(features), [-1, critic.size])[:, 0]
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {**_predictions_of(policies, actions, params["bounds"]), "value": value})
    log_prob, entropy = (
        policies.log_prob(_from_environment(labels["action"], actions, params["bounds"])),
        policies.entropy(),
    )
    if form["kind"] == "ppo":
        error = losses.clipped_surrogate(log_prob - labels["log_prob"], labels["advantage"], form["clip_ratio"])
    else:
        error = -log_prob * labels["advantage"]
    error = labels["weight"] * (error - form["weight_entropy"] * entropy)
    clip = form.get("value_function_clipping")
    value_error = losses.clipped_squared(value, labels.get("value"), labels["return"], clip) * labels["weight"]
    share = labels["valid"] / tf.reduce_sum(labels["valid"])
    policy_loss, value_loss = tf.reduce_sum(share * error), tf.reduce_sum(share * value_error)
    optimizer = Optimizer(form["optimizer_spec"], labels["global_step"])
    if shares:
        loss = policy_loss + _SHARED_WEIGHT * value_loss
        minimize(loss, [*policy.variables, *critic.variables], optimizer, None)
    else:
        minimize(policy_loss, policy.variables, optimizer, None)
        optimizer = Optimizer(form["value_function_optimizer_spec"], labels["global_step"])
        minimize(value_loss, critic.variables, optimizer, None)
    return EstimatorSpec(mode, loss=policy_loss + value_loss, td_error=error)


def _output(name: str, spec: ValueSpec, adapter: Mapping[str, Any]) -> dict[str, Any]:
    """The output layer of an action; for floats, the mean and the logarithm of the standard deviation."""
    return dense(name or "output", math.prod(spec.shape) * (spec.num_values or 2), adapter)


def _distribution(outputs: Tensor, spec: ValueSpec) -> MultiCategorical | Gaussian:
    """Distribution over all components, from the outputs float32 [B, units]."""
    if spec.num_values:
        return MultiCategorical(outputs, [spec.num_values] * math.prod(spec.shape))
    mean, log_std = tf.split(outputs, 2, axis=-1)
    return Gaussian(mean, tf.clip_by_value(log_std, *_LOG_STD_BOUNDS))


def _from_environment(
    given: Mapping[str, Tensor], actions: Mapping[str, ValueSpec], bounds: Mapping[str, Any]
) -> dict[str, Any]:
    """Actions [B, N] as their distributions take them: integers from 0."""
    found = {}
    for name, spec in actions.items():
        low = bounds[name][0]
        taken = given[name] - low if spec.num_values and low.any() else given[name]
        found[name] = tf.reshape(taken, [-1, math.prod(spec.shape)])
    return found


def _predictions_of(policies: Joint, actions: Mapping[str, ValueSpec], bounds: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    modes = {}
    for name, mode in policies.mode().items():
        distribution, (low, high) = policies.parts[name], bounds[name]
        shaped, suffix = partial(tf.reshape, shape=[-1, *actions[name].shape]), f"/{name}" if name else ""
        if isinstance(distribution, MultiCategorical):
            modes[name] = shaped(mode) + low if low.any() else shaped(mode)
            found["logits" + suffix] = tf.concat([part.log_probs for part in distribution.parts], axis=-1)
        else:
            modes[name] = tf.minimum(tf.maximum(shaped(mode), low), high)
            found |= {what + suffix: shaped(getattr(distribution, what)) for what in ("mean", "log_std")}
    return {"action": modes[""] if list(modes) == [""] else modes, **found}
