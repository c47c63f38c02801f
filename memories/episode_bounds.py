"""Bounds: first and last timesteps of the episodes in a ring."""

from __future__ import annotations

import numpy as np

from ..core.protocols import Array
from .columns import FLAGS
from .ring import Ring


class Bounds:
    """The first and the last timestep of each episode in a ring, as far as they are stored.

    An unfinished episode counts as ending with the newest timestep of its lane. The bounds are derived from the ring
    when needed, and never saved.

    Args:
        ring: the ring to follow.
    """

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._lanes = np.arange(ring.num_envs)
        size = ring.timesteps * ring.num_envs
        self._episode = np.zeros(size, np.intp)  # by place: the number of its episode in its lane
        # By slot, which is (number of the episode, wrapped around) * N + lane: no two stored episodes share one.
        self._first = np.zeros(size, np.intp)
        self._last = np.zeros(size, np.intp)
        self.clear()

    @staticmethod
    def nbytes_for(places: int) -> int:
        """Bytes of the arrays for a ring with ``places`` places."""
        return 3 * places * np.dtype(np.intp).itemsize

    def clear(self) -> None:
        """Start over, as if nothing had been seen."""
        self._seen = self._lanes * 0  # the timestep after the newest that was seen, of each lane
        self._newest = self._lanes * 0 - 1  # the number of its newest episode

    def around(self, places: Array) -> tuple[Array, Array, Array]:
        """Numbers of the timesteps at these places [B], and of the first and the last timesteps of their episodes."""
        self._follow()
        ring = self._ring
        lane = places % ring.num_envs
        begin = (self._lanes * 0 + ring.begin)[lane]
        timestep = begin + (places // ring.num_envs - begin) % ring.timesteps
        slot = self._slot(self._episode[places], lane)
        return timestep, np.maximum(self._first[slot], begin), self._last[slot]

    def _follow(self) -> None:
        """Number the episodes of the timesteps stored since the last call."""
        ring, lanes = self._ring, self._lanes
        begin, end = lanes * 0 + ring.begin, lanes * 0 + ring.end
        since = np.maximum(self._seen, begin)
        counts = end - since
        total = int(counts.sum())
        if not total:
            return
        ends = np.cumsum(counts)
        lane = np.repeat(lanes, counts)  # of each new timestep, one lane after the other
        timestep = since[lane] + np.arange(total) - (ends - counts)[lane]
        # Whether a timestep ended its episode is final once another one has followed it.
        before = self._slot(timestep - 1, lane)
        terminated, truncated = (np.asarray(ring.columns[key])[before] for key in FLAGS)
        begins = (timestep == begin[lane]) | (terminated + truncated > 0)
        begun = np.concatenate([[0], np.cumsum(begins)])
        number = self._newest[lane] + begun[1:] - begun[ends - counts][lane]
        slot = self._slot(number, lane)
        self._episode[self._slot(timestep, lane)] = number
        self._first[slot[begins]] = timestep[begins]
        self._last[slot] = timestep  # of several, the last assignment wins: the newest
        self._newest = self._newest + begun[ends] - begun[ends - counts]
        self._seen = end

    def _slot(self, number: Array, lane: Array) -> Array:
        slot: Array = number % self._ring.timesteps * self._ring.num_envs + lane
        return slot
