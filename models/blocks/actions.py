"""Kinds of action spaces: how many outputs a policy needs, their distribution, and the environment's units.

Shapes in comments: B is the batch, D the components of a continuous action, K the choices of a MultiDiscrete one.
Inside, actions are int32 [B] from 0, int32 [B, K] from 0 or float32 [B, D]; the environment's have the space's shape
and begin at its ``start``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from ... import explorations
from ...contracts import Exploration
from ...errors import ArgumentError
from ...explorations.squashed import is_bounded_box
from ...schedules import Linear, ScheduleLike
from . import squashed
from .distributions import Categorical, Distribution, Gaussian, MultiCategorical
from .params import Params, param, schedule

Tensor: TypeAlias = Any

LOG_STD_BOUNDS = (-20.0, 2.0)
"""Bounds of the log standard deviation of a squashed Gaussian, from the code of the authors of SAC."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class EpsilonParams(Params):
    """The parameter of epsilon-greedy exploration."""

    epsilon: ScheduleLike = param(
        Linear(1.0, 0.05, 10_000),
        "probability of a random action; follows `global_timestep`",
        schedule(at_least=0, at_most=1),
    )


class Discrete:
    """One of n actions.

    Args:
        space: a Discrete space.
        algorithm: for the error message.

    Raises:
        ArgumentError: another space.
    """

    def __init__(self, space: Any, algorithm: str) -> None:
        if not isinstance(space, spaces.Discrete):
            message = f"{algorithm} needs a Discrete action space, got {space!r}"
            raise ArgumentError(message, "action_space", space)
        self.space = space
        self.num_outputs = int(space.n)
        self._start = int(space.start)

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """From ``logits`` [B, n]."""
        return Categorical(outputs["logits"])

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.Categorical(self.space)

    def greedy(self, values: Tensor) -> Tensor:
        """The best action in the environment's units, int32 [B], from values [B, n]."""
        return self.to_environment(tf.argmax(values, axis=-1, output_type=tf.int32))

    def to_environment(self, action: Tensor) -> Tensor:
        """int32 [B]."""
        return action + self._start

    def from_environment(self, action: Tensor) -> Tensor:
        """int32 [B]."""
        return action - self._start

    def in_shape(self, values: Tensor) -> Tensor:
        """Logits have no shape of the space."""
        return values


class MultiDiscrete:
    """Several independent choices.

    Args:
        space: a MultiDiscrete space.
    """

    def __init__(self, space: spaces.MultiDiscrete) -> None:
        self.space = space
        self._sizes = [int(n) for n in space.nvec.flat]
        self._start = space.start.astype(np.int32).reshape(-1)  # [K]
        self.num_outputs = sum(self._sizes)

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """From ``logits`` [B, sum of n], side by side."""
        return MultiCategorical(outputs["logits"], self._sizes)

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.MultiCategorical(self.space)

    def to_environment(self, action: Tensor) -> Tensor:
        """int32 [B, ...] from int32 [B, K]."""
        return _unflattened(action + self._start, self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """int32 [B, K] from int32 [B, ...]."""
        return flat(action) - self._start

    def in_shape(self, values: Tensor) -> Tensor:
        """Logits have no shape of the space."""
        return values


class Box:
    """Continuous actions, in the environment's units.

    Args:
        space: a Box of floats.
    """

    def __init__(self, space: spaces.Box) -> None:
        self.space = space
        self.num_outputs = math.prod(space.shape)

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """From ``mean`` and ``log_std`` [B, D]."""
        return Gaussian(outputs["mean"], outputs["log_std"])

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.Gaussian(self.space)

    def to_environment(self, action: Tensor) -> Tensor:
        """float32 [B, ...] from float32 [B, D]."""
        return _unflattened(action, self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """float32 [B, D] from float32 [B, ...]."""
        return flat(action)

    def in_shape(self, values: Tensor) -> Tensor:
        """What describes the distribution, [B, D], in the shape of the space's actions, [B, ...]."""
        return _unflattened(values, self.space)


class SquashedBox:
    """Continuous actions in bounds: -1 .. 1 inside, ``low .. high`` in the environment.

    Args:
        space: a Box of floats with finite bounds.
        algorithm: for the error message.

    Raises:
        ArgumentError: another space.
    """

    def __init__(self, space: Any, algorithm: str) -> None:
        if not isinstance(space, spaces.Box) or not is_bounded_box(space):
            raise ArgumentError(
                f"{algorithm} needs a bounded Box of floats as action space, got {space!r}; DQN and PPO take Discrete",
                "action_space",
                space,
            )
        self.space = space
        self.num_outputs = math.prod(space.shape)
        self._bounds = (space.low.astype(np.float32).ravel(), space.high.astype(np.float32).ravel())  # [D] each

    def gaussian(self, outputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and clipped log standard deviation before squashing, from ``mean`` and ``log_std`` [B, D]."""
        return outputs["mean"], tf.clip_by_value(outputs["log_std"], *LOG_STD_BOUNDS)

    def sample(self, outputs: Mapping[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in -1 .. 1 [B, D] and their log-probabilities [B], from standard normal noise [B, D]."""
        return squashed.sample(*self.gaussian(outputs), noise)

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.SquashedGaussian(self.space)

    def to_environment(self, action: Tensor) -> Tensor:
        """float32 [B, ...] from float32 [B, D]."""
        return _unflattened(squashed.to_units(action, *self._bounds), self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """float32 [B, D] from float32 [B, ...]."""
        return squashed.from_units(flat(tf.cast(action, tf.float32)), *self._bounds)

    def in_shape(self, values: Tensor) -> Tensor:
        """What describes the distribution, [B, D], in the shape of the space's actions, [B, ...]."""
        return _unflattened(values, self.space)


Actions: TypeAlias = Discrete | MultiDiscrete | Box
"""What policies with a distribution over actions can act in."""


def actions_of(space: Any, algorithm: str) -> Actions:
    """The kind of a space.

    Raises:
        ArgumentError: there is no policy for it.
    """
    match space:
        case spaces.Discrete():
            return Discrete(space, algorithm)
        case spaces.MultiDiscrete():
            return MultiDiscrete(space)
        case spaces.Box() if np.issubdtype(space.dtype, np.floating):
            return Box(space)
    message = f"the action space of {algorithm} must be Discrete, MultiDiscrete or a Box of floats, got {space!r}"
    raise ArgumentError(message, "action_space", space)


def flat(values: Tensor) -> Tensor:
    """[B, ...] as [B, D]."""
    return values if values.shape.rank == 2 else tf.reshape(values, [-1, math.prod(values.shape[1:])])


def _unflattened(values: Tensor, space: Any) -> Tensor:
    """[B, D] in the shape of the space's actions, [B, ...]."""
    return values if len(space.shape) == 1 else tf.reshape(values, [-1, *space.shape])
