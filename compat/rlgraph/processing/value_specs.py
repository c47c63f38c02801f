"""What processing needs to know of a box: of one state, or of one action."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import numpy as np

from ....core.protocols import Array
from ..spaces import BoxSpace, IntBox

FLOAT: Final = np.dtype(np.float32)


@dataclasses.dataclass(frozen=True)
class ValueSpec:
    """A box, all of whose numbers have the same bounds.

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


def value_spec(box: BoxSpace) -> ValueSpec:
    """What is needed of a box."""
    low, high = box.bounds
    if box.dtype.kind == "b":
        return ValueSpec(box.shape, box.dtype, None, 0, 1)
    if box.dtype.kind == "f":
        return ValueSpec(box.shape, box.dtype, None, float(low.min()), float(high.max()))
    categories = num_categories_of(box) if (low == low.min()).all() else None
    return ValueSpec(box.shape, box.dtype, categories, int(low.min()), int(high.max()))


def num_categories_of(box: BoxSpace) -> int | None:
    """How many values each number has; None of floats, and where that is not known."""
    if box.dtype.kind == "b":
        return 2
    return box.num_categories if isinstance(box, IntBox) else None


def rounded(values: Array, dtype: np.dtype[Any], *, nearest: bool) -> Array:
    """Numbers in another dtype: the nearest integer (halves to even ones) or towards zero, and never out of its range.

    Of bools all but zero are True.
    """
    if dtype.kind in "bf":
        return values.astype(dtype)
    limits = np.iinfo(dtype)
    exact = np.clip(values.astype(np.float64), limits.min, limits.max)
    return (np.rint(exact) if nearest else exact).astype(dtype)
