"""BoolBox: truth values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from ....core.protocols import Array
from .box_space import BoxSpace, read_shape
from .space import Rank


class BoolBox(BoxSpace):
    """Truth values.

    Args:
        shape: by default ().
        add_batch_rank, add_time_rank, time_major: stored as attributes, without effect.
    """

    kind: ClassVar[str] = "bool"

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        self.dtype = np.dtype(np.bool_)
        self.shape = read_shape("BoolBox: shape", () if shape is None else shape)
        self.low, self.high = np.array(False), np.array(True)

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`BoxSpace.problem`."""
        if array.dtype.kind == "b" or (array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all()):
            return ""
        return "must be True or False"

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """See :meth:`BoxSpace.draw`."""
        return np.asarray(rng.integers(0, 2, shape))
