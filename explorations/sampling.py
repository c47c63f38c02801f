"""Stochastic policies: they draw actions from the distribution that a model predicts, and say how likely these were.

What they draw from is learnt, so there is nothing to schedule and they have no level. The log-probability is there to
be recorded (``EstimatorSpec.record``): on-policy algorithms compare it with that of the policy that they have become.
The same distributions as tensors, for learning, are in ``axonrl.models.blocks.distributions``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from ..checks import all_finite, shortened
from ..contracts import Array
from ..errors import NonFiniteError
from .policies import is_discrete, is_float_box

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Categorical:
    """Draws one of n actions with the probabilities softmax(logits).

    Reads ``predictions["logits"]``, float [N, n]. An action that must not be taken has a large negative logit (-1e9),
    not an infinite one.

    Args:
        action_space: a Discrete space.

    Raises:
        ValueError: the space is another one.
    """

    def __init__(self, action_space: Any) -> None:
        if not is_discrete(action_space):
            raise ValueError(f"Categorical needs a Discrete action space, got {action_space!r}")
        self._start = int(action_space.start)
        self._shape = (int(action_space.n),)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N], and ``log_prob`` float32 [N].

        Raises:
            ValueError: ``predictions["logits"]`` is missing, or of another shape.
            NonFiniteError: it has NaN or infinity.
        """
        index, log_prob = _drawn(_logits("Categorical", predictions, self._shape), rng)
        return (index + self._start).astype(np.int32), {"log_prob": log_prob.astype(np.float32)}


class MultiCategorical:
    """Draws several independent choices, each as :class:`Categorical` does.

    Reads ``predictions["logits"]``, float [N, sum(nvec)]: those of the choices side by side, in the order of
    ``nvec.flat``.

    Args:
        action_space: a MultiDiscrete space.

    Raises:
        ValueError: the space is another one.
    """

    def __init__(self, action_space: Any) -> None:
        if not (hasattr(action_space, "nvec") and hasattr(action_space, "start")):
            raise ValueError(f"MultiCategorical needs a MultiDiscrete action space, got {action_space!r}")
        sizes = np.asarray(action_space.nvec, np.int64)
        self._start = np.asarray(action_space.start, np.int64)
        self._shape = (int(sizes.sum()),)
        self._widest = int(sizes.max())
        # Choices [D, widest], flat: the places that there are.
        self._places = np.flatnonzero(np.arange(self._widest) < sizes.reshape(-1, 1))
        self._padded = sizes.size * self._widest

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N, *nvec.shape], and ``log_prob`` float32 [N], the sum over the choices.

        Raises:
            ValueError: ``predictions["logits"]`` is missing, or of another shape.
            NonFiniteError: it has NaN or infinity.
        """
        logits = _logits("MultiCategorical", predictions, self._shape)
        count = len(logits)
        padded = np.full((count, self._padded), -np.inf)  # probability 0, which is never drawn
        padded[:, self._places] = logits
        index, log_prob = _drawn(padded.reshape(-1, self._widest), rng)  # [N * D]
        actions = index.reshape(count, *self._start.shape) + self._start
        return actions.astype(np.int32), {"log_prob": log_prob.reshape(count, -1).sum(1).astype(np.float32)}


class Gaussian:
    """Draws each component of the action from a normal distribution of its own. Not clipped.

    Reads ``predictions["mean"]`` and ``predictions["log_std"]``, float [N, ...], in the environment's units.

    Args:
        action_space: a Box of floats.

    Raises:
        ValueError: the space is another one.
    """

    def __init__(self, action_space: Any) -> None:
        if not is_float_box(action_space):
            raise ValueError(f"Gaussian needs a Box of floats as action space, got {action_space!r}")
        self._shape = tuple(action_space.low.shape)
        self._axes = tuple(range(1, len(self._shape) + 1))
        self._constant = np.float32(_HALF_LOG_2PI * math.prod(self._shape))

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...], and ``log_prob`` float32 [N], the sum over the components.

        Raises:
            ValueError: a prediction is missing, or of another shape.
            NonFiniteError: a prediction has NaN or infinity, or exp(log_std) is 0 or infinite in float32.
        """
        mean = _predicted("Gaussian", predictions, "mean", self._shape).astype(np.float32, copy=False)
        log_std = _predicted("Gaussian", predictions, "log_std", self._shape).astype(np.float32, copy=False)
        with np.errstate(all="ignore"):  # whatever is not finite makes the log-probability so
            std = np.exp(log_std)
            actions = mean + std * rng.standard_normal(mean.shape, np.float32)
            noise = (actions - mean) / std  # of the action as it was rounded: learning sees no other
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
    """In float64, in which the difference of any two float32 numbers is finite."""
    logits = _predicted(policy, predictions, "logits", shape).astype(np.float64)
    if not all_finite(logits):
        raise NonFiniteError(f"{policy}: {_not_finite('logits', logits)}")
    return logits


def _predicted(policy: str, predictions: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """The prediction that a policy needs, [N, *shape]."""
    if name not in predictions:
        raise ValueError(f"{policy} needs predictions[{name!r}]; the model predicts {', '.join(predictions)}")
    array = predictions[name]
    if array.shape[1:] != shape:
        expected = ", ".join(["N", *map(str, shape)])
        raise ValueError(f"{policy} needs predictions[{name!r}] of shape [{expected}], got {list(array.shape)}")
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
