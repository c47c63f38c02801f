"""SumTree: numbers at places, found by cumulative sums."""

from __future__ import annotations

import math

import numpy as np

from ..core.protocols import Array

_BELOW_ONE = math.nextafter(1, 0)


class SumTree:
    """Two levels: blocks of numbers, and cumulative sums of the blocks. Any batch takes the same number of NumPy calls.

    Sums are always recomputed from the numbers, never corrected by a difference: they do not drift, and depend only on
    the numbers. They are updated when needed.

    Args:
        capacity: places, 0 .. ``capacity`` - 1; all hold 0 at first.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._width, num_blocks = _blocks(capacity)
        self.values: Array = np.zeros(num_blocks * self._width)
        """The numbers at the places; changed only by :meth:`put`."""
        self._blocks = self.values.reshape(num_blocks, self._width)
        self._sums = np.zeros(num_blocks)
        self._below = np.zeros(num_blocks + 1)  # the sum of all blocks before each; the last is the total
        self._ends = self._below[1:]
        self._stale: list[Array] = []  # places whose sums are not up to date

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Bytes of a tree's arrays."""
        width, num_blocks = _blocks(capacity)
        return 8 * (num_blocks * width + num_blocks + num_blocks + 1)

    def put(self, places: Array, values: Array | float) -> None:
        """Store numbers of at least 0 at places; for a duplicate place the last counts."""
        self.values[places] = values
        self._stale.append(places)

    def clear(self) -> None:
        """Set all places to 0."""
        self.put(np.arange(len(self.values)), 0.0)

    def __copy__(self) -> SumTree:
        """An independent tree with the same numbers."""
        copied = SumTree(self.capacity)
        copied.put(np.arange(len(self.values)), self.values)
        return copied

    def total(self) -> float:
        """The sum of all numbers."""
        if self._stale:
            self._update_sums()
        return float(self._below[-1])

    def find(self, sums: Array) -> Array:
        """Places at which the cumulative sum of all numbers first exceeds ``sums`` [n], 0 <= sums < total.

        A place that holds 0 is never found.
        """
        if self._stale:
            self._update_sums()
        block = self._ends.searchsorted(sums, "right")
        # Rounding may reach the end of a block: take its last place that does not hold 0.
        within = self._blocks.take(block, 0).cumsum(1)
        rest = np.minimum(sums - self._below.take(block), within[:, -1] * _BELOW_ONE)
        found: Array = block * self._width + (within > rest[:, None]).argmax(1)
        return found

    def _update_sums(self) -> None:
        places = self._stale[0] if len(self._stale) == 1 else np.concatenate(self._stale)
        self._stale = []
        if places.size < len(self._blocks):
            blocks = places // self._width
            self._sums[blocks] = np.add.reduce(self._blocks.take(blocks, 0), 1)
        else:
            np.add.reduce(self._blocks, 1, out=self._sums)
        self._sums.cumsum(out=self._ends)


def _blocks(capacity: int) -> tuple[int, int]:
    """Size and number of blocks, such that summing a batch's 32 blocks costs as much as summing all blocks' sums."""
    width = 2 ** max(3, round(math.log2(capacity / 32) / 2))
    return width, -(-capacity // width)
