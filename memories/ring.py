"""Ring: the newest timesteps of one or several streams, in contiguous arrays that are allocated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree, SpecTree
from ..core.trees import map_tree
from . import columns
from .columns import FLAGS, Layout, take
from .lane_index import Limits, changes, index_layers, spans
from .ring_state import Names, Saving

_SPARE_BYTES = 64 * 2**20
INDEX = np.dtype(np.intp)
"""Dtype of places and rows."""
_NOTHING = object()
_NO_PLACES = np.zeros(0, np.intp)


class Ring(Saving):
    """Columns [timesteps, N, ...] for every key; observations in rows [num_rows, N, ...], each stored once.

    A *lane* is one environment's stream of experience. Lanes are independent: each has its own timesteps ``begin`` ..
    ``end - 1``, numbered from 0 and wrapped around where an array is indexed. While all lanes are written together they
    are in lock step: ``begin``, ``end`` and the newest row are one number for all. The first timestep that leaves out a
    lane turns them into arrays [N].

    The next observation of a timestep is the row after that of its observation (``start``). A timestep that continues
    the previous one begins at that one's last row, and writes one row. Any other (a new episode, or an observation that
    is not the previous next observation) begins at a new row, in all lanes that are in lock step, and writes two. Spare
    rows are for these; twice as many rows as timesteps always suffice. With fewer, the oldest timesteps are dropped
    when the rows run out.

    A place is an index into the flat columns [timesteps * N, ...]: timestep * N + lane. A sampler draws from all
    timesteps but the newest ``waiting`` of each lane: those are the items of the ring.
    """

    def __init__(
        self,
        specs: Mapping[str, SpecTree],
        timesteps: int,
        num_envs: int,
        num_rows: int,
        zeros: columns.Zeros = columns.in_memory,
    ) -> None:
        stored = {key: spec for key, spec in specs.items() if key not in columns.OBSERVATIONS}
        self.timesteps, self.num_envs, self.num_rows = timesteps, num_envs, num_rows
        self.capacity = timesteps * num_envs
        """Places: 0 .. ``capacity`` - 1."""
        self.waiting = 0
        """Number of newest timesteps of each lane that are not drawn yet."""
        self.trusts_identity = False
        """Whether an observation that is the last next observation's object counts as unchanged."""
        self._rows_may_run_out = num_rows < 2 * timesteps
        self._columns: dict[str, ArrayTree] = columns.allocate(stored, timesteps, num_envs, name="columns", zeros=zeros)
        self._rows: ArrayTree = columns.allocate(specs["observation"], num_rows, num_envs, name="rows", zeros=zeros)
        self._start = zeros("start", (timesteps, num_envs), INDEX)  # index into the flat rows: row * N + lane
        self._lanes = np.arange(num_envs)
        self._num_envs = np.array(num_envs, INDEX)  # an array: half the time of a Python number in arithmetic
        self._vector = Layout(self._columns, self._rows)
        self.columns: dict[str, ArrayTree] = columns.merge_axes(self._columns)
        # The fastest way differs: plain indexing for numbers, ``take`` for anything larger.
        self._numbers = {key: c for key, c in self.columns.items() if isinstance(c, np.ndarray) and c.ndim == 1}
        self._others = {key: column for key, column in self.columns.items() if key not in self._numbers}
        self._flat_rows: ArrayTree = columns.merge_axes(self._rows)
        self._flat_start = self._start.reshape(-1)
        # One lane needs no axis of its own, which makes storing faster.
        self._single = Layout(self.columns, self._flat_rows)
        self.clear()

    @staticmethod
    def spare_rows(timesteps: int, row_bytes: int, at_most: int = 2) -> int:
        """Spare rows: enough for the worst case if they take at most 64 MiB, else an eighth of the timesteps.

        A timestep needs at most ``at_most`` rows.
        """
        needed = at_most - 1  # in addition to one per timestep
        return min(needed * timesteps, max(timesteps // 8, _SPARE_BYTES // max(row_bytes, 1), needed))

    def clear(self) -> None:
        """Forget every timestep; all lanes are in lock step again."""
        self.lockstep = True
        self.begin: Any = 0  # number of the oldest timestep: an int in lock step, else [N]
        self.end: Any = 0  # number of the next timestep
        self._row: Any = 0  # the row of the newest next observation
        self._begun: Any = 0  # timesteps that began at a new row: the newest row is the (end + begun)-th one
        self._names = Names()
        self._handed: Any = _NOTHING  # the last next_observation object
        self._ended = False  # whether any lane's episode ended with it
        self._seen: Limits = (0, 0)  # the first item and the one after the last, at the last call of `changes`

    @property
    def stored(self) -> int:
        """Timesteps in all lanes."""
        return (self.end - self.begin) * self.num_envs if self.lockstep else int((self.end - self.begin).sum())

    def __len__(self) -> int:
        items = self.end - self.begin - self.waiting
        if self.lockstep:
            return items * self.num_envs if items > 0 else 0
        return int(np.maximum(items, 0).sum())

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return columns.nbytes(self._columns) + columns.nbytes(self._rows) + self._start.nbytes

    def step(self, transition: Mapping[str, Any]) -> None:
        """Store a transition of the only lane, without a batch axis; KeyError or ArgumentError if it does not fit."""
        self._single.check(transition)
        self._store(self._single, transition)
        self._ended = bool(transition["terminated"] or transition["truncated"])

    def extend(self, batch: Mapping[str, Any], mask: Array | None) -> None:
        """Store a timestep of the lanes in ``mask`` (None: all); KeyError or ArgumentError if it does not fit."""
        self._vector.check(batch)
        lanes = None if mask is None else self.lanes(mask)
        if lanes is None and self.lockstep:
            self._store(self._vector, batch)
            # A search for a byte beats ``any`` on few booleans.
            self._ended = any(1 in np.asarray(batch[key], np.bool_).tobytes() for key in FLAGS)
        elif lanes is None or lanes.size:
            self._leave_lockstep()
            self._store_lanes(self._vector, self._lanes if lanes is None else lanes, batch)

    def cut(self, mask: Array | None = None) -> None:
        """Mark the newest timestep of the lanes in ``mask`` (None: all) as truncated, unless it was terminated."""
        stored = np.broadcast_to(self.end > self.begin, self.num_envs)
        lanes = self._lanes[stored if mask is None else stored & mask]
        if lanes.size:
            self._cut(lanes)

    def lanes(self, mask: Array) -> Array | None:
        """The lanes in a mask; None for all.

        Raises:
            ArgumentError: it is not bool [N].
        """
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            message = f"mask must be bool of shape {(self.num_envs,)}, got {mask.dtype} of shape {mask.shape}"
            raise ArgumentError(message, "mask", mask)
        return None if mask.all() else np.flatnonzero(mask)

    def gather(self, first: Array, last: Array) -> dict[str, ArrayTree]:
        """Copies of the values at the places ``first``, with flags and next observations from those at ``last``."""
        start = self._flat_start[first]
        end = start if first is last else self._flat_start[last]
        batch: dict[str, ArrayTree] = {key: column[first] for key, column in self._numbers.items()}
        if first is not last:
            batch.update({key: self._numbers[key][last] for key in FLAGS})
        for key, column in self._others.items():
            batch[key] = take(column, first)
        batch["observation"] = take(self._flat_rows, start)
        batch["next_observation"] = take(self._flat_rows, end + self._num_envs)
        return batch

    def numbers(self, places: Array) -> Array:
        """Numbers n * N + lane of the timesteps at these places [...]; n counts all timesteps of the lane."""
        timestep, lane = np.divmod(places, self.num_envs)
        begin = self.begin if self.lockstep else self.begin[lane]
        number = begin + (timestep - begin) % self.timesteps
        return np.asarray(number * self.num_envs + lane, np.int64)

    def places_of(self, numbers: Array) -> Array:
        """Places of timesteps, given their :meth:`numbers` [...]."""
        return numbers % self.capacity

    def reached_goals(self, places: Array, part: str) -> Array:
        """Copy one part of the next Dict observations of the timesteps at these places [...]."""
        rows: Any = self._flat_rows
        reached: Array = take(rows[part], take(self._flat_start, places) + self._num_envs)
        return reached

    def places(self, index: Array, waiting: int | None = None) -> Array:
        """Places of the items by index, or of all timesteps but the newest ``waiting`` of each lane.

        Index 0 is the oldest. First come the oldest timesteps of all lanes, then the second oldest, and so on; within
        each, shorter lanes first.
        """
        if self.lockstep:
            low = self.begin % self.timesteps * self.num_envs
            return (index + low) % self.capacity if low else index
        waiting = self.waiting if waiting is None else waiting
        timestep, lane = index_layers(index, np.maximum(self.end - self.begin - waiting, 0))
        places: Array = (self.begin[lane] + timestep) % self.timesteps * self._num_envs + lane
        return places

    def holds_places(self, places: Array) -> Array:
        """Mask bool [...]: which of these places, in 0 .. ``capacity`` - 1, have items."""
        return self.holds(self.numbers(places))

    def holds(self, numbers: Array) -> Array:
        """Mask bool [...]: which of these timesteps, given their :meth:`numbers` [...], are items."""
        n, lane = np.divmod(numbers, self.num_envs)
        begin, end = (self.begin, self.end) if self.lockstep else (self.begin[lane], self.end[lane])
        held: Array = (n >= begin) & (n < end - self.waiting)
        return held

    def changes(self) -> tuple[Array, Array] | None:
        """Places emptied since the last call, and places that got another item; None if there are neither."""
        seen: Any = self._seen
        if self.lockstep:
            now: Limits = self.begin, max(self.begin, self.end - self.waiting)
            if now == seen:
                return None
        else:
            now = self.begin.copy(), np.maximum(self.begin, self.end - self.waiting)
            seen = self._lanes * 0 + seen[0], self._lanes * 0 + seen[1]
            if all(np.array_equal(*both) for both in zip(now, seen, strict=True)):
                return None
        self._seen = now
        first, second, added = (self.between(*limits) for limits in changes(seen, now, self.timesteps))
        return np.concatenate([first, second]) if first.size else second, added

    def between(self, begin: Any, end: Any) -> Array:
        """Places of the timesteps ``begin`` .. ``end - 1`` of every lane (numbers, or arrays [N])."""
        if self.lockstep and begin >= end:
            return _NO_PLACES
        if self.lockstep and begin // self.timesteps == (end - 1) // self.timesteps:  # it does not wrap around
            turn = begin // self.timesteps * self.timesteps
            return spans(begin - turn, end - turn, self.num_envs)
        places: Array = spans(begin, end, self.num_envs) % self.capacity
        return places

    def _store(self, layout: Layout, values: Mapping[str, Any]) -> None:
        """Store one timestep of all lanes, in lock step."""
        observation, next_observation = values["observation"], values["next_observation"]
        # Not after the end of an episode: the object may have changed if its environment was reset in place.
        continues = (observation is self._handed and not self._ended) or self._continues(layout, observation)
        end = self.end
        if end - self.begin == self.timesteps or self._rows_may_run_out:
            self._make_room(1 if continues else 2)
        start = self._row
        if not continues:
            start = (start + 1) % self.num_rows
            layout.put_observation(start, observation)
        row = (start + 1) % self.num_rows
        layout.put_observation(row, next_observation)
        timestep = end % self.timesteps
        layout.put_columns(timestep, values)
        self._row = row  # not before: what cannot be stored must leave no trace
        self._start[timestep] = start if self.num_envs == 1 else start * self.num_envs + self._lanes
        self.end = end + 1
        if not continues:
            self._begun += 1
        if self.trusts_identity:
            self._handed = next_observation

    def _store_lanes(self, layout: Layout, lanes: Array, batch: Mapping[str, Any]) -> None:
        """Store one timestep of some lanes, each at its own place."""
        values = map_tree(lambda value: np.asarray(value)[lanes], batch)
        stored = self.end[lanes] > self.begin[lanes]
        differs = layout.differs((self._row[lanes], lanes), values["observation"])
        self._cut(lanes[differs & stored])
        begins = differs | ~stored
        self._make_room_in(lanes, 1 + begins)
        start = (self._row[lanes] + begins) % self.num_rows
        new = {"observation": map_tree(lambda value: value[begins], values["observation"])}
        layout.put_observation((start[begins], lanes[begins]), new["observation"])
        row = (start + 1) % self.num_rows
        layout.put_observation((row, lanes), values["next_observation"])
        timestep = self.end[lanes] % self.timesteps
        layout.put_columns((timestep, lanes), values)
        self._row[lanes] = row  # not before: what cannot be stored must leave no trace
        self._start[timestep, lanes] = start * self.num_envs + lanes
        self.end[lanes] += 1
        self._begun[lanes] += begins

    def _leave_lockstep(self) -> None:
        if self.lockstep:
            self.lockstep, self._handed, self._names = False, _NOTHING, Names()
            numbers = self.begin, self.end, self._row, self._begun
            self.begin, self.end, self._row, self._begun = (np.full(self.num_envs, n) for n in numbers)

    def _continues(self, layout: Layout, observation: Any) -> bool:
        """Whether this is the newest next observation in every lane. Other lanes are cut."""
        if self.end == self.begin:
            return False
        if layout.holds(self._row, observation):
            return True
        if self.num_envs == 1:
            self._cut(self._lanes)
        else:
            self._cut(np.flatnonzero(layout.differs(self._row, observation)))
        return False

    def _cut(self, lanes: Array) -> None:
        """Mark the newest timesteps of these lanes as truncated, unless they were terminated."""
        newest = (self.end - 1) % self.timesteps
        at = (newest if self.lockstep else newest[lanes], lanes)
        terminated, truncated = (np.asarray(self._columns[key]) for key in FLAGS)
        truncated[at] = np.where(terminated[at], truncated[at], 1)

    def _make_room(self, rows: int) -> None:
        """Forget the oldest timesteps until there is room for one more with ``rows`` rows; in lock step."""
        if self.end - self.begin == self.timesteps:
            self.begin += 1
        if self._rows_may_run_out:
            while self.end > self.begin and self._used_rows() + rows > self.num_rows:
                self.begin += 1

    def _make_room_in(self, lanes: Array, rows: Array) -> None:
        """Forget the oldest timesteps of ``lanes`` until each has room for one more, with ``rows`` [lanes]."""
        self.begin[lanes] = np.maximum(self.begin[lanes], self.end[lanes] + 1 - self.timesteps)
        while self._rows_may_run_out:
            full = (self._used_rows()[lanes] + rows > self.num_rows) & (self.end[lanes] > self.begin[lanes])
            if not full.any():
                return
            self.begin[lanes[full]] += 1
