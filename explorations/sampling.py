"""Stochastic policies: draw actions from a predicted distribution and return log-probabilities.

Except for :class:`Boltzmann` the distribution is learned, so there is no schedule or level. ``EstimatorSpec.record``
can store ``log_prob``, which on-policy algorithms compare with that of the updated policy.
``axonrl.models.blocks.distributions`` has the same distributions for tensors. Calls raise an ArgumentError if a
prediction is missing or has the wrong shape, and a NonFiniteError if it has NaN or infinity.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

import numpy as np

from ..core.checks import all_finite, shortened
from ..core.errors import ArgumentError, NonFiniteError
from ..core.protocols import ACTION_MASK, NO_LEGAL_ACTION, Array
from ..core.schedules import ScheduleLike
from .policies import (
    NO_EXTRAS,
    Scheduled,
    is_discrete,
    is_float_box,
    is_multi_binary,
    is_multi_discrete,
    mask_of,
    unsuitable,
)

HALF_LOG_2PI: Final = 0.5 * math.log(2 * math.pi)


class Boltzmann(Scheduled):
    """Draws one of n actions, or each of several choices, with the probabilities softmax(values / temperature).

    Reads ``predictions["q_values"]``, float [N, n], and ``predictions["action_mask"]``, bool [N, n], if the model
    predicts it: illegal actions have probability 0. For a MultiDiscrete space both concatenate all choices, as for
    :class:`MultiCategorical`.

    Source: Sutton and Barto 2018, http://incompleteideas.net/book/the-book-2nd.html, section 2.8 and exercise 2.9.

    Args:
        temperature: in units of the values, at least 0: a number, or a schedule on ``global_timestep`` or over the run.
            At 0 the action is greedy.
        action_space: a Discrete or a MultiDiscrete space.
    """

    def __init__(self, temperature: ScheduleLike, action_space: Any) -> None:
        super().__init__(temperature, "temperature")
        self.temperature = self._schedule
        if not is_discrete(action_space) and not is_multi_discrete(action_space):
            raise unsuitable("Boltzmann", "a Discrete or a MultiDiscrete action space", action_space)
        self._choices = _Choices(action_space)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N]; [N, *nvec.shape] for a MultiDiscrete space."""
        temperature = self.level(timestep)
        if temperature == 0:
            return predictions["action"].astype(np.int32, copy=False), NO_EXTRAS
        values, empty = self._choices.rows("Boltzmann", "q_values", predictions)
        values -= values.max(1, keepdims=True)
        with np.errstate(over="ignore"):  # a difference too large for the temperature has probability 0
            values /= temperature
        index, _ = _draw_index(values, rng)
        return self._choices.actions(index, empty), NO_EXTRAS


class Categorical:
    """Draws one of n actions with the probabilities softmax(logits).

    Reads ``predictions["logits"]``, float [N, n], and ``predictions["action_mask"]``, bool [N, n], if the model
    predicts it: illegal actions have probability 0. Without a mask, a large negative logit (-1e9) has the same effect;
    an infinite one is an error.

    Args:
        action_space: a Discrete space.
    """

    needs: ClassVar = ("logits",)

    def __init__(self, action_space: Any) -> None:
        if not is_discrete(action_space):
            raise unsuitable("Categorical", "a Discrete action space", action_space)
        self._start = int(action_space.start)
        self._shape = (int(action_space.n),)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N], and ``log_prob`` float32 [N]."""
        logits, empty = _legal(_finite("Categorical", predictions, "logits", self._shape), predictions)
        index, log_prob = _draw_index(logits, rng)
        return _actions(index + self._start, empty), {"log_prob": log_prob.astype(np.float32)}

    def log_prob_of(self, predictions: Mapping[str, Array], action: Array) -> Array:
        """Log-probability float32 [N] of given actions int [N]; -inf for illegal ones."""
        logits, _ = _legal(_finite("Categorical", predictions, "logits", self._shape), predictions)
        shifted = logits - logits.max(1, keepdims=True)
        taken = shifted[np.arange(len(action)), action - self._start]
        found: Array = (taken - np.log(np.exp(shifted).sum(1))).astype(np.float32)
        return found


class MultiCategorical:
    """Draws several independent choices, each like :class:`Categorical`.

    Reads ``predictions["logits"]``, float [N, sum(nvec)]: the logits of all choices, concatenated in the order of
    ``nvec.flat``; and ``predictions["action_mask"]``, bool [N, sum(nvec)], if the model predicts it.

    Args:
        action_space: a MultiDiscrete space.
    """

    needs: ClassVar = ("logits",)

    def __init__(self, action_space: Any) -> None:
        if not is_multi_discrete(action_space):
            raise unsuitable("MultiCategorical", "a MultiDiscrete action space", action_space)
        self._choices = _Choices(action_space)

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int32 [N, *nvec.shape], and ``log_prob`` float32 [N], the sum over the choices."""
        rows, empty = self._choices.rows("MultiCategorical", "logits", predictions)
        index, log_prob = _draw_index(rows, rng)
        actions = self._choices.actions(index, empty)
        return actions, {"log_prob": log_prob.reshape(len(actions), -1).sum(1).astype(np.float32)}

    def log_prob_of(self, predictions: Mapping[str, Array], action: Array) -> Array:
        """Log-probability float32 [N] of given actions int [N, *nvec.shape]; -inf for illegal ones."""
        rows, _ = self._choices.rows("MultiCategorical", "logits", predictions)
        shifted = rows - rows.max(1, keepdims=True)
        taken = shifted[np.arange(len(rows)), self._choices.indices(action)]
        each = (taken - np.log(np.exp(shifted).sum(1))).reshape(len(action), -1)
        found: Array = each.sum(1).astype(np.float32)
        return found


class Bernoulli:
    """Draws independent bits, each 1 with the probability sigmoid(logit).

    Reads ``predictions["logits"]``, float [N, ...].

    Args:
        action_space: a MultiBinary space.
    """

    needs: ClassVar = ("logits",)

    def __init__(self, action_space: Any) -> None:
        if not is_multi_binary(action_space):
            raise unsuitable("Bernoulli", "a MultiBinary action space", action_space)
        self._shape = tuple(action_space.shape)
        self._axes = tuple(range(1, len(self._shape) + 1))

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions int8 [N, ...], and ``log_prob`` float32 [N], the sum over the bits."""
        logits = _finite("Bernoulli", predictions, "logits", self._shape)
        # A logistic number is above -z with the probability sigmoid(z); log(1 - u) is finite, as u is below 1.
        uniform = rng.random(logits.shape)
        with np.errstate(divide="ignore"):  # log 0: the bit is 0
            actions = np.log(uniform) - np.log1p(-uniform) > -logits
        return actions.astype(np.int8), {"log_prob": self._log_prob(logits, actions)}

    def log_prob_of(self, predictions: Mapping[str, Array], action: Array) -> Array:
        """Log-probability float32 [N] of given bits [N, ...]."""
        return self._log_prob(_finite("Bernoulli", predictions, "logits", self._shape), action > 0)

    def _log_prob(self, logits: Array, bits: Array) -> Array:
        found: Array = -np.logaddexp(0, np.where(bits, -logits, logits)).sum(self._axes)
        return found.astype(np.float32)


class Gaussian:
    """Draws each component of the action from an independent normal distribution. Not clipped.

    Reads ``predictions["mean"]`` and ``predictions["log_std"]``, float [N, ...], in the environment's units.

    Args:
        action_space: a Box of floats.
    """

    needs: ClassVar = ("mean", "log_std")

    def __init__(self, action_space: Any) -> None:
        if not is_float_box(action_space):
            raise unsuitable("Gaussian", "a Box of floats as action space", action_space)
        self._shape = tuple(action_space.low.shape)
        self._axes = tuple(range(1, len(self._shape) + 1))
        self._constant = np.float32(HALF_LOG_2PI * math.prod(self._shape))

    def __call__(
        self, predictions: Mapping[str, Array], timestep: int, rng: np.random.Generator
    ) -> tuple[Array, Mapping[str, Array]]:
        """Actions float32 [N, ...], and ``log_prob`` float32 [N], the sum over the components.

        Raises:
            NonFiniteError: also if exp(log_std) is 0 or infinite in float32.
        """
        mean = _required_prediction("Gaussian", predictions, "mean", self._shape).astype(np.float32, copy=False)
        log_std = _required_prediction("Gaussian", predictions, "log_std", self._shape).astype(np.float32, copy=False)
        with np.errstate(all="ignore"):  # anything not finite makes the log-probability not finite
            std = np.exp(log_std)
            actions = mean + std * rng.standard_normal(mean.shape, np.float32)
            noise = (actions - mean) / std  # of the rounded action, which learning sees
            log_prob = -(0.5 * noise * noise + log_std).sum(self._axes) - self._constant
        if not all_finite(log_prob):
            refuse_gaussian("Gaussian", mean, log_std)
        return actions, {"log_prob": log_prob}

    def log_prob_of(self, predictions: Mapping[str, Array], action: Array) -> Array:
        """Log-density float32 [N] of given actions float [N, ...]."""
        mean = _required_prediction("Gaussian", predictions, "mean", self._shape).astype(np.float32, copy=False)
        log_std = _required_prediction("Gaussian", predictions, "log_std", self._shape).astype(np.float32, copy=False)
        with np.errstate(all="ignore"):
            noise = (action - mean) / np.exp(log_std)
            found: Array = -(0.5 * noise * noise + log_std).sum(self._axes) - self._constant
        if not all_finite(found):
            refuse_gaussian("Gaussian", mean, log_std)
        return found


class _Choices:
    """The D choices of a space: concatenated in predictions, [N, sum of n], and one per row here, [N * D, widest].

    Args:
        space: a Discrete or a MultiDiscrete space; D is 1 or the number of its choices.
    """

    def __init__(self, space: Any) -> None:
        sizes = np.asarray(space.n if is_discrete(space) else space.nvec, np.int64)
        self._start = np.asarray(space.start, np.int64)
        self._shape = (int(sizes.sum()),)
        self._widest = int(sizes.max())
        # Indices of valid choices in a flat [D, widest].
        self._places = np.flatnonzero(np.arange(self._widest) < sizes.reshape(-1, 1))
        self._padded = sizes.size * self._widest

    def rows(self, policy: str, name: str, predictions: Mapping[str, Array]) -> tuple[Array, Array | None]:
        """Rows float64, -inf for illegal actions and padding; mask [N * D] of rows without a legal action, or None."""
        values, masked = _finite(policy, predictions, name, self._shape), ACTION_MASK in predictions
        if masked:
            values[~mask_of(predictions, values.shape)] = -np.inf
        padded = np.full((len(values), self._padded), -np.inf)  # probability 0: never drawn
        padded[:, self._places] = values
        rows = padded.reshape(-1, self._widest)
        return rows, _fill_empty_rows(rows) if masked else None

    def indices(self, action: Array) -> Array:
        """Indices int64 [N * D] in the rows of given actions int [N, ...]: the inverse of :meth:`actions`."""
        found: Array = (np.asarray(action, np.int64) - self._start).reshape(-1)
        return found

    def actions(self, index: Array, empty: Array | None) -> Array:
        """Actions int32 [N, ...] in the environment's units; ``empty`` masks rows without a legal action."""
        actions = index.reshape(-1, *self._start.shape) + self._start
        return _actions(actions, None if empty is None else empty.reshape(actions.shape))


def drawn_index(logits: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Draw an index [R] from each row's softmax by inverting its cumulative sum.

    The sums are not normalised. For u below 1, u * total is below total in floating point too, so every draw finds an
    index; the comparison is strict, so this index never has probability 0.

    Args:
        logits: float64 [R, A]; -inf for probability 0.
        rng: the source of randomness.

    Returns:
        The index, the logits minus the highest of their row, and the sums [R] of their exponentials.
    """
    shifted = logits - logits.max(1, keepdims=True)  # [R, A], at most 0: exp cannot overflow
    sums = np.exp(shifted).cumsum(1)
    total = sums[:, -1]
    drawn = rng.random(len(total)) * total
    return (sums > drawn[:, None]).argmax(1), shifted, total


def _draw_index(logits: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw an index [R] from each row's softmax; also return log-probabilities [R]."""
    index, shifted, total = drawn_index(logits, rng)
    return index, shifted[np.arange(len(index)), index] - np.log(total)


def _finite(policy: str, predictions: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
    """A finite prediction as float64, in which the difference of any two float32 numbers is finite."""
    values = _required_prediction(policy, predictions, name, shape).astype(np.float64)
    if not all_finite(values):
        raise NonFiniteError(f"{policy}: {not_finite(name, values)}")
    return values


def _legal(values: Array, predictions: Mapping[str, Array]) -> tuple[Array, Array | None]:
    """Values [N, A], -inf for illegal actions, and a mask of rows without a legal one; None if all have one."""
    if ACTION_MASK not in predictions:
        return values, None
    values[~mask_of(predictions, values.shape)] = -np.inf
    return values, _fill_empty_rows(values)


def _fill_empty_rows(rows: Array) -> Array | None:
    """Make rows [R, A] that are all -inf drawable, and return a mask of them, bool [R]; None if there are none."""
    empty: Array = rows.max(1) == -np.inf
    if not empty.any():
        return None
    rows[empty] = 0.0
    return empty


def _actions(actions: Array, empty: Array | None) -> Array:
    """Actions int32, with ``NO_LEGAL_ACTION`` where ``empty``."""
    return (actions if empty is None else np.where(empty, NO_LEGAL_ACTION, actions)).astype(np.int32)


def _required_prediction(policy: str, predictions: Mapping[str, Array], name: str, shape: tuple[int, ...]) -> Array:
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


def refuse_gaussian(policy: str, mean: Array, log_std: Array) -> NoReturn:
    """Raise the NonFiniteError for predictions whose log-probabilities are not finite."""
    for name, array in (("mean", mean), ("log_std", log_std)):
        if not all_finite(array):
            raise NonFiniteError(f"{policy}: {not_finite(name, array)}")
    raise NonFiniteError(
        f"{policy}: exp(predictions['log_std']) is 0 or infinite in float32, or takes predictions['mean'] there:"
        f" log_std is in {log_std.min():g} .. {log_std.max():g}, mean in {mean.min():g} .. {mean.max():g}"
    )


def not_finite(name: str, array: Array) -> str:
    """The message about a prediction with NaN or infinity."""
    return f"predictions[{name!r}] has NaN or infinity: {shortened(array.tolist())}"
