"""Policy and value networks, and what they put out for each kind of action space: what on-policy algorithms share."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from ... import explorations
from ...checks import choice, number
from ...contracts import Exploration, RunConfig
from . import networks
from .distributions import Categorical, Distribution, Gaussian, MultiCategorical
from .params import layer_sizes

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True)
class NetworkParams:
    """The parameters of the networks, which every on-policy algorithm has.

    Args:
        network: "mlp", or "nature_cnn" for frames [height, width, channels].
        hidden: sizes of the dense layers; ``None`` for the network's own: (64, 64) for mlp, (512,) for nature_cnn.
        activation: of every hidden layer, by Keras' name.
        initializer: of every kernel, by Keras' name.
        shared: one network for policy and value, with two heads, instead of two.
        log_std: initial logarithm of the standard deviation of continuous actions, in the environment's units.

    Raises:
        ValueError: a value is of the wrong type or out of range; names it.
    """

    network: str = "mlp"
    hidden: tuple[int, ...] | None = None
    activation: str = "tanh"
    initializer: str = "orthogonal"
    shared: bool = False
    log_std: float = 0.0

    def __post_init__(self) -> None:
        choice("network", self.network, networks.DEFAULT_UNITS)
        choice("activation", self.activation, networks.ACTIVATIONS)
        choice("initializer", self.initializer, networks.INITIALIZERS)
        if self.hidden is not None:
            object.__setattr__(self, "hidden", layer_sizes("hidden", self.hidden))
        if not isinstance(self.shared, bool):
            raise ValueError(f"shared must be true or false, got {self.shared!r}")
        number("log_std", self.log_std, at_least=-20, at_most=20)


class ActorCritic:
    """Policy and value; its variables are created at once.

    Args:
        params: which networks.
        config: whose spaces they are for.

    Raises:
        ValueError: the network does not fit the observations, or the actions are of a kind that no policy knows.
    """

    def __init__(self, params: NetworkParams, config: RunConfig) -> None:
        self._observation_space, self._action_space = config.observation_space, config.action_space
        shape = networks.encoded_shape(self._observation_space)
        scale = math.sqrt(2) if params.initializer == "orthogonal" else 1.0  # Engstrom et al. 2020, section 3
        kinds = (params.activation, params.initializer, scale)
        make_body = functools.partial(networks.make_network, params.network, shape, params.hidden, *kinds)
        self._log_std: Any = None
        with keras.name_scope("policy"):
            self._policy = make_body()
            width = self._policy.output_shape[-1]
            # A policy that begins nearly uniform: Andrychowicz et al. 2020, section 3.2.
            self._head = networks.linear(width, num_outputs(self._action_space), "head", params.initializer, 0.01)
            if isinstance(self._action_space, spaces.Box):
                size = math.prod(self._action_space.shape)
                self._log_std = keras.Variable(np.full(size, params.log_std, np.float32), name="log_std")
        with keras.name_scope("value"):
            self._value = self._policy if params.shared else make_body()
            self._value_head = networks.linear(width, 1, "head", params.initializer)

    @property
    def variables(self) -> list[Any]:
        """What is trained."""
        parts = [self._policy, self._head, *([] if self._value is self._policy else [self._value]), self._value_head]
        found = [variable for part in parts for variable in part.trainable_variables]
        return found if self._log_std is None else [*found, self._log_std]

    def __call__(self, observation: Any) -> tuple[dict[str, Tensor], Tensor]:
        """What describes the distribution over actions, by name (each [B, ...]), and the value, float32 [B]."""
        encoded = networks.encode(observation, self._observation_space)
        hidden = self._policy(encoded)
        outputs = self._head(hidden)
        value = self._value_head(hidden if self._value is self._policy else self._value(encoded))[:, 0]
        if self._log_std is None:
            return {"logits": outputs}, value
        log_std = self._log_std + tf.zeros_like(outputs)
        return {"mean": outputs, "log_std": log_std}, value

    def value(self, observation: Any) -> Tensor:
        """The value alone, float32 [B]."""
        encoded = networks.encode(observation, self._observation_space)
        return self._value_head(self._value(encoded))[:, 0]


def num_outputs(space: Any) -> int:
    """How many numbers a policy network puts out for the actions of a space.

    Raises:
        ValueError: no policy knows such actions.
    """
    match space:
        case spaces.Discrete():
            return int(space.n)
        case spaces.MultiDiscrete():
            return int(space.nvec.sum())
        case spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return math.prod(space.shape)
    raise ValueError(f"PPO and A2C need Discrete, MultiDiscrete or float Box actions, got {space!r}")


def distribution(outputs: Mapping[str, Tensor], space: Any) -> Distribution:
    """The distribution over actions that a network's outputs describe."""
    if isinstance(space, spaces.Discrete):
        return Categorical(outputs["logits"])
    if isinstance(space, spaces.MultiDiscrete):
        return MultiCategorical(outputs["logits"], [int(n) for n in space.nvec.flat])
    return Gaussian(outputs["mean"], outputs["log_std"])


def exploration_for(space: Any) -> Exploration:
    """The behaviour policy that draws from this distribution."""
    if isinstance(space, spaces.Discrete):
        return explorations.Categorical(space)
    return (
        explorations.MultiCategorical(space)
        if isinstance(space, spaces.MultiDiscrete)
        else explorations.Gaussian(space)
    )


def to_environment(action: Tensor, space: Any) -> Tensor:
    """Actions as the environment has them."""
    if isinstance(space, spaces.Discrete):
        return action + int(space.start)
    if isinstance(space, spaces.MultiDiscrete):
        return like_actions(action + space.start.astype(np.int32).reshape(-1), space)
    return like_actions(action, space)


def from_environment(action: Tensor, space: Any) -> Tensor:
    """The reverse: int32 [B], int32 [B, K] or float32 [B, D]."""
    if isinstance(space, spaces.Discrete):
        return action - int(space.start)
    flat = tf.reshape(action, [action.shape[0], math.prod(action.shape[1:])])
    return flat - space.start.astype(np.int32).reshape(-1) if isinstance(space, spaces.MultiDiscrete) else flat


def like_actions(values: Tensor, space: Any) -> Tensor:
    """Rows [B, D] in the shape of the space's actions, [B, ...]."""
    return values if len(space.shape) == 1 else tf.reshape(values, [-1, *space.shape])
