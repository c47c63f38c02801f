"""IntBox: integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import DTypeLike

from ....core.protocols import Array
from ..utils.rlgraph_errors import refuse
from .box_space import BoxSpace, bounds_text
from .space import Rank

INT32: Final = (-(2**31), 2**31 - 1)


class IntBox(BoxSpace):
    """Integers, int32.

    Args:
        low: the lower bound, a number or an array; given alone, it is the upper bound (``IntBox(4)`` is 0 .. 3); None:
            all numbers of int32.
        high: the upper bound, exclusive.
        shape: by default that of the bounds.
        dtype: ``"uint8"`` keeps the values as uint8; with any other integer dtype they are int32.
        add_batch_rank, add_time_rank, time_major: stored as attributes, without effect.

    Attributes:
        num_categories: number of values of each number, ``high - low``; None without bounds, or if these differ.

    Raises:
        RLGraphError: a bound is not an integer of int32, there is no value between them, or shapes do not fit.
    """

    kind: ClassVar[str] = "int"
    dtypes: ClassVar[tuple[str, ...]] = ("int8", "int16", "int32", "int64", "uint8")

    def __init__(
        self,
        low: Any = None,
        high: Any = None,
        shape: Sequence[int] | None = None,
        dtype: DTypeLike = "int32",
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        is_byte = self._check_dtype(dtype) == "uint8"
        self.dtype = np.dtype(np.uint8 if is_byte else np.int32)
        least, most = (0, 256) if is_byte else INT32
        self._set_bounds(shape, low, high, (least, most))
        if not (self.low < self.high).all():
            refuse(
                "IntBox: high",
                f"must be above {bounds_text(self.low)}, got {bounds_text(self.high)}: it is excluded",
                high,
            )
        if (self.low < least).any() or (self.high > most).any():
            refuse("IntBox: low", f"and high must be within {least} .. {most} for {self.dtype}", low)
        self.unbounded |= not is_byte and bool((self.low == least).all() and (self.high == most).all())
        sizes = np.unique(self.high - self.low)
        self.num_categories = int(sizes[0]) if len(sizes) == 1 and not self.unbounded else None

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`BoxSpace.problem`."""
        kind = array.dtype.kind
        if kind not in "iuf" or (kind == "f" and not (np.floor(array) == array).all()):
            return "must be integers"
        if not ((array >= self.low).all() and (array < self.high).all()):
            return f"must be in {bounds_text(self.low)} .. {bounds_text(self.high - 1)}"
        return ""

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See :meth:`BoxSpace.draw`."""
        return np.asarray(rng.integers(self.low, self.high, shape))
