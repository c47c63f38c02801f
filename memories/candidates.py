"""Candidates: the transitions of a ring that may be drawn."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.protocols import Array
from .lane_index import Limits, changes
from .ring import Ring

_NONE = np.zeros(0, np.intp)


class Candidates:
    """Transitions whose n timesteps are all stored: all but the newest n - 1 of each lane.

    Args:
        ring: stores the transitions.
        n_step: n.
    """

    def __init__(self, ring: Ring, n_step: int) -> None:
        self.capacity = ring.timesteps * ring.num_envs
        """Places of the ring: 0 .. ``capacity`` - 1."""
        self._ring = ring
        self._waiting = n_step - 1
        self._seen: Limits = (0, 0)  # the candidates' first timestep and the one after the last

    def __len__(self) -> int:
        ring = self._ring
        if ring.lockstep:
            timesteps: int = ring.end - ring.begin - self._waiting
            return timesteps * ring.num_envs if timesteps > 0 else 0
        return int(np.maximum(ring.end - ring.begin - self._waiting, 0).sum())

    def places(self, index: Array) -> Array:
        """Places of candidates by index in 0 .. len - 1."""
        return self._ring.places(index, self._waiting)

    def holds(self, numbers: Array) -> Array:
        """Mask bool [...] of the timesteps, given by numbers n * N + lane [...], that are candidates."""
        ring = self._ring
        n, lane = np.divmod(numbers, ring.num_envs)
        begin, end = (ring.begin, ring.end) if ring.lockstep else (ring.begin[lane], ring.end[lane])
        held: Array = (n >= begin) & (n < end - self._waiting)
        return held

    def changes(self) -> tuple[Array, Array] | None:
        """Places emptied since the last call, and places that got another transition; None if there are neither."""
        ring, seen = self._ring, self._seen
        if ring.lockstep:
            now = ring.begin, max(ring.begin, ring.end - self._waiting)
            if now == seen:
                return None
        else:
            now = ring.begin.copy(), np.maximum(ring.begin, ring.end - self._waiting)
            seen = now[0] * 0 + seen[0], now[0] * 0 + seen[1]
            if all(np.array_equal(*both) for both in zip(now, seen, strict=True)):
                return None
        self._seen = now
        first, second, added = (self._between(*limits) for limits in changes(seen, now, ring.timesteps))
        return np.concatenate([first, second]) if first.size else second, added

    def _between(self, begin: Any, end: Any) -> Array:
        return _NONE if self._ring.lockstep and begin >= end else self._ring.between(begin, end)

    def clear(self) -> None:
        """Start over: nothing was seen."""
        self._seen = (0, 0)
