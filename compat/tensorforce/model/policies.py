"""Policies: a network with heads for distributions over actions, action values, or a state's value.

Shapes in comments: B is the batch, N the components of one action, C those of all actions, K the values of an int.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from ....models.blocks.distributions import Distribution
from ...common.layers.layers import Linear
from ...common.layers.scopes import scopes
from ...common.value_specs import ValueSpec
from ..spaces.errors import refuse
from ..spaces.specs import MASK
from ..specs.normal_form import distribution_of
from .heads import HEADS, STEP, Head, linear
from .networks import build_network

Tensor: TypeAlias = Any
Inputs: TypeAlias = Mapping[str, Any]
"""``observation`` by name, [B, *shape], or windows [B, L, *shape]; optionally ``internals`` by name, [B, ...], and
``window_valid``, float32 [B, L]."""


class Policy:
    """A policy; all its variables are created at once.

    Args:
        scope: name scope of its variables, and name of its argument: ``policy`` or ``baseline``.
        spec: policy in normal form.
        states: specs of the states.
        actions: specs of the actions.
        acts: does it have distributions, for acting or likelihoods?
        values_actions: does it have action values?
        values_states: does it have its own state value?
        dueling: do ints have a state's value and advantages?
        prefix: prefix of the names of its internals: ``baseline-`` for a critic's.

    Raises:
        TensorforceError: the network does not fit the states, or actions cannot have values.
    """

    def __init__(
        self,
        scope: str,
        spec: Mapping[str, Any],
        states: Mapping[str, ValueSpec],
        actions: Mapping[str, ValueSpec],
        *,
        acts: bool,
        values_actions: bool,
        values_states: bool,
        dueling: bool = False,
        prefix: str = "",
    ) -> None:
        floats = [name for name, action in actions.items() if action.type == "float"]
        has_beta = [name for name in floats if distribution_of(spec, actions[name])["type"] == "beta"]
        if values_actions and acts and has_beta:
            problem = f"has no values of {has_beta[0]!r} with a beta distribution: pass use_beta_distribution=False"
            refuse(f"Agent.create: {scope}", problem, "beta")
        self._states, self._actions = states, actions
        self.heads: dict[str, Head] = {}
        self.critic: Critic | None = None
        self._state_value: Linear | None = None
        with scopes(scope):
            where = f"Agent.create: {scope}['network']"
            self.network = build_network(where, spec["network"], states, f"{scope}-network", prefix)
            has_critic = bool(floats) and values_actions and not acts
            _check_axes(where, self.network.axes, actions, vector=has_critic)
            if has_critic:
                self.critic = Critic(self.network.size, actions)
            elif acts or values_actions:
                size, axes = self.network.size, self.network.axes
                for name, action in actions.items():
                    own = distribution_of(spec, action)
                    duels = dueling or bool(own.get("advantage_based"))
                    with scopes(*f"{name}-distribution".split("/")):
                        self.heads[name] = HEADS[own["type"]](action, size, axes, valued=values_actions, dueling=duels)
            if values_states:
                self._state_value = linear("states-value", self.network.size, 1, self.network.axes)

    @property
    def variables(self) -> list[Any]:
        """Trained variables, in creation order."""
        parts = [*self.heads.values(), self.critic, self._state_value]
        return [*self.network.variables, *(v for part in parts if part is not None for v in part.variables)]

    @property
    def all_variables(self) -> list[Any]:
        """Trained variables, and untrained ones such as statistics."""
        return [*self.variables, *self.network.untrained]

    def __call__(self, inputs: Inputs, *, training: bool, counted: Tensor | None = None) -> View:
        """Outputs for inputs of B rows.

        Args:
            inputs: the rows.
            training: apply dropout and update statistics?
            counted: float32 [B], 1 for the rows that statistics use; None: all.
        """
        observation, internals, valid = inputs["observation"], inputs.get("internals"), inputs.get("window_valid")
        states = {name: observation[name] for name in self._states}
        windowed = valid is not None and valid.shape[1] > 1
        window = None if not windowed else valid if counted is None else valid * counted[:, tf.newaxis]
        features, following = self.network(states, internals, training, counted, window)
        legal: dict[str, Tensor | None] = {}
        for name, spec in self._actions.items():
            mask = observation.get(f"{name}{MASK}")
            if mask is not None:
                mask = tf.reshape(mask[:, -1] if windowed else mask, [-1, math.prod(spec.shape), spec.num_values]) > 0.5
            legal[name] = mask
        return View(self, features, following, legal)

    def values_from(self, features: Tensor) -> Tensor:
        """State values, float32 [B], from the network's output."""
        if self._state_value is None:
            raise RuntimeError("the policy was built without a value of states")
        values = self._state_value(features, STEP)  # [B, *axes, 1]
        return tf.reduce_mean(tf.reshape(values, [-1, math.prod(values.shape[1:])]), axis=-1)


class View:
    """A policy's outputs for B rows.

    Args:
        policy: the policy.
        features: its network's output, float32 [B, size].
        following: the next internals, by name.
        legal: legal values of int actions, bool [B, N, K] by action; None: all.
    """

    def __init__(
        self, policy: Policy, features: Tensor, following: Mapping[str, Tensor], legal: Mapping[str, Tensor | None]
    ) -> None:
        self.features, self.following, self.legal = features, following, legal
        self._policy, self._heads = policy, policy.heads
        self.outputs = {name: head(features) for name, head in policy.heads.items()}

    def without_gradients(self) -> View:
        """The same distributions, through which no gradients flow."""
        other = copy.copy(self)
        other.outputs = {name: {k: tf.stop_gradient(x) for k, x in o.items()} for name, o in self.outputs.items()}
        return other

    def _concat(self, function: Callable[[str, Head], Tensor]) -> Tensor:
        """Results of a function for the components of each action, joined: [B, C]."""
        return tf.concat([function(name, head) for name, head in self._heads.items()], axis=-1)

    def distributions(self) -> dict[str, Distribution]:
        """Distributions over the components of each action, by name."""
        return {name: head.distribution(self.outputs[name], self.legal[name]) for name, head in self._heads.items()}

    def log_probs(self, action: Mapping[str, Tensor]) -> Tensor:
        """Log-probabilities of actions [B, *shape], float32 [B, C]."""
        own = self.distributions()
        return self._concat(lambda name, head: own[name].log_prob(head.to_distribution(action[name])))

    def entropy(self) -> Tensor:
        """Entropy, summed over the components, float32 [B]."""
        own = self.distributions()
        return tf.reduce_sum(self._concat(lambda name, _: own[name].entropy()), axis=-1)

    def kl(self, other: View) -> Tensor:
        """Divergence of another view's distributions from these, summed over the components, float32 [B]."""
        own, theirs = self.distributions(), other.distributions()
        return tf.reduce_sum(self._concat(lambda name, _: own[name].kl(theirs[name])), axis=-1)

    def greedy(self) -> dict[str, Tensor]:
        """Greedy actions by name, [B, *shape]: int32, float32 or bool."""
        return {name: head.greedy(self.outputs[name], self.legal[name]) for name, head in self._heads.items()}

    def predictions(self) -> dict[str, Tensor]:
        """Distribution parameters: ``logits/a`` and so on."""
        shaped = ((name, head.shaped(self.outputs[name])) for name, head in self._heads.items())
        return {f"{key}/{name}": value for name, own in shaped for key, value in own.items()}

    def best_values(self, selector: View | None) -> Tensor:
        """The highest legal values of each action, or the values of another view's best choices, [B, C]."""
        chosen = {} if selector is None else selector.outputs
        return self._concat(lambda n, head: head.best_value(self.outputs[n], self.legal[n], chosen.get(n)))

    def expected_values(self, acting: View) -> Tensor:
        """The means of values over the distributions of another view, float32 [B, C]."""
        parts = acting.distributions()
        return self._concat(lambda name, head: head.expected_value(self.outputs[name], parts[name]))

    def action_values(self, action: Mapping[str, Tensor]) -> Tensor:
        """Values of actions [B, *shape], float32 [B, C]; a critic has one value for all actions, [B, 1]."""
        if self._policy.critic is not None:
            return self._policy.critic(self.features, action)
        return self._concat(lambda name, head: head.value_of(self.outputs[name], action[name]))

    def state_value(self) -> Tensor:
        """Values of states, float32 [B]."""
        return self._policy.values_from(self.features)


class Critic:
    """The value of all actions together, which join the network's output in a hidden layer.

    Actions are not inputs of the network, because the user's list of layers is for states only.
    """

    def __init__(self, size: int, actions: Mapping[str, ValueSpec]) -> None:
        self._actions = actions
        inputs = sum(math.prod(spec.shape) * (spec.num_values or 1) for spec in actions.values())
        self._hidden = linear("action-dense", size + inputs, size)
        self._value = linear("action-value", size, 1)
        self.variables = [*self._hidden.variables, *self._value.variables]

    def __call__(self, features: Tensor, action: Mapping[str, Tensor]) -> Tensor:
        """Values, float32 [B, 1], of actions [B, *shape] and the network's output [B, size]."""
        joined = tf.concat([features, *(_vector(spec, action[name]) for name, spec in self._actions.items())], axis=-1)
        return self._value(tf.tanh(self._hidden(joined, STEP)), STEP)


@contextlib.contextmanager
def frozen(variables: list[Any]) -> Iterator[None]:
    """Context in which no gradients flow into variables."""
    fixed = [(variable, tf.stop_gradient(tf.convert_to_tensor(variable))) for variable in variables]
    with keras.StatelessScope(state_mapping=fixed):
        yield


def _check_axes(where: str, axes: Sequence[int], actions: Mapping[str, ValueSpec], *, vector: bool) -> None:
    """Check that a network's output is a vector or, unless ``vector``, has one vector at each place of all actions."""
    for name, action in actions.items():
        if axes and (vector or tuple(axes) not in (action.shape, action.shape[:-1])):
            problem = f"must return a vector, but returns one at each of {list(axes)} places"
            advice = f"which the action {name!r} of shape {action.shape} lacks: add a layer flatten or pooling"
            refuse(where, f"{problem}, {advice}", tuple(axes))


def _vector(spec: ValueSpec, action: Tensor) -> Tensor:
    """An action as float32 [B, ...], scaled to -1 .. 1 if it has bounds."""
    size = math.prod(spec.shape)
    if spec.type == "int":
        index = tf.reshape(tf.cast(action, tf.int32), [-1, size])
        return tf.reshape(tf.one_hot(index, spec.num_values), [-1, size * (spec.num_values or 1)])
    flat = tf.reshape(tf.cast(action, tf.float32), [-1, size])
    if spec.min_value is None or spec.max_value is None:
        return flat
    return (2.0 / (spec.max_value - spec.min_value)) * (flat - spec.min_value) - 1.0
