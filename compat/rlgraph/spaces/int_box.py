"""IntBox: integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import refuse
from .box_space import BoxSpace, bounds_of, dtype_of, in_json, shown
from .space import Rank

_SMALLEST_INT, _LARGEST_INT = -(2**31), 2**31 - 1
_INTS: Final = ("int8", "int16", "int32", "int64", "uint8")


class IntBox(BoxSpace):
    """Integers, int32.

    Args:
        low: the lower bound, a number or an array; alone, it is the upper one (``IntBox(4)`` is 0 .. 3); None: all
            numbers of int32.
        high: the upper bound, which does not belong to the space.
        shape: by default that of the bounds.
        dtype: ``"uint8"`` keeps the values as such; with any other integer dtype they are int32.
        add_batch_rank: kept as ``has_batch_rank``; it has no effect. The same goes for ``add_time_rank``
            and ``time_major``.

    Attributes:
        num_categories: how many values a number has, ``high - low``; None without bounds, or if numbers have different
            ones.

    Raises:
        RLGraphError: a bound is not an integer of int32, there is no value between them, or shapes do not fit.
    """

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
        is_byte = dtype_of("IntBox: dtype", dtype, _INTS) == "uint8"
        self._dtype = np.dtype(np.uint8 if is_byte else np.int32)
        least, most = (0, 256) if is_byte else (_SMALLEST_INT, _LARGEST_INT)
        self._unbounded = low is None and high is None
        if self._unbounded:
            low, high = least, most
        elif high is None:
            low, high = 0, low
        elif low is None:
            refuse("IntBox: low", "is missing: give both bounds", low)
        self._shape, self.low, self.high = bounds_of("IntBox", shape, low, high, np.int64)
        if not (self.low < self.high).all():
            refuse("IntBox: high", f"must be above {shortened(low)}, got {shortened(high)}: it is excluded", high)
        if (self.low < least).any() or (self.high > most).any():
            refuse("IntBox: low", f"and high must be within {least} .. {most} for {self._dtype}", low)
        sizes = np.unique(self.high - self.low)
        self.num_categories = int(sizes[0]) if len(sizes) == 1 and not self._unbounded else None

    @property
    def unbounded(self) -> bool:
        """Was it made without bounds? It has no categories then."""
        return self._unbounded

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`BoxSpace.problem`."""
        kind = array.dtype.kind
        if kind not in "iuf" or (kind == "f" and not (np.floor(array) == array).all()):
            return f"must be integers, got {array.dtype}"
        if not ((array >= self.low).all() and (array < self.high).all()):
            return f"must be in {shown(self.low)} .. {shown(self.high - 1)}"
        return ""

    def to_spec(self) -> dict[str, Any]:
        """Type, shape and bounds; infinite ones are strings, as JSON has none."""
        bounds = {} if self.unbounded else {"low": in_json(self.low), "high": in_json(self.high)}
        dtype = {"dtype": "uint8"} if self._dtype == np.uint8 else {}
        return {"type": "int", "shape": list(self._shape), **bounds, **dtype}

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.asarray(rng.integers(self.low, self.high, shape))

    def __repr__(self) -> str:
        bounds = [] if self.unbounded else [shown(self.low), shown(self.high)]
        if len(bounds) == 2 and bounds[0] == "0":
            bounds = bounds[1:]
        shape = [f"shape={self._shape}"] if self._shape else []
        dtype = ["dtype='uint8'"] if self._dtype == np.uint8 else []
        return f"IntBox({', '.join([*bounds, *shape, *dtype])})"
