"""The model of ActorCriticAgent and PPOAgent: a policy, and values of states from its network or another.

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
Form: TypeAlias = Mapping[str, Any]

_SHARED_WEIGHT: Final = 0.25
"""Weight of the squared error of values that share the policy's network: 0.5 of half of it, as in RLgraph 0.1.3."""
_LOG_STD_BOUNDS: Final = (-10.0, 10.0)
"""Beyond these the logarithm of a standard deviation is clipped."""


def model_fn(features: Any, labels: Any, mode: str, params: Mapping[str, Any], config: RunConfig) -> EstimatorSpec:
    """Actor-critic, with PPO's clipped ratios where ``form["kind"]`` is ``"ppo"``.

    Predictions: ``action``, the likeliest one in the environment's numbers, by flat name where there are several;
    ``value`` float32 [B]; of each discrete action ``logits`` float32 [B, N * A], of each continuous one ``mean`` and
    ``log_std`` float32 of its shape, with ``/<name>`` after it where it has one: as core's explorations read them.

    Args:
        features: states by flat name.
        labels: the batch: ``action`` by flat name, ``advantage``, ``return``, ``weight``, ``valid`` float32 [B], for
            PPO ``log_prob``, and ``value`` if values are clipped, both of acting time; and the ``global_step``.
        mode: PREDICT or TRAIN, whose ``td_error`` is float32 [B]: the policy's loss of each row.
        params: ``form``, the normal form; ``states`` and ``actions``, specs by flat name, and ``bounds`` of the
            actions, pairs of arrays of their shapes: integers count from 0 but for ``action``, which begins at the
            lower one.
        config: not used.
    """
    del config
    form, actions = params["form"], params["actions"]
    policy = Policy(form, params["states"], actions)
    critic = Critic(form, params["states"], policy)
    policies, value = policy.distributions(features), critic(features)
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {**_predicted(policies, actions, params["bounds"]), "value": value})
    taken = {name: tf.reshape(labels["action"][name], [-1, math.prod(spec.shape)]) for name, spec in actions.items()}
    log_prob, entropy = policies.log_prob(taken), policies.entropy()
    advantage = labels["advantage"]
    if form["kind"] == "ppo":
        error = losses.clipped_surrogate(log_prob - labels["log_prob"], advantage, form["clip_ratio"])
    else:
        error = -log_prob * advantage
    error = labels["weight"] * (error - form["weight_entropy"] * entropy)
    clip = form.get("value_function_clipping")
    value_error = losses.clipped_squared(value, labels.get("value"), labels["return"], clip) * labels["weight"]
    count = tf.reduce_sum(labels["valid"])
    policy_loss = tf.reduce_sum(labels["valid"] * error) / count
    value_loss = tf.reduce_sum(labels["valid"] * value_error) / count
    updates = labels["global_step"]
    optimizer = Optimizer(form["optimizer_spec"], updates)
    if form["value_function_spec"] is None:
        loss = policy_loss + _SHARED_WEIGHT * value_loss
        minimize(loss, [*policy.variables, *critic.variables], optimizer, None)
    else:
        minimize(policy_loss, policy.variables, optimizer, None)
        minimize(value_loss, critic.variables, Optimizer(form["value_function_optimizer_spec"], updates), None)
    return EstimatorSpec(mode, loss=policy_loss + value_loss, td_error=error)


class Policy(HeadedNetwork):
    """From states to the distributions of actions.

    Args:
        form: the agent's normal form.
        states: specs by flat name.
        actions: likewise.
    """

    def __init__(self, form: Form, states: Mapping[str, ValueSpec], actions: Mapping[str, ValueSpec]) -> None:
        adapter, self._actions = form["action_adapter_spec"], actions
        self._names = {name: f"output/{name}" if name else "output" for name in actions}
        super().__init__(
            "policy",
            form,
            states,
            {
                head: [dense(head.rpartition("/")[2], _units(actions[name]), adapter)]
                for name, head in self._names.items()
            },
        )

    def distributions(self, features: Mapping[str, Tensor]) -> Joint:
        """The distribution of each action's components, by flat name."""
        found = self(features)
        return Joint({name: _distribution(found[self._names[name]], spec) for name, spec in self._actions.items()})


class Critic:
    """From states to their values, by a network of its own or by one unit on the policy's.

    Args:
        form: the agent's normal form; ``value_function_spec`` is None for the policy's.
        states: specs by flat name.
        policy: the policy.
    """

    def __init__(self, form: Form, states: Mapping[str, ValueSpec], policy: Policy) -> None:
        layers, self._hidden, size = form["value_function_spec"], policy.hidden, policy.size
        self.variables: list[Any] = []
        with scopes("value-function"):
            if layers is not None:
                network = Network("value_function_spec", layers, states)
                self._hidden, self.variables, size = network, list(network.variables), network.size
            self._head = Network("value_function_spec", [dense("output", 1)], {"": ValueSpec("", "float", (size,))})
        self.variables += self._head.variables

    def __call__(self, features: Mapping[str, Tensor]) -> Tensor:
        """float32 [B]."""
        return tf.reshape(self._head.of(self._hidden(features)), [-1])


def _units(spec: ValueSpec) -> int:
    """Outputs that an action needs."""
    return math.prod(spec.shape) * (spec.num_values or 2)  # of floats: mean and logarithm of the standard deviation


def _distribution(outputs: Tensor, spec: ValueSpec) -> MultiCategorical | Gaussian:
    """Distribution of all components, from the outputs float32 [B, units]."""
    if spec.num_values:
        return MultiCategorical(outputs, [spec.num_values] * math.prod(spec.shape))
    mean, log_std = tf.split(outputs, 2, axis=-1)
    return Gaussian(mean, tf.clip_by_value(log_std, *_LOG_STD_BOUNDS))


def _predicted(policies: Joint, actions: Mapping[str, ValueSpec], bounds: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    modes = {}
    for name, mode in policies.mode().items():
        distribution, (low, high) = policies.parts[name], bounds[name]
        shaped, suffix = partial(tf.reshape, shape=[-1, *actions[name].shape]), f"/{name}" if name else ""
        if isinstance(distribution, MultiCategorical):
            modes[name] = shaped(mode) + low if low.any() else shaped(mode)
            logits = tf.concat([part.log_probs for part in distribution.parts], axis=-1)
            found["logits" + suffix] = logits
        else:
            modes[name] = tf.minimum(tf.maximum(shaped(mode), low), high)
            found |= {what + suffix: shaped(getattr(distribution, what)) for what in ("mean", "log_std")}
    return {"action": modes[""] if list(modes) == [""] else modes, **found}
