"""Policies with a state per environment: drifting noise, and individual levels of exploration.

Each has one row of state for each environment. If the number of environments differs from that of the previous call,
all of them start over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.checks import flag, number, plain
from ..core.errors import ArgumentError
from ..core.protocols import Array, State
from ..core.schedules import ScheduleLike
from .policies import NO_EXTRAS, EpsilonGreedy, Scheduled, noise_unit


class OrnsteinUhlenbeck(Scheduled):
    """The greedy action plus noise x that is correlated over time: ``x += theta * (mu - x) + sigma * normal``.

    The noise is independent in each component and environment; x begins every episode at mu, and in the long run has
    the standard deviation ``sigma / sqrt(theta * (2 - theta))``. Actions are not clipped.

    Source: Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971, section 3 and the supplement, whose theta is the
    default here; the process is discretised in steps of one timestep.

    Args:
        sigma: standard deviation of a step in the environment's units, at least 0: a number, or a schedule on
            ``global_timestep`` or over the run.
        action_space: a Box of floats.
        theta: the share of its distance to mu by which x reverts in each timestep, above 0 and at most 1; with 1 the
            noise is independent, as in :class:`GaussianNoise`.
        mu: the value to which x reverts, in the environment's units.
        relative: whether sigma and mu are in units of half the range of each component, ``(high - low) / 2``; needs a
            bounded Box.
    """

    def __init__(
        self, sigma: ScheduleLike, action_space: Any, theta: float = 0.15, mu: float = 0.0, relative: bool = False
    ) -> None:
        super().__init__(sigma, "sigma")
        self.sigma, self.relative = self._schedule, flag("relative", relative)
        self._unit = noise_unit("OrnsteinUhlenbeck", action_space, relative)
        self.theta = number("theta", theta, above=0, at_most=1)
        self.mu = number("mu", mu)
        self._noise: Array = np.zeros((0, *np.shape(action_space.low)), np.float32)  # [N, ...]

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...]."""
        greedy = predictions["action"].astype(np.float32, copy=False)
        if len(self._noise) != len(greedy):
            self.reset(np.ones(len(greedy), np.bool_))
        self._noise = self._next_noise(self._noise, timestep, rng)
        return greedy + self._unit * self._noise, NO_EXTRAS

    def act_for(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator, lanes: Array
    ) -> tuple[Array, Mapping[str, Array]]:
        """Act in some of the environments: row k belongs to ``lanes[k]``. Call ``reset`` before."""
        noise = self._next_noise(self._noise[lanes], timestep, rng)
        self._noise[lanes] = noise
        return predictions["action"].astype(np.float32, copy=False) + self._unit * noise, NO_EXTRAS

    def reset(self, mask: Array) -> None:
        """Begin episodes where ``mask`` [N] is true: the noise is mu there."""
        if len(mask) != len(self._noise):
            self._noise = np.full((len(mask), *self._noise.shape[1:]), self.mu, np.float32)
        self._noise[mask] = self.mu

    def state_dict(self) -> State:
        """The noise of each environment."""
        return {"noise": self._noise.copy()}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""
        self._noise = np.array(state["noise"], np.float32)

    def _next_noise(self, noise: Array, timestep: int, rng: np.random.Generator) -> Array:
        drawn = rng.standard_normal(noise.shape, np.float32)
        return noise + self.theta * (self.mu - noise) + self.level(timestep) * drawn


class RandomDecay(EpsilonGreedy):
    """Epsilon-greedy, where each environment's epsilon decays to its own final value, drawn at random.

    The action is random with the probability ``end + (1 - end) * epsilon(t)``, where ``end`` is the environment's final
    value and ``epsilon`` the schedule. With a linear schedule from 1 to 0 this is the exploration of asynchronous
    Q-learning, a line from 1 to ``end``.

    Source: Mnih et al. 2016, https://arxiv.org/abs/1602.01783, section 5.1, whose final values and their probabilities
    (0.4, 0.3 and 0.3) are the default.

    Args:
        epsilon: the part that decays, in 0 .. 1, as for :class:`EpsilonGreedy`: usually a schedule from 1 to 0.
        action_space: as for :class:`EpsilonGreedy`.
        ends: final values of epsilon, in 0 .. 1. Each environment draws one of them uniformly, and keeps it.
    """

    def __init__(
        self,
        epsilon: ScheduleLike,
        action_space: Any,
        ends: Sequence[float] = (0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.5, 0.5, 0.5),
    ) -> None:
        super().__init__(epsilon, action_space)
        ends = plain(ends)
        if not isinstance(ends, list | tuple) or not ends:
            raise ArgumentError(f"ends must be a list of probabilities, got {ends!r}", "ends", ends)
        self.ends = tuple(number("ends", end, at_least=0, at_most=1) for end in ends)
        self._own: Array = np.zeros(0)  # the final value of each environment [N]; NaN where it is not drawn yet
        self._complete = True  # whether all final values are drawn
        self._acting: Any = slice(None)  # the environments that a call is for

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions; see :class:`EpsilonGreedy`."""
        if len(self._own) != len(predictions["action"]):
            self.reset(np.ones(len(predictions["action"]), np.bool_))
        return super().__call__(predictions, timestep, rng)

    def act_for(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator, lanes: Array
    ) -> tuple[Array, Mapping[str, Array]]:
        """Act in some of the environments: row k belongs to ``lanes[k]``. Call ``reset`` before."""
        self._acting = lanes
        try:
            return super().__call__(predictions, timestep, rng)
        finally:
            self._acting = slice(None)

    def reset(self, mask: Array) -> None:
        """Set the number of environments; an environment keeps its final value in the next episode."""
        if len(mask) != len(self._own):
            self._own, self._complete = np.full(len(mask), np.nan), False

    def level(self, timestep: int) -> float:
        """Mean epsilon over the environments; the schedule's before the first action."""
        epsilon = super().level(timestep)
        drawn = self._own[~np.isnan(self._own)]
        return float(np.mean(drawn + (1 - drawn) * epsilon)) if len(drawn) else epsilon

    def state_dict(self) -> State:
        """The environments' final values."""
        return {"ends": self._own.copy()}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""
        self._own = np.array(state["ends"], np.float64)
        self._complete = not np.isnan(self._own).any()

    def _epsilon(self, timestep: int, rng: np.random.Generator) -> Any:
        own: Array = self._own[self._acting]
        if not self._complete:
            drawn = np.take(self.ends, rng.integers(len(self.ends), size=len(own)))
            self._own[self._acting] = own = np.where(np.isnan(own), drawn, own)
            self._complete = not np.isnan(self._own).any()
        return own + (1 - own) * super()._epsilon(timestep, rng)
