"""Behaviour policy of generalised state-dependent exploration: noise as a function of the state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np

from ..core.checks import all_finite, count, flag
from ..core.errors import ArgumentError, NonFiniteError
from ..core.protocols import Array, State
from .policies import is_float_box, unsuitable
from .sampling import HALF_LOG_2PI
from .squashed import is_bounded_box, log_slope, middle_and_half

SMALL: Final = 1e-6
"""Added to the variance of the noise, so that its logarithm is finite where all features are 0."""


class StateDependent:
    """The mean plus noise that remains the same function of the state for many timesteps, so that actions are smooth.

    The noise in component d is ``sum_w scaled[w, d] * matrix[w, d]``: features of the state, each scaled by a learned
    standard deviation, times a matrix of standard normal numbers. Each environment has its own matrix, drawn at the
    beginning of every episode. Over all matrices the noise is normal, with variance ``sum_w scaled[w, d] ** 2``; the
    log-probability is that of this distribution.

    Reads ``predictions["mean"]``, float [N, ...], and ``predictions["scaled_features"]``, float [N, W, D], for W
    features and the D components of an action.

    Source: Raffin, Kober and Stulp 2021, https://arxiv.org/abs/2005.05719, section 3.

    Args:
        action_space: a Box of floats.
        resample_every: timesteps after which a matrix is redrawn within an episode; None: never.
        squashed: the action is ``low + (tanh(u) + 1) / 2 * (high - low)``, where u is mean plus noise, as for
            :class:`SquashedGaussian`; needs finite bounds. Otherwise mean and noise are in the environment's units.
    """

    needs: ClassVar = ("mean", "scaled_features")

    def __init__(self, action_space: Any, resample_every: int | None = None, squashed: bool = False) -> None:
        if not is_float_box(action_space):
            raise unsuitable("StateDependent", "a Box of floats as action space", action_space)
        self.squashed = flag("squashed", squashed)
        if squashed and not is_bounded_box(action_space):
            raise unsuitable("StateDependent(squashed=True)", "a bounded Box of floats as action space", action_space)
        self.resample_every = None if resample_every is None else count("resample_every", resample_every)
        self._shape = tuple(np.shape(action_space.low))
        if squashed:
            self._middle, self._half = middle_and_half(action_space)
        self._matrices: Array = np.zeros((0, 0, 0), np.float32)  # [N, W, D]
        self._ages: Array = np.zeros(0, np.int64)  # timesteps of the episode so far [N]

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...], and ``log_prob`` float32 [N], the sum over the components.

        For squashed actions this is the density of the action in -1 .. 1.

        Raises:
            ArgumentError: a prediction is missing, or has the wrong shape.
            NonFiniteError: the log-probability is NaN or infinite.
        """
        mean, scaled = self._required_predictions(predictions)
        if len(self._ages) != len(mean):
            self.reset(np.ones(len(mean), np.bool_))
        return self._act(mean, scaled, rng, slice(None))

    def act_for(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator, lanes: Array
    ) -> tuple[Array, Mapping[str, Array]]:
        """Act in some of the environments: row k belongs to ``lanes[k]``. Call ``reset`` before."""
        return self._act(*self._required_predictions(predictions), rng, lanes)

    def reset(self, mask: Array) -> None:
        """Begin episodes where ``mask`` [N] is true; a new matrix is drawn there when needed."""
        if len(mask) != len(self._ages):
            self._ages = np.zeros(len(mask), np.int64)
            self._matrices = np.zeros((len(mask), *self._matrices.shape[1:]), np.float32)
        self._ages[mask] = 0

    def state_dict(self) -> State:
        """The matrix of each environment, and the timesteps of its episode."""
        return {"matrices": self._matrices.copy(), "ages": self._ages.copy()}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""
        self._matrices = np.array(state["matrices"], np.float32)
        self._ages = np.array(state["ages"], np.int64)

    def _act(
        self, mean: Array, scaled: Array, rng: np.random.Generator, lanes: Any
    ) -> tuple[Array, Mapping[str, Array]]:
        with np.errstate(all="ignore"):  # anything not finite makes the log-probability not finite
            u = mean + np.einsum("nwd,nwd->nd", scaled, self._current(scaled.shape[1:], rng, lanes)).reshape(mean.shape)
            noise = (u - mean).reshape(len(mean), -1)  # of the rounded action, which learning sees
            variance = np.square(scaled).sum(1) + np.float32(SMALL)
            each = -0.5 * (noise * noise / variance + np.log(variance)) - HALF_LOG_2PI
            if self.squashed:
                each -= log_slope(u.reshape(noise.shape))
            log_prob = each.sum(1)
        if not all_finite(log_prob):
            raise NonFiniteError(
                "StateDependent: the log-probability is NaN or infinite; predictions['mean'] is in"
                f" {mean.min():g} .. {mean.max():g}, predictions['scaled_features'] in {scaled.min():g} .."
                f" {scaled.max():g}"
            )
        return (self._middle + np.tanh(u) * self._half if self.squashed else u), {"log_prob": log_prob}

    def _current(self, shape: tuple[int, ...], rng: np.random.Generator, lanes: Any) -> Array:
        """The matrices [n, W, D] of these environments at their current timestep; counts the timestep."""
        if self._matrices.shape[1:] != shape:
            self._matrices = np.zeros((len(self._ages), *shape), np.float32)
            self._ages[:] = 0
        ages: Array = self._ages[lanes]
        matrices: Array = self._matrices[lanes]
        due = (ages if self.resample_every is None else ages % self.resample_every) == 0
        if due.any():
            matrices[due] = rng.standard_normal((int(due.sum()), *shape), np.float32)
            self._matrices[lanes] = matrices
        self._ages[lanes] = ages + 1
        return matrices

    def _required_predictions(self, predictions: Mapping[str, Array]) -> tuple[Array, Array]:
        """Mean [N, ...] and scaled features [N, W, D]."""
        for name in self.needs:
            if name not in predictions:
                message = f"StateDependent needs predictions[{name!r}]; the model predicts {', '.join(predictions)}"
                raise ArgumentError(message, f"predictions[{name!r}]")
        mean, scaled = predictions["mean"], predictions["scaled_features"]
        size = math.prod(self._shape)
        if mean.shape[1:] != self._shape or scaled.ndim != 3 or scaled.shape[::2] != (len(mean), size):
            expected = f"{['N', *self._shape]} and {['N', 'W', size]}".replace("'", "")
            raise ArgumentError(
                "StateDependent needs predictions['mean'] and predictions['scaled_features'] of shapes"
                f" {expected}, got {list(mean.shape)} and {list(scaled.shape)}",
                "predictions['scaled_features']",
                scaled,
            )
        return mean.astype(np.float32, copy=False), scaled.astype(np.float32, copy=False)
