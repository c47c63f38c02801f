"""What spaces of numbers share: shapes, dtypes and bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import integer, refuse
from .space import Rank, Size, Space, leading

LARGEST: Final = float(np.finfo(np.float32).max)
"""Numbers beyond are infinite as float32; bounds from here on are none."""


class BoxSpace(Space):
    """Values of one shape and dtype.

    Attributes:
        low, high: the bounds, an array of shape () if all numbers have the same, else one of the space's shape.
    """

    low: Array
    high: Array
    _shape: tuple[int, ...]
    _dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Without batch and time."""
        return self._shape

    def get_shape(
        self,
        with_batch_rank: Rank = False,
        with_time_rank: Rank = False,
        time_major: bool | None = None,
        with_category_rank: bool = False,
    ) -> tuple[Any, ...]:
        """See :meth:`Space.get_shape`."""
        asked = ((with_batch_rank, self.has_batch_rank), (with_time_rank, self.has_time_rank))
        ranks = [(None if wanted is True else wanted,) if wanted is not False and has else () for wanted, has in asked]
        if self.time_major if time_major is None else time_major:
            ranks.reverse()
        categories = getattr(self, "num_categories", None)
        return (*ranks[0], *ranks[1], *self._shape, *([categories] if with_category_rank and categories else []))

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, int32, uint8 or bool."""
        return self._dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def flat_dim(self) -> int:
        """How many numbers a value has."""
        return math.prod(self._shape)

    @property
    def bounds(self) -> tuple[Array, Array]:
        """``(low, high)``."""
        return self.low, self.high

    @property
    def unbounded(self) -> bool:
        """Have the numbers no bounds at all?"""
        return False

    def sample(self, size: Size = None, horizontal: bool = False, *, rng: np.random.Generator | None = None) -> Any:
        """Random values, arrays or NumPy scalars; see :meth:`Space.sample`."""
        return self._drawn((*leading(size), *self._shape), self._generator(rng)).astype(self._dtype)[()]

    def zeros(self, size: Size = None) -> Any:
        """Zeros, arrays or NumPy scalars; see :meth:`Space.sample`."""
        return np.zeros((*leading(size), *self._shape), self._dtype)[()]

    def contains(self, sample: Any) -> bool:
        """Whether one value is of this shape and within the bounds; numbers need not have the dtype."""
        try:
            array = np.asarray(sample)
        except (ValueError, TypeError):
            return False
        return array.shape == self._shape and not self.problem(array, bounded=True)

    def force_batch(self, samples: Any) -> Any:
        """A batch, an array [B, ...]; see :meth:`Space.force_batch`."""
        array = np.asarray(samples)
        return array[None] if array.ndim == len(self._shape) else array

    def flat(self) -> dict[str, BoxSpace]:
        """The box itself, under an empty name."""
        return {"": self}

    def flatten(self, value: Any) -> dict[str, Any]:
        """The value under an empty name."""
        return {"": value}

    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        """The array under the empty name."""
        return arrays[""]

    @abstractmethod
    def problem(self, array: Array, *, bounded: bool) -> str:
        """What is wrong with the numbers of an array of any shape, such as ``"must be finite"``; empty if nothing is.

        Args:
            array: one value or a batch, whose last axes are the space's.
            bounded: must floats be within the bounds? Integers always must.
        """

    @abstractmethod
    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array: ...

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BoxSpace) or type(other) is not type(self):
            return NotImplemented
        same = (self._shape, self._dtype, self.unbounded) == (other.shape, other.dtype, other.unbounded)
        return same and np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    __hash__ = Space.__hash__


def read_shape(argument: str, given: Any) -> tuple[int, ...]:
    """A shape without batch and time: sizes of at least 1."""
    if not isinstance(given, tuple | list):
        refuse(argument, f"must be a tuple of integers, got {shortened(given)}", given)
    return tuple(integer(argument, size, at_least=1) for size in given)


def bounds_of(name: str, shape: Any, low: Any, high: Any, dtype: DTypeLike) -> tuple[tuple[int, ...], Array, Array]:
    """Shape and bounds of arguments: a shape, or bounds that have one."""
    low, high = _bound(f"{name}: low", low, dtype), _bound(f"{name}: high", high, dtype)
    shape = read_shape(f"{name}: shape", (low.shape or high.shape) if shape is None else shape)
    for argument, array in (("low", low), ("high", high)):
        if array.shape not in ((), shape):
            problem = f"has the shape {array.shape}; it must be one number or have the shape {shape}"
            refuse(f"{name}: {argument}", problem, array)
    least, most = _uniform(low), _uniform(high)
    if least.ndim != most.ndim:
        least, most = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    for array in (least, most):
        array.flags.writeable = False
    return shape, least, most


def dtype_of(argument: str, given: Any, allowed: tuple[str, ...]) -> str:
    """The name of a dtype, one of those allowed."""
    try:
        name = np.dtype(given).name
    except TypeError:
        name = ""
    if name not in allowed:
        refuse(argument, f"must be one of {', '.join(allowed)}; got {given!r}", given)
    return str(name)


def _bound(argument: str, given: Any, dtype: DTypeLike) -> Array:
    """One number or an array; ``"inf"`` is one, as JSON has none. Floats that float32 cannot hold are infinite."""
    try:
        array = np.array(given, np.float64)
    except (ValueError, TypeError, OverflowError):
        array = np.array(math.nan)
    if np.isnan(array).any() or isinstance(given, bool):
        refuse(argument, f"must be a number or an array of numbers, got {shortened(given)}", given)
    if dtype is np.float32:
        return np.where(np.abs(array) >= LARGEST, np.copysign(math.inf, array), array).astype(np.float32)
    if not (np.floor(array) == array).all() or (np.abs(array) > 2**32).any():
        refuse(argument, f"must be integers of int32, got {shortened(given)}", given)
    return array.astype(np.int64)


def _uniform(bound: Array) -> Array:
    """One number instead of equal ones."""
    return np.array(bound.flat[0]) if bound.size and (bound == bound.flat[0]).all() else bound


def in_json(bound: Array) -> Any:
    """A number or nested lists; infinite ones as strings."""
    if bound.ndim:
        return [in_json(row) for row in bound]
    return bound.item() if np.isfinite(bound) else str(bound.item())


def shown(bound: Array) -> str:
    """Bounds for messages."""
    return " ".join(str(bound.tolist()).split())
