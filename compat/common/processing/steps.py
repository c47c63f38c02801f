"""Stateless steps, which process each state on its own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.protocols import Array
from ....core.spread import varies
from ..refusals import refuse

FLOAT: Final = np.dtype(np.float32)
_UNBOUNDED: Final = 2**31
"""Ints with this many values or more count as unbounded."""
_MOST_CATEGORIES: Final = 10_000
_EPSILON: Final = 1e-6
"""Smallest variance that values are normalised with."""


@dataclasses.dataclass(frozen=True)
class Numbers:
    """Contents of one state array.

    Args:
        shape: shape without a batch axis.
        dtype: bool, an integer or a float dtype.
        low: the smallest value.
        high: the largest value.
        categories: number of values of an int, starting at ``low``; None without bounds, or if numbers have different
            bounds.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any] = FLOAT
    low: float = -math.inf
    high: float = math.inf
    categories: int | None = None

    def of_shape(self, *shape: int) -> Numbers:
        """A copy with another shape."""
        return dataclasses.replace(self, shape=shape)

    def with_range(self, dtype: np.dtype[Any], low: float, high: float) -> Numbers:
        """A copy with values from ``low`` to ``high``."""
        if dtype.kind == "b":
            return Numbers(self.shape, dtype, 0, 1)
        if dtype.kind == "f":
            return Numbers(self.shape, dtype, low, high)
        count = int(high) - int(low) + 1
        return Numbers(self.shape, dtype, int(low), int(high), count if count < _UNBOUNDED else None)


@dataclasses.dataclass(frozen=True)
class Step:
    """A step for one kind of array.

    Args:
        out: contents of its outputs.
        function: function of arrays [B, ...], which it neither changes nor keeps. A stateful step's function takes one
            row without a batch axis and the state (None at the start), and returns the result and the new state.
        memory: shapes of the state, by name.
        is_shared: is the state shared by all lanes and episodes, rather than one per lane and episode?
    """

    out: Numbers
    function: Callable[..., Any]
    memory: Mapping[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    is_shared: bool = False


def clip(where: str, value: Numbers, lower: float, upper: float) -> Step:
    """Clip values to two bounds. Integers stay integers if both bounds are integers; else they become floats."""
    dtype = value.dtype
    if dtype.kind in "iu" and float(lower).is_integer() and float(upper).is_integer():
        limits = np.iinfo(dtype)
        if limits.min <= upper and lower <= limits.max:
            lower, upper = max(int(lower), limits.min), min(int(upper), limits.max)
        else:
            dtype = FLOAT
    elif dtype.kind != "f":
        dtype = FLOAT
    low, high = (min(max(bound, lower), upper) for bound in (value.low, value.high))
    return Step(value.with_range(dtype, low, high), lambda x: np.clip(x.astype(dtype, copy=False), lower, upper))


def divide(where: str, value: Numbers, divisor: float) -> Step:
    """Values divided by ``divisor``, float32."""
    if divisor == 0:
        refuse(f"{where}['divisor']", "must not be 0", divisor)
    low, high = sorted(bound / divisor for bound in (value.low, value.high))
    return Step(value.with_range(FLOAT, low, high), lambda x: x.astype(FLOAT) / np.float32(divisor))


def multiply(where: str, value: Numbers, factor: float) -> Step:
    """Values times ``factor``, float32."""
    low, high = sorted(bound * factor if factor else 0.0 for bound in (value.low, value.high))
    return Step(value.with_range(FLOAT, low, high), lambda x: x.astype(FLOAT) * np.float32(factor))


def convert_type(where: str, value: Numbers, to_dtype: str) -> Step:
    """Cast to another dtype. Integers: rounded towards zero and clipped to the dtype's range. Bools: not equal to 0."""
    dtype, low, high = np.dtype(to_dtype), value.low, value.high
    if dtype == value.dtype:
        return Step(value, lambda x: x)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = (math.trunc(min(max(bound, limits.min), limits.max)) for bound in (low, high))
    return Step(value.with_range(dtype, low, high), lambda x: round_to(x, dtype, nearest=False))


def normalize(where: str, value: Numbers) -> Step:
    """(x - min) / (max - min + 1e-6), over each state as a whole, float32."""
    axes = tuple(range(1, len(value.shape) + 1))

    def function(x: Array) -> Array:
        x = x.astype(FLOAT)
        least, most = x.min(axes, keepdims=True), x.max(axes, keepdims=True)
        span = most - least
        squares = (np.square(one, dtype=np.float64) for one in (span, np.maximum(np.abs(least), np.abs(most))))
        y: Array = (x - least) / (span + np.float32(1e-6)) * varies(*squares)
        return y

    return Step(value.with_range(FLOAT, 0.0, 1.0), function)


def instance_normalization(where: str, value: Numbers, axes: Sequence[int] | None = None) -> Step:
    """Normalise by mean and standard deviation of the single value over ``axes`` (default: all)."""
    rank = len(value.shape)
    over = tuple(axis + 1 for axis in fitted_axes(f"{where}['axes']", axes, rank, rank))
    if not over:
        refuse(where, "needs an axis to normalise over: all values would be 0", axes)

    def function(x: Array) -> Array:
        x = x.astype(np.float64)
        return standardize(x, x.mean(over, keepdims=True), x.var(over, keepdims=True))

    return Step(Numbers(value.shape), function)


def reshape(
    where: str,
    value: Numbers,
    flatten: bool = False,
    flatten_categories: bool | int = True,
    new_shape: Sequence[int] | None = None,
) -> Step:
    """Reshape to ``new_shape``, in which one size may be -1, or to one axis with ``flatten``.

    ``flatten`` one-hot encodes ints with categories as float32 and concatenates them, except bytes, which are numbers
    as in images. ``flatten_categories=False`` turns this off; a number sets the number of categories.
    """
    if flatten == (new_shape is not None):
        given = f"flatten={flatten} and new_shape={new_shape}"
        refuse(where, f"takes flatten=True or new_shape, and one of them; got {given}", new_shape)
    if flatten and flatten_categories is not False:
        categories = _categories(f"{where}['flatten_categories']", value, flatten_categories)
        if categories is not None:
            return _one_hot(value, categories)
    size = math.prod(value.shape)
    shape = (size,) if new_shape is None else tuple(new_shape)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        shape = tuple(size // known if n == -1 and known else n for n in shape)
    if -1 in shape or math.prod(shape) != size:
        problem = f"must hold as many numbers as {list(value.shape)}, got {list(new_shape or ())}"
        refuse(f"{where}['new_shape']", problem, new_shape)
    return Step(value.of_shape(*shape), lambda x: x.reshape(len(x), *shape))


def _categories(place: str, value: Numbers, wanted: bool | int) -> int | None:
    """Number of categories of ints; None if they are numbers."""
    is_byte, given = value.dtype == np.uint8, None if wanted is True else wanted
    if value.dtype.kind not in "iu" or given is None:
        categories = None if is_byte else value.categories
        if categories is not None and categories > _MOST_CATEGORIES:
            problem = f"must be False for ints of {categories:,} categories: one-hot encoding takes at most"
            refuse(place, f"{problem} {_MOST_CATEGORIES:,}", wanted)
        return categories
    if value.categories is not None and not is_byte and given < value.categories:
        refuse(place, f"must be at least {value.categories}, the number of values", given)
    return given


def _one_hot(value: Numbers, categories: int) -> Step:
    every = np.arange(categories) + (0 if value.categories is None else int(value.low))
    out = Numbers((math.prod(value.shape) * categories,), FLOAT, 0.0, 1.0)
    return Step(out, lambda x: (x[..., None] == every).astype(FLOAT).reshape(len(x), -1))


def transpose(where: str, value: Numbers) -> Step:
    """The first two axes of a state swapped: the height and the width of an image."""
    if len(value.shape) < 2:
        refuse(where, f"needs a state with two axes or more, got one of shape {list(value.shape)}", value)
    first, second, *others = value.shape
    return Step(value.of_shape(second, first, *others), lambda x: x.swapaxes(1, 2))


def activation(where: str, value: Numbers, nonlinearity: str) -> Step:
    """A function of each number, or of the last axis (``crelu``, ``softmax``)."""
    shape = value.shape
    if nonlinearity in ("crelu", "softmax") and not shape:
        refuse(where, f"needs an axis for {nonlinearity}, and gets a number", value)
    if nonlinearity == "crelu":
        shape = (*shape[:-1], 2 * shape[-1])
    return Step(Numbers(shape), ACTIVATIONS[nonlinearity])


def _relu(x: Array) -> Array:
    y: Array = np.maximum(x, np.float32(0))
    return y


def _sigmoid(x: Array) -> Array:
    y: Array = np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1))  # does not overflow
    return y


def _elu(x: Array, alpha: float = 1.0) -> Array:
    y: Array = np.where(x > 0, x, np.float32(alpha) * np.expm1(np.minimum(x, np.float32(0))))
    return y


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    y: Array = powers / powers.sum(-1, keepdims=True)
    return y


ACTIVATIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "crelu": lambda x: np.concatenate((_relu(x), _relu(-x)), -1),
    "elu": _elu,
    "leaky-relu": lambda x: np.maximum(x, np.float32(0.2) * x),
    "none": lambda x: x,
    "relu": _relu,
    "selu": lambda x: np.float32(1.0507009873554805) * _elu(x, 1.6732632423543772),  # Klambauer et al. 2017, section 2
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "softplus": lambda x: np.logaddexp(np.float32(0), x),
    "softsign": lambda x: x / (np.float32(1) + np.abs(x)),
    "swish": lambda x: x * _sigmoid(x),
    "tanh": np.tanh,
}
"""Activations of float32 arrays by name. ``crelu`` doubles the last axis; it and ``softmax`` need one."""


def round_to(values: Array, dtype: np.dtype[Any], *, nearest: bool) -> Array:
    """Cast to another dtype: to the nearest integer (halves to even) or towards zero, clipped to the dtype's range.

    As bools, all numbers but zero are True.
    """
    if dtype.kind in "bf":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    exact = np.clip(values.astype(np.float64), limits.min, limits.max)
    return (np.rint(exact) if nearest else exact).astype(dtype)


def standardize(x: Array, mean: Array, variance: Array) -> Array:
    """Values minus their mean in standard deviations, float32; 0 where they vary by rounding errors only."""
    y = (x - mean) / np.sqrt(np.maximum(variance, _EPSILON)) * varies(variance, mean * mean)
    return np.asarray(y, FLOAT)


def fitted_axis(place: str, value: int, rank: int) -> int:
    """The axis counted from the start, in 0 .. ``rank - 1``."""
    if not -rank <= value < rank:
        refuse(place, f"must be an axis of {rank}, in {-rank} .. {rank - 1}; got {value}", value)
    return value % rank


def fitted_axes(place: str, value: Sequence[int] | None, rank: int, default: int) -> tuple[int, ...]:
    """The axes, sorted; the first ``default`` of them for None."""
    if value is None:
        return tuple(range(default))
    axes = {fitted_axis(place, one, rank) for one in value}
    if len(axes) < len(value):
        refuse(place, f"names an axis twice: {list(value)}", value)
    return tuple(sorted(axes))
