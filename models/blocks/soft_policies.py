"""Policies of algorithms that maximise return and entropy, with one interface for continuous and discrete actions.

Such an algorithm needs two expectations over a policy's actions a in a state s: of some Q(s, a), and of log p(a|s). A
squashed Gaussian estimates both from one reparameterised sample, a categorical policy computes them exactly.

Shapes in comments: B is the batch, I the size of a network's input, A the components of an action or the number of
Discrete ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

from gymnasium import spaces

from ... import explorations, noise
from ...core.errors import ArgumentError
from ...core.protocols import Exploration
from ...core.tensorflow_import import keras, tf
from .actions import Discrete
from .box_actions import SquashedBox
from .distributions import Categorical
from .networks import DenseParams, Network
from .state_dependent import StateDependentParams, make_log_std, marginal_log_std, scaled_features
from .temperature import ENTROPY_SHARE

Tensor: TypeAlias = Any
Values: TypeAlias = Callable[[Any], Any]
"""Function from actions, or None for all, to some critics' values."""


class SoftPolicy(Protocol):
    """A policy, and the form of its actions for critics."""

    variables: list[Any]
    """Trained variables in the order of creation."""
    action_size: int
    """Size of an action as an input of critics, beside an observation."""
    critic_outputs: int | None
    """Number of actions that critics value at once; None if an action is their input."""

    def predictions(self, seen: Tensor, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Predictions of PREDICT from inputs [B, I] and the mask of legal actions by name, if there is one."""

    def exploration(self) -> Exploration:
        """Draws from this policy."""

    def batch(self, action: Tensor) -> dict[str, Tensor]:
        """``action`` in the critics' form, from the environment's [B, ...], and the noise that expectations need."""

    def expectations(
        self, seen: Tensor, values: Values, noise: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Expectations of values and of the log-probability over the policy's actions, float32 [B] each.

        Args:
            seen: float32 [B, I].
            values: values of actions, float32 [B], or of all actions, [B, A].
            noise: from :meth:`batch`; None if that made none.
            mask: float32 [B, A], 1 for legal actions; None if all are legal.
        """

    def action_values(self, values: Values, action: Tensor) -> list[Tensor]:
        """Each critic's values [B] of actions from :meth:`batch`."""

    def target_entropy(self, mask: Tensor | None) -> Tensor | float:
        """Default target entropy in nats: a number, or float32 [B] if it depends on the mask."""


class SquashedPolicy:
    """A Gaussian squashed into the bounds of a Box.

    Source: Haarnoja et al. 2018a, https://arxiv.org/abs/1801.01290, appendix C.

    Args:
        actions: actions of the policy.
        inputs: size of the network's input.
        params: parameters of the layers.
    """

    critic_outputs: int | None = None
    _heads: ClassVar[tuple[str, ...]] = ("mean", "log_std")

    def __init__(self, actions: SquashedBox, inputs: int, params: DenseParams) -> None:
        self._actions, self.action_size = actions, actions.num_outputs
        self._network = Network("actor", [inputs], dict.fromkeys(self._heads, self.action_size), params)
        self.variables = self._network.variables

    def predictions(self, seen: Tensor, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``action`` (the squashed mean), and ``mean`` and ``log_std`` before squashing, float32 [B, ...]."""
        mean, log_std = self._actions.gaussian(self.distribution_parameters(seen))  # [B, A]
        shaped = self._actions.shaped({"mean": mean, "log_std": log_std})
        return {"action": self._actions.to_environment(tf.tanh(mean)), **shaped}

    def exploration(self) -> Exploration:
        """Draws from this policy."""
        return self._actions.exploration(log_prob=False)

    def batch(self, action: Tensor) -> dict[str, Tensor]:
        """``action`` in -1 .. 1, and standard normal ``noise`` and ``next_noise``, float32 [B, A] each."""
        action = self._actions.from_environment(action)
        return {"action": action, "noise": noise.normal(action.shape), "next_noise": noise.normal(action.shape)}

    def expectations(
        self, seen: Tensor, values: Values, noise: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Value and log-probability of one action, both differentiable in the policy."""
        action, log_prob = self._actions.sample(self.distribution_parameters(seen), noise)
        return values(action), log_prob

    def distribution_parameters(self, seen: Tensor, *, training: bool = False) -> dict[str, Tensor]:
        """``mean`` and ``log_std`` before squashing, [B, A]; ``training`` as for :class:`Network`."""
        return self._network(seen, training=training)

    def action_values(self, values: Values, action: Tensor) -> list[Tensor]:
        """The values of actions [B, A]."""
        found: list[Tensor] = values(action)
        return found

    def target_entropy(self, mask: Tensor | None) -> float:
        """Minus the number of components. Source: Haarnoja et al. 2018b, https://arxiv.org/abs/1812.05905, table 1."""
        return -float(self.action_size)


class StateDependentPolicy(SquashedPolicy):
    """A squashed Gaussian that explores by gSDE: its standard deviation depends on the features of the mean.

    Source: Raffin, Kober and Stulp 2021, https://arxiv.org/abs/2005.05719, section 3.

    Args:
        actions: actions of the policy.
        inputs: size of the network's input.
        params: parameters of the layers.
        sde: parameters of exploration.
    """

    _heads: ClassVar[tuple[str, ...]] = ("mean",)

    def __init__(self, actions: SquashedBox, inputs: int, params: DenseParams, sde: StateDependentParams) -> None:
        super().__init__(actions, inputs, params)
        self._resample_every = sde.sde_resample_every
        with keras.name_scope("actor"):
            self._log_std = make_log_std(self._network.body.output_shape[-1], self.action_size, sde.sde_log_std)
        self.variables = [*self.variables, self._log_std]

    def predictions(self, seen: Tensor, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``action`` (the squashed mean), ``mean`` before squashing [B, ...], and ``scaled_features`` [B, W, A]."""
        features = self._network.hidden(seen)
        mean = self._network.heads(features)["mean"]
        return {
            "action": self._actions.to_environment(tf.tanh(mean)),
            **self._actions.shaped({"mean": mean}),
            "scaled_features": scaled_features(features, self._log_std.value),
        }

    def exploration(self) -> Exploration:
        """Noise that is a function of the state."""
        return explorations.StateDependent(self._actions.space, self._resample_every, squashed=True)

    def distribution_parameters(self, seen: Tensor, *, training: bool = False) -> dict[str, Tensor]:
        """Mean and log standard deviation before squashing, marginal over all noise functions."""
        features = self._network.hidden(seen, training=training)
        return {**self._network.heads(features), "log_std": marginal_log_std(features, self._log_std.value)}


class SoftmaxPolicy:
    """A categorical policy over Discrete actions.

    Source: Christodoulou 2019, https://arxiv.org/abs/1910.07207.

    Args:
        actions: actions of the policy.
        inputs: size of the network's input.
        params: parameters of the layers.
    """

    action_size = 0

    def __init__(self, actions: Discrete, inputs: int, params: DenseParams) -> None:
        self._actions = actions
        self.critic_outputs: int | None = actions.num_outputs
        self._network = Network("actor", [inputs], {"logits": actions.num_outputs}, params)
        self.variables = self._network.variables

    def predictions(self, seen: Tensor, masks: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``action`` int32 [B] (the likeliest), ``logits`` float32 [B, A], and the mask."""
        outputs = {**self._network(seen), **masks}
        return {"action": self._actions.likeliest(outputs), **outputs}

    def exploration(self) -> Exploration:
        """Draws from this policy."""
        return self._actions.exploration()

    def batch(self, action: Tensor) -> dict[str, Tensor]:
        """``action`` one-hot, float32 [B, A]; there is no noise."""
        return {"action": tf.one_hot(self._actions.from_environment(action), self._actions.num_outputs)}

    def expectations(
        self, seen: Tensor, values: Values, noise: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Sums over all actions (the paper's equations 10 and 12)."""
        policy = Categorical(self._network(seen)["logits"], None if mask is None else mask > 0.5)
        return policy.expectation(values(None)), -policy.entropy()

    def action_values(self, values: Values, action: Tensor) -> list[Tensor]:
        """The values of one-hot actions [B, A]."""
        return [tf.reduce_sum(q_values * action, axis=-1) for q_values in values(None)]

    def target_entropy(self, mask: Tensor | None) -> Tensor | float:
        """A share of the entropy of a uniform policy over the legal actions."""
        if mask is None:
            return ENTROPY_SHARE * math.log(self._actions.num_outputs)
        return ENTROPY_SHARE * tf.math.log(tf.maximum(tf.reduce_sum(mask, axis=-1), 1.0))


def soft_policy(space: Any, inputs: int, params: DenseParams, algorithm: str) -> SoftPolicy:
    """Make the policy for an action space.

    Args:
        space: an action space.
        inputs: size of the network's input.
        params: parameters of the layers; with gSDE also of exploration.
        algorithm: for error messages.

    Raises:
        ArgumentError: there is no policy for the space.
    """
    sde = params if isinstance(params, StateDependentParams) and params.state_dependent_exploration else None
    match space:
        case spaces.Discrete() if sde is not None:
            message = f"state_dependent_exploration is for a Box of floats as action space, got {space!r}"
            raise ArgumentError(message, "state_dependent_exploration", True)
        case spaces.Discrete():
            return SoftmaxPolicy(Discrete(space, algorithm), inputs, params)
        case spaces.Box() if sde is not None:
            return StateDependentPolicy(SquashedBox(space, algorithm), inputs, params, sde)
        case spaces.Box():
            return SquashedPolicy(SquashedBox(space, algorithm), inputs, params)
    message = (
        f"{algorithm} needs a bounded Box of floats or a Discrete space as action space, got {space!r}; DQN takes"
        " MultiDiscrete, PPO these and more"
    )
    raise ArgumentError(message, "action_space", space)
