"""SumTree: numbers at places, from which places are found by cumulative sums."""

from __future__ import annotations

import math

import numpy as np

from ..contracts import Array


class SumTree:
    """Two levels: blocks of numbers, and the sums of the blocks. NumPy is called a few times for any number of places.

    A sum is always computed anew from its block, never corrected by a difference: sums do not drift, and follow from
    the numbers alone.

    Args:
        capacity: places, 0 .. ``capacity`` - 1; all of them hold 0.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        # A fourth of the square root: summing the blocks of a batch costs as much as summing all blocks' sums.
        self._width = 2 ** max(3, round(math.log2(capacity) / 2) - 2)
        num_blocks = -(-capacity // self._width)
        self._blocks = np.zeros((num_blocks, self._width))
        self._sums = np.zeros(num_blocks)
        self._below = np.zeros(num_blocks + 1)  # sums of all blocks before each; the last is the total
        self._stale: list[Array] = []  # blocks whose sums are to be computed
        self.values: Array = self._blocks.reshape(-1)
        """What the places hold; changed by :meth:`put` only."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._blocks.nbytes + self._sums.nbytes + self._below.nbytes

    def put(self, places: Array, values: Array | float) -> None:
        """Let places hold these numbers, of at least 0; of a place that comes twice the last one counts."""
        self.values[places] = values
        self._stale.append(places // self._width)

    def clear(self) -> None:
        """Let all places hold 0."""
        self._blocks[:] = 0
        self._stale = [np.arange(len(self._blocks))]

    def __copy__(self) -> SumTree:
        """The same numbers, in arrays of its own."""
        copied = SumTree(self.capacity)
        copied.values[:] = self.values
        copied._stale = [np.arange(len(self._blocks))]
        return copied

    def total(self) -> float:
        """The sum of all numbers."""
        if self._stale:
            self._compute_sums()
        return float(self._below[-1])

    def find(self, sums: Array) -> Array:
        """The places at which the cumulative sum of all numbers first exceeds ``sums`` [n], 0 <= sums <= total.

        A place that holds 0 is never found, unless all do.
        """
        # Rounding may lead to the end of a block, or of all: the last place there that is not 0 is meant.
        sums = np.minimum(sums, np.nextafter(self.total(), 0))
        block = self._below[1:].searchsorted(sums, "right")
        within = self._blocks.take(block, 0).cumsum(1)
        rest = np.minimum(sums - self._below.take(block), np.nextafter(within[:, -1], 0))
        found: Array = block * self._width + (within > rest[:, None]).argmax(1)
        return found

    def _compute_sums(self) -> None:
        blocks = self._stale[0] if len(self._stale) == 1 else np.concatenate(self._stale)
        self._stale = []
        if blocks.size < len(self._blocks):
            self._sums[blocks] = self._blocks.take(blocks, 0).sum(1)
        else:
            self._blocks.sum(1, out=self._sums)
        self._sums.cumsum(out=self._below[1:])
