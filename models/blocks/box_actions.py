"""Continuous actions: network outputs of a policy, their distribution, and conversion to the environment's units.

See :mod:`.actions` for the other kinds. Shapes in comments: B is the batch, D the components of an action, W
the features of the last hidden layer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ... import explorations
from ...core.errors import ArgumentError
from ...core.protocols import Exploration
from ...core.tensorflow_import import tf
from ...explorations.squashed import is_bounded_box
from . import squashed, state_dependent
from .distributions import Distribution, Gaussian, SquashedGaussian

Tensor: TypeAlias = Any

LOG_STD_BOUNDS = (-20.0, 2.0)
"""Bounds of the log standard deviation of a squashed Gaussian, from the code of the authors of SAC."""


class Box:
    """Continuous actions, in the environment's units.

    Args:
        space: a Box of floats.
    """

    def __init__(self, space: spaces.Box) -> None:
        self.space = space
        self.num_outputs = self.num_scales = math.prod(space.shape)

    def distribution_parameters(self, outputs: Tensor, log_std: Tensor) -> dict[str, Tensor]:
        """``mean`` [B, D], the outputs, and ``log_std`` [B, D], a variable [D] that does not depend on observations."""
        return {"mean": outputs, "log_std": log_std + tf.zeros_like(outputs)}

    def shaped(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Outputs in the shape of the space's actions, [B, ...]."""
        return {name: unflatten(values, self.space) for name, values in outputs.items()}

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """Distribution from ``mean`` and ``log_std`` [B, D]."""
        return Gaussian(outputs["mean"], outputs["log_std"])

    def likeliest(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """The mean, float32 [B, ...]."""
        return self.to_environment(outputs["mean"])

    def exploration(self) -> Exploration:
        """Draws from this distribution."""
        return explorations.Gaussian(self.space)

    def to_environment(self, action: Tensor) -> Tensor:
        """float32 [B, ...] from float32 [B, D]."""
        return unflatten(action, self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """float32 [B, D] from float32 [B, ...]."""
        return flat(action)


class StateDependentBox(Box):
    """Continuous actions whose noise is a random function of the state (gSDE), in the environment's units.

    Args:
        space: a Box of floats.
        algorithm: for the error message.
        resample_every: timesteps after which the noise function is redrawn; None: once per episode.

    Raises:
        ArgumentError: the space is of another kind.
    """

    def __init__(self, space: Any, algorithm: str, resample_every: int | None) -> None:
        if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating):
            raise ArgumentError(
                f"{algorithm} needs a Box of floats as action space, got {space!r}", "action_space", space
            )
        super().__init__(space)
        self._resample_every = resample_every

    def distribution_parameters(
        self, outputs: Tensor, log_std: Tensor, features: Tensor | None = None
    ) -> dict[str, Tensor]:
        """``mean`` and ``log_std`` [B, D], marginal over all noise functions, and ``scaled_features`` [B, W, D].

        No gradient flows from the noise to the features, which are trained through the mean alone.

        Args:
            outputs: [B, D].
            log_std: [W, D], for each feature and component.
            features: inputs of the layer that made the outputs, [B, W].
        """
        features = tf.stop_gradient(features)
        scaled = state_dependent.scaled_features(features, log_std)
        return {
            "mean": outputs,
            "log_std": state_dependent.marginal_log_std(features, log_std),
            "scaled_features": scaled,
        }

    def shaped(self, outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """``mean`` in the shape of the space's actions, [B, ...], and ``scaled_features``."""
        mean = unflatten(outputs["mean"], self.space)
        return {"mean": mean, "scaled_features": outputs["scaled_features"]}

    def exploration(self) -> Exploration:
        """Draws from this distribution, with one noise function for many timesteps."""
        return explorations.StateDependent(self.space, self._resample_every)


class SquashedBox(Box):
    """Continuous actions in bounds: -1 .. 1 internally, ``low .. high`` in the environment.

    ``mean`` and ``log_std`` are those before squashing.

    Args:
        space: a Box of floats with finite bounds.
        algorithm: for the error message.

    Raises:
        ArgumentError: the space is of another kind.
    """

    def __init__(self, space: Any, algorithm: str) -> None:
        if not isinstance(space, spaces.Box) or not is_bounded_box(space):
            raise ArgumentError(
                f"{algorithm} needs a bounded Box of floats as action space, got {space!r}; DQN and PPO take Discrete",
                "action_space",
                space,
            )
        super().__init__(space)
        self._bounds = (space.low.astype(np.float32).ravel(), space.high.astype(np.float32).ravel())  # [D] each

    def distribution(self, outputs: Mapping[str, Tensor]) -> Distribution:
        """Distribution from ``mean`` and ``log_std`` [B, D]."""
        return SquashedGaussian(outputs["mean"], outputs["log_std"], squashed.log_scale(*self._bounds))

    def likeliest(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """The squashed mean in the environment's units, float32 [B, ...]."""
        return self.to_environment(tf.tanh(outputs["mean"]))

    def gaussian(self, outputs: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Mean and clipped log standard deviation, from ``mean`` and ``log_std`` [B, D]."""
        return outputs["mean"], tf.clip_by_value(outputs["log_std"], *LOG_STD_BOUNDS)

    def sample(self, outputs: Mapping[str, Tensor], noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in -1 .. 1 [B, D] and their log-probabilities [B], from standard normal noise [B, D]."""
        return squashed.sample(*self.gaussian(outputs), noise)

    def exploration(self, *, log_prob: bool = True) -> Exploration:
        """Draws from this distribution; with log-probabilities unless the algorithm does not need them."""
        return explorations.SquashedGaussian(self.space, log_prob)

    def to_environment(self, action: Tensor) -> Tensor:
        """float32 [B, ...] from float32 [B, D]."""
        return unflatten(squashed.to_units(action, *self._bounds), self.space)

    def from_environment(self, action: Tensor) -> Tensor:
        """float32 [B, D] from float32 [B, ...]."""
        return squashed.from_units(flat(tf.cast(action, tf.float32)), *self._bounds)


def flat(values: Tensor) -> Tensor:
    """Flatten [B, ...] to [B, D]."""
    return values if values.shape.rank == 2 else tf.reshape(values, [-1, math.prod(values.shape[1:])])


def unflatten(values: Tensor, space: Any) -> Tensor:
    """Reshape [B, D] to the shape of the space's actions, [B, ...]."""
    return values if len(space.shape) == 1 else tf.reshape(values, [-1, *space.shape])
