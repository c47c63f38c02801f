"""Behaviour policies: they turn a model's predictions into the actions that are taken. NumPy, on the host.

Each follows the ``Exploration`` protocol of ``contracts.py`` and works for any number of environments N. None of them
clips: what the policy chose is what the memory stores, and only what reaches ``env.step`` is clipped, by the Agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..contracts import Array
from ..schedules import ScheduleLike, make_schedule

NO_EXTRAS: Mapping[str, Array] = MappingProxyType({})


class Greedy:
    """The model's own action, always."""

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """``predictions["action"]``, [N, ...], unchanged."""
        return predictions["action"], NO_EXTRAS

    def level(self, timestep: int) -> float:
        """It never explores: 0."""
        return 0.0


class EpsilonGreedy:
    """With probability epsilon a uniformly random action, else the greedy one; each environment by itself.

    A random action may be the greedy one, so the greedy action is taken with probability
    ``1 - epsilon + epsilon / n``.

    Args:
        epsilon: probability in 0 .. 1: a number, or a schedule on ``global_timestep``.
        action_space: a Discrete space.

    Raises:
        ValueError: epsilon leaves 0 .. 1, or the space is not Discrete.
    """

    def __init__(self, epsilon: ScheduleLike, action_space: Any) -> None:
        self._epsilon = make_schedule(epsilon, "epsilon", at_least=0, at_most=1)
        if not is_discrete(action_space):
            raise ValueError(f"EpsilonGreedy needs a Discrete action space, got {action_space!r}")
        self._low = int(action_space.start)
        self._high = self._low + int(action_space.n)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N]."""
        greedy = predictions["action"].astype(np.int32, copy=False)
        epsilon = self._epsilon(timestep)
        if len(greedy) == 1:  # the usual case, at a third of the time that array operations take
            if rng.random() >= epsilon:
                return greedy, NO_EXTRAS
            return np.array([rng.integers(self._low, self._high, None, np.int32)]), NO_EXTRAS
        explores = rng.random(greedy.shape) < epsilon
        return np.where(explores, rng.integers(self._low, self._high, greedy.shape, np.int32), greedy), NO_EXTRAS

    def level(self, timestep: int) -> float:
        """Epsilon."""
        return float(self._epsilon(timestep))


class Random:
    """Uniformly random actions, whatever the model says.

    Args:
        action_space: a Discrete space, or a bounded Box of floats.

    Raises:
        ValueError: the space is another one, or has no bounds to draw between.
    """

    def __init__(self, action_space: Any) -> None:
        self._discrete = is_discrete(action_space)
        self._low: Any
        self._high: Any
        if self._discrete:
            self._low = int(action_space.start)
            self._high = self._low + int(action_space.n)
        elif is_float_box(action_space):
            with np.errstate(over="ignore", invalid="ignore"):
                width = action_space.high.astype(np.float64) - action_space.low.astype(np.float64)
            if not np.isfinite(width).all():
                raise ValueError(f"Random needs a Box with finite bounds, got {action_space!r}")
            self._low, self._high = action_space.low, action_space.high
        else:
            raise ValueError(f"Random needs a Discrete action space or a Box of floats, got {action_space!r}")

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N], or float32 [N, ...]; ``predictions["action"]`` tells N."""
        count = len(predictions["action"])
        if self._discrete:
            return rng.integers(self._low, self._high, count, np.int32), NO_EXTRAS
        drawn = rng.uniform(self._low, self._high, (count, *self._low.shape))
        return drawn.astype(np.float32), NO_EXTRAS

    def level(self, timestep: int) -> float:
        """It always explores: 1."""
        return 1.0


class Constant:
    """The same action, always: for baselines and for tests.

    Args:
        action: one environment's action: an integer (Discrete), or an array of floats (Box).
    """

    def __init__(self, action: Any) -> None:
        value = np.asarray(action)
        if value.dtype.kind not in "iuf":
            raise ValueError(f"Constant needs an action made of numbers, got {action!r}")
        self._action = value.astype(np.float32 if value.dtype.kind == "f" else np.int32)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 or float32 [N, ...]; ``predictions["action"]`` tells N."""
        return np.full((len(predictions["action"]), *self._action.shape), self._action), NO_EXTRAS


class GaussianNoise:
    """The greedy action plus independent Gaussian noise in each component. Not clipped.

    Source: the behaviour policy of TD3 (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477, algorithm 1).

    Args:
        sigma: standard deviation in the environment's units, at least 0: a number, or a schedule on
            ``global_timestep``.
        action_space: a Box of floats.

    Raises:
        ValueError: sigma may become negative, or the space is not a Box of floats.
    """

    def __init__(self, sigma: ScheduleLike, action_space: Any) -> None:
        self._sigma = make_schedule(sigma, "sigma", at_least=0)
        if not is_float_box(action_space):
            raise ValueError(f"GaussianNoise needs a Box of floats as action space, got {action_space!r}")

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...]."""
        greedy = predictions["action"].astype(np.float32, copy=False)
        noise = rng.standard_normal(greedy.shape, np.float32)
        return greedy + np.float32(self._sigma(timestep)) * noise, NO_EXTRAS

    def level(self, timestep: int) -> float:
        """Sigma."""
        return float(self._sigma(timestep))


def is_discrete(space: Any) -> bool:
    """Is it a Discrete space? Told by its attributes, so that Gymnasium need not be imported to act."""
    return hasattr(space, "n") and hasattr(space, "start")


def is_float_box(space: Any) -> bool:
    """Is it a Box of floats?"""
    return hasattr(space, "low") and hasattr(space, "high") and np.dtype(space.dtype).kind == "f"
