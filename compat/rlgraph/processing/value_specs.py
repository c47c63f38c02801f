"""What processing needs to know of a box: of one state, or of one action."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import DTypeLike

from ....core.protocols import Array

FLOAT: Final = np.dtype(np.float32)


class BoxLike(Protocol):
    """A box: shape without a batch axis, and dtype.

    Where they exist, these are read as well: ``low`` and ``high``, numbers or arrays that broadcast to the shape, of
    ints (``high`` excluded) and floats (included); and ``num_categories`` of ints, how many values each number has
    (None or False: without bounds, or different ones).
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Without a batch axis."""
        ...

    @property
    def dtype(self) -> DTypeLike:
        """Bool, an integer or a float."""
        ...


@dataclasses.dataclass(frozen=True)
class ValueSpec:
    """A box, all of whose numbers have the same bounds; itself :class:`BoxLike`.

    Args:
        shape: without a batch axis.
        dtype: bool, an integer or a float.
        num_categories: of ints, ``high - low``; None of those without bounds, and of which each has its own.
        low: the smallest value.
        high: the largest value; of ints the one after it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    num_categories: int | None
    low: float
    high: float

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        return self.low, self.high - 1 if self.dtype.kind in "iu" else self.high

    def of_shape(self, shape: tuple[int, ...]) -> ValueSpec:
        """The same values in another shape."""
        return dataclasses.replace(self, shape=shape)

    def within(self, dtype: np.dtype[Any], low: float, high: float) -> ValueSpec:
        """The same shape with other values, from ``low`` to ``high``, which is included."""
        if dtype.kind == "b":
            return ValueSpec(self.shape, dtype, None, 0, 1)
        if dtype.kind == "f":
            return ValueSpec(self.shape, dtype, None, low, high)
        categories = int(high) - int(low) + 1
        return ValueSpec(self.shape, dtype, categories if categories < _UNBOUNDED else None, int(low), int(high) + 1)


_UNBOUNDED: Final = 2**31
"""Ints with as many values or more count as unbounded."""


def value_spec(box: BoxLike) -> ValueSpec:
    """What is needed of a box."""
    dtype, shape = np.dtype(box.dtype), tuple(int(size) for size in box.shape)
    if dtype.kind == "b":
        return ValueSpec(shape, dtype, None, 0, 1)
    low, high = limits_of(box)
    least, most = (low.min(), high.max()) if low.size and high.size else (0, 0)
    if dtype.kind == "f":
        return ValueSpec(shape, dtype, None, float(least), float(most))
    categories = num_categories_of(box) if (low == least).all() else None
    return ValueSpec(shape, dtype, categories, int(least), int(most))


def num_categories_of(box: BoxLike) -> int | None:
    """How many values each number has; None of floats, and where that is not known."""
    if np.dtype(box.dtype).kind == "b":
        return 2
    if np.dtype(box.dtype).kind == "f":
        return None
    return getattr(box, "num_categories", None) or None


def limits_of(box: BoxLike) -> tuple[Array, Array]:
    """Low and high of each number, which broadcast to the shape; the widest ones where the box tells none."""
    dtype = np.dtype(box.dtype)
    low, high = getattr(box, "low", None), getattr(box, "high", None)
    widest: tuple[float, float] = (-math.inf, math.inf)
    if dtype.kind == "b":
        widest = (0, 1)
    elif dtype.kind != "f":
        limits, categories = np.iinfo(dtype), num_categories_of(box)
        widest = (int(limits.min), int(limits.max) + 1) if categories is None else (0, categories)
    return np.asarray(widest[0] if low is None else low), np.asarray(widest[1] if high is None else high)


def rounded(values: Array, dtype: np.dtype[Any], *, nearest: bool) -> Array:
    """Numbers in another dtype: the nearest integer (halves to even ones) or towards zero, and never out of its range.

    Of bools all but zero are True.
    """
    if dtype.kind in "bf":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    exact = np.clip(values.astype(np.float64), limits.min, limits.max)
    return (np.rint(exact) if nearest else exact).astype(dtype)
