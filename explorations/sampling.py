"""Stochastic policies: they draw actions from a predicted distribution and return log-probabilities.

The distribution is learned, so there is no schedule or level. ``EstimatorSpec.record`` may store ``log_prob``, which
on-policy algorithms compare with that of the updated policy. The same distributions as tensors are in
``axonrl.models.blocks.distributions``. Calls raise an ArgumentError if a prediction is missing or has the wrong shape,
and a NonFiniteError if it has NaN or infinity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from ..checks import all_finite, shortened
from ..contracts import Array
from ..errors import ArgumentError, NonFiniteError
from .policies import is_discrete, is_float_box, unsuitable

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Categorical:
    """Draws one of n actions with the probabilities softmax(logits).

    Reads ``predictions["logits"]``, float [N, n]. Invalid actions have a large negative logit (-1e9), not an infinite
    one.

    Args:
        action_space: a Discrete space.
    """

    def __init__(self, action_space: Any) -> None:
        if not is_discrete(action_space):
            raise unsuitable("Categorical", "a Discrete action space", action_space)
        self._start = int(action_space.start)
        self._shape = (int(action_space.n),)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N], and ``log_prob`` float32 [N]."""
        index, log_prob = _drawn(_logits("Categorical", predictions, self._shape), rng)
        return (index + self._start).astype(np.int32), {"log_prob": log_prob.astype(np.float32)}


class MultiCategorical:
    """Draws several independent choices, each like :class:`Categorical`.

    Reads ``predictions["logits"]``, float [N, sum(nvec)]: the logits of all choices, concatenated in the order of
    ``nvec.flat``.

    Args:
        action_space: a MultiDiscrete space.
    """

    def __init__(self, action_space: Any) -> None:
        if not (hasattr(action_space, "nvec") and hasattr(action_space, "start")):
            raise unsuitable("MultiCategorical", "a MultiDiscrete action space", action_space)
        sizes = np.asarray(action_space.nvec, np.int64)
        self._start = np.asarray(action_space.start, np.int64)
        self._shape = (int(sizes.sum()),)
        self._widest = int(sizes.max())
        # Indices of valid choices in a flat [D, widest].
        self._places = np.flatnonzero(np.arange(self._widest) < sizes.reshape(-1, 1))
        self._padded = sizes.size * self._widest

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N, *nvec.shape], and ``log_prob`` float32 [N], the sum over the choices."""
        logits = _logits("MultiCategorical", predictions, self._shape)
        count = len(logits)
        padded = np.full((count, self._padded), -np.inf)  # probability 0: never drawn
        padded[:, self._places] = logits
        index, log_prob = _drawn(padded.reshape(-1, self._widest), rng)  # [N * D]
        actions = index.reshape(count, *self._start.shape) + self._start
        return actions.astype(np.int32), {"log_prob": log_prob.reshape(count, -1).sum(1).astype(np.float32)}


class Gaussian:
    """Draws each component of the action from an independent normal distribution. Not clipped.

    Reads ``predictions["mean"]`` and ``predictions["log_std"]``, float [N, ...], in the environment's units.

    Args:
        action_space: a Box of floats.
    """

    def __init__(self, action_space: Any) -> None:
        if not is_float_box(action_space):
            raise unsuitable("Gaussian", "a Box of floats as action space", action_space)
        self._shape = tuple(action_space.low.shape)
        self._axes = tuple(range(1, len(self._shape) + 1))
        self._constant = np.float32(_HALF_LOG_2PI * math.prod(self._shape))

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...], and ``log_prob`` float32 [N], the sum over the components.

        Raises:
            NonFiniteError: also if exp(log_std) is 0 or infinite in float32.
        """
        mean = _predicted("Gaussian", predictions, "mean", self._shape).astype(np.float32, copy=False)
        log_std = _predicted("Gaussian", predictions, "log_std", self._shape).astype(np.float32, copy=False)
        with np.errstate(all="ignore"):  # anything not finite makes the log-probability not finite
            std = np.exp(log_std)
            actions = mean + std * rng.standard_normal(mean.shape, np.float32)
            noise = (actions - mean) / std  # of the rounded action, which is what learning sees
            log_prob = -(0.5 * noise * noise + log_std).sum(self._axes) - self._constant
        if not all_finite(log_prob):
            _refuse(mean, log_std)
        return actions, {"log_prob": log_prob}


def _drawn(logits: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Indices [R], drawn from the softmax of each row by inverting its cumulative sum, and their log-probabilities.

    The sums stay unnormalised. A number u below 1 leaves u * total below total in floating point too, so every draw
    finds an index; the comparison is strict, so none finds one of probability 0.

    Args:
        logits: float64 [R, A]; -inf for probability 0.
        rng: what to draw from.
    """
    shifted = logits - logits.max(1, keepdims=True)  # [R, A], at most 0: exp cannot overflow
    sums = np.exp(shifted).cumsum(1)
    total = sums[:, -1]
    drawn = rng.random(len(total)) * total
    index: Array = (sums > drawn[:, None]).argmax(1)
    return index, shifted[np.arange(len(index)), index] - np.log(total)


def _logits(policy: str, predictions: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
    """In float64, where the difference of any two float32 numbers is finite."""
    logits = _predicted(policy, predictions, "logits", shape).astype(np.float64)
    if not all_finite(logits):
        raise NonFiniteError(f"{policy}: {_not_finite('logits', logits)}")
    return logits


def _predicted(policy: str, predictions: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """A required prediction, [N, *shape]."""
    if name not in predictions:
        message = f"{policy} needs predictions[{name!r}]; the model predicts {', '.join(predictions)}"
        raise ArgumentError(message, f"predictions[{name!r}]")
    array = predictions[name]
    if array.shape[1:] != shape:
        expected = ", ".join(["N", *map(str, shape)])
        message = f"{policy} needs predictions[{name!r}] of shape [{expected}], got {list(array.shape)}"
        raise ArgumentError(message, f"predictions[{name!r}]", array)
    return array


def _refuse(mean: Array, log_std: Array) -> NoReturn:
    for name, array in (("mean", mean), ("log_std", log_std)):
        if not all_finite(array):
            raise NonFiniteError(f"Gaussian: {_not_finite(name, array)}")
    raise NonFiniteError(
        "Gaussian: exp(predictions['log_std']) is 0 or infinite in float32, or takes predictions['mean'] there:"
        f" log_std is in {log_std.min():g} .. {log_std.max():g}, mean in {mean.min():g} .. {mean.max():g}"
    )


def _not_finite(name: str, array: Array) -> str:
    return f"predictions[{name!r}] has NaN or infinity: {shortened(array.tolist())}"
