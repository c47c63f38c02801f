"""FloatBox: floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ....core.protocols import Array
from ..utils.rlgraph_errors import refuse
from .box_space import LARGEST, BoxSpace, bounds_text
from .space import Rank


class FloatBox(BoxSpace):
    """Floats, float32.

    Args:
        low: the lower bound, a number or an array; given alone, it is the upper bound (``FloatBox(1.0)`` is 0 .. 1);
            None: no bounds. A tuple alone is the shape.
        high: the upper bound, inclusive.
        shape: by default that of the bounds.
        dtype: a float dtype; values are always float32.
        add_batch_rank, add_time_rank, time_major: stored as attributes, without effect.

    Raises:
        RLGraphError: a bound is not a number, the lower bound is above the upper one, or shapes do not fit.
    """

    kind: ClassVar[str] = "float"
    dtypes: ClassVar[tuple[str, ...]] = ("float16", "float32", "float64")

    def __init__(
        self,
        low: Any = None,
        high: Any = None,
        shape: Sequence[int] | None = None,
        dtype: DTypeLike = "float32",
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        self._check_dtype(dtype)
        self.dtype = np.dtype(np.float32)
        if isinstance(low, tuple | list) and high is None and shape is None:
            low, shape = None, low
        self._set_bounds(shape, low, high, (-math.inf, math.inf))
        if not (self.low <= self.high).all():
            refuse(
                "FloatBox: low",
                f"must not be above high, got {bounds_text(self.low)} and {bounds_text(self.high)}",
                low,
            )
        self.unbounded = bool(np.isinf(self.low).all() and np.isinf(self.high).all())

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`BoxSpace.problem`."""
        if array.dtype.kind not in "fiu":
            return "must be numbers"
        if not (np.abs(array) <= LARGEST).all():  # also catches NaN
            return "must be finite as float32"
        array = array.astype(np.float32)  # compare as float32, like the bounds: 0.1 is within 0.1 .. 0.9
        if bounded and not ((array >= self.low).all() and (array <= self.high).all()):
            return f"must be within {bounds_text(self.low)} .. {bounds_text(self.high)}"
        return ""

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See :meth:`BoxSpace.draw`."""
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        if self.unbounded:
            return np.asarray(rng.standard_normal(shape))
        bounded = np.isfinite(low) & np.isfinite(high)
        inside = rng.uniform(np.where(bounded, low, 0), np.where(bounded, high, 1), shape)
        if bounded.all():
            return np.asarray(inside)
        normal = rng.standard_normal(shape)
        one_sided = np.where(np.isinf(high), low + np.abs(normal), high - np.abs(normal))
        unbounded = np.isinf(low) & np.isinf(high)
        return np.where(bounded, inside, np.where(unbounded, normal, one_sided))
