"""Saving rings: circles of numbered items, the names under which items are saved, and the state of a ring."""

from __future__ import annotations

import mmap
import sys
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.chunked_arrays import Piece, Stream, kept
from ..core.protocols import Array, ArraySpec, ArrayTree, State
from ..core.trees import map_tree
from . import columns


class Circle(NamedTuple):
    """An array [capacity, ...] that holds item n at index n % capacity, for any n."""

    array: Array

    def read(self, begin: int, end: int) -> Array:
        """The items ``begin`` .. ``end - 1``; a view if they are contiguous and in RAM."""
        low, count = begin % len(self.array), end - begin
        if low + count <= len(self.array):
            items: Array = self.array[low : low + count]
            return items if _file_of(items) is None else _taken_out(items)
        return np.concatenate([self.array[low:], self.array[: low + count - len(self.array)]])

    def write(self, begin: int, values: Array) -> None:
        """Put items at ``begin``, ``begin + 1``, ..."""
        low = begin % len(self.array)
        fit = len(self.array) - low
        self.array[low : low + len(values)] = values[:fit]
        _release(self.array[low : low + len(values)])
        self.array[: max(len(values) - fit, 0)] = values[fit:]


def _taken_out(items: Array) -> Array:
    """A copy; afterwards the file's pages need not stay in RAM."""
    copied: Array = items.copy()
    _release(items)
    return copied


def _release(array: Array) -> None:
    """Let the operating system drop these pages of a file from RAM; the file keeps their content. Linux only."""
    file = _file_of(array)
    if file is None or sys.platform != "linux" or not array.size:
        return
    low, high = np.lib.array_utils.byte_bounds(array)
    offset = low - np.frombuffer(file, np.uint8, 1).ctypes.data
    begin = offset // mmap.PAGESIZE * mmap.PAGESIZE
    file.madvise(mmap.MADV_DONTNEED, begin, offset - begin + high - low)


def _file_of(array: Any) -> mmap.mmap | None:
    while isinstance(array, np.ndarray):
        array = array.base
    if isinstance(array, memoryview):
        array = array.obj
    return array if isinstance(array, mmap.mmap) else None


class Starts(NamedTuple):
    """First rows of timesteps, numbered without end, but stored as flat places: row % num_rows * N + lane.

    ``newest`` is the newest row, ``lane`` the circle's lane; None if the circle interleaves N lanes.
    """

    circle: Circle
    num_rows: int
    num_envs: int
    newest: int
    lane: int | None

    @property
    def array(self) -> Array:
        """Array of places."""
        return self.circle.array

    def read(self, begin: int, end: int) -> Array:
        """Rows of the items ``begin`` .. ``end - 1``."""
        age: Array = (self.newest - self.circle.read(begin, end) // self.num_envs) % self.num_rows
        return self.newest - age

    def write(self, begin: int, values: Array) -> None:
        """Store the rows of the items ``begin``, ``begin + 1``, ..."""
        lanes = np.arange(begin, begin + len(values)) % self.num_envs if self.lane is None else self.lane
        self.circle.write(begin, values % self.num_rows * self.num_envs + lanes)


Spans = Sequence[tuple[int, int]]
"""Range of items of each circle: ``begin`` .. ``end - 1``."""


class Names:
    """Names under which the items of circles are saved. Make new ones whenever item numbers change meaning."""

    def __init__(self) -> None:
        self._own = uuid.uuid4().hex

    def stream(self, name: str, circles: Sequence[Circle | Starts], spans: Spans) -> Stream:
        """Stream of these items, circle by circle."""
        pieces = [
            Piece(f"{self._own}/{name}/{number}", begin, end, circle.read)
            for number, (circle, (begin, end)) in enumerate(zip(circles, spans, strict=True))
        ]
        array = circles[0].array
        return Stream(ArraySpec(array.shape[1:], array.dtype), pieces)

    def restore(self, circles: Sequence[Circle | Starts], spans: Spans, saved: Stream) -> None:
        """Restore saved items, and continue to use their name."""
        if saved.pieces and saved.pieces[0].series:
            self._own = saved.pieces[0].series.partition("/")[0]
        offset = 0
        for circle, (begin, end) in zip(circles, spans, strict=True):
            at = begin
            for chunk in saved.part(offset, offset + end - begin).chunks():
                circle.write(at, chunk)
                at += len(chunk)
            offset += end - begin


class Saving:
    """Base of :class:`.ring.Ring` that saves and restores its state.

    Timesteps and rows are numbered from 0, not wrapped around. A numbered item never changes, except a lane's newest
    timestep, which may be cut: a state holds it separately.
    """

    timesteps: int
    num_envs: int
    num_rows: int
    lockstep: bool
    begin: Any
    end: Any
    columns: dict[str, ArrayTree]
    _columns: dict[str, ArrayTree]
    _rows: ArrayTree
    _flat_rows: ArrayTree
    _start: Array
    _lanes: Array
    _row: Any
    _begun: Any
    _names: Names

    @property
    def counts(self) -> Array:
        """Timesteps stored in each lane [N]."""
        counts: Array = self._lanes * 0 + (self.end - self.begin)
        return counts

    def clear(self) -> None:
        """Forget every timestep."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """Stored values and their timesteps: copies, or streams (see :mod:`axonrl.core.chunked_arrays`)."""
        used, newest = self._used_rows(), self.end + self._begun
        lanes = np.flatnonzero(self.counts)
        last = (self.end - 1) % self.timesteps
        settled = self._spans(self.begin, self._settled_end(self.begin, self.end))
        rows = self._spans(newest + 1 - used, newest + 1)
        names = self._names

        def stream(name: str, array: Array, spans: Spans) -> Any:
            return kept(names.stream(name, self._circles(array), spans))

        starts = names.stream("start", self._starts(newest), self._spans(self.begin, self.end))
        return {
            "lockstep": self.lockstep,
            "begin": self._lanes * 0 + self.begin,
            "end": self._lanes * 0 + self.end,
            "first_row": self._lanes * 0 + newest + 1 - used,
            "used_rows": self._lanes * 0 + used,
            "start": kept(starts),
            "columns": columns.map_named(lambda name, array: stream(name, array, settled), self._columns, "columns"),
            "newest": map_tree(lambda c: c[last if self.lockstep else last[lanes], lanes], self._columns),
            "rows": columns.map_named(lambda name, array: stream(name, array, rows), self._rows, "rows"),
        }

    def load_state_dict(self, state: State) -> None:
        """Restore a state at the same places; ValueError, with nothing changed, if it does not fit."""
        numbers: list[Any] = [np.array(state[name], np.intp) for name in ("begin", "end", "first_row", "used_rows")]
        begin, end, first, used = numbers
        most, most_rows = int((end - begin).max()), int(used.max())
        if most > self.timesteps or most_rows > self.num_rows:
            raise ValueError(
                f"the saved memory has {most} timesteps in {most_rows} rows,"
                f" this one has room for {self.timesteps} in {self.num_rows}"
            )
        lanes, count = np.flatnonzero(end > begin), int((end - begin).sum())
        columns.check_saved("columns", state["columns"], self.columns, count - len(lanes))
        columns.check_saved("observation", state["rows"], self._flat_rows, int(used.sum()))
        columns.check_saved("newest columns", state["newest"], self.columns, len(lanes))
        self.clear()
        self.lockstep = bool(state["lockstep"])
        if self.lockstep:
            begin, end, used, first = (int(number[0]) for number in (begin, end, used, first))
        newest = first + used - 1
        self.begin, self.end, self._begun, self._row = begin, end, newest - end, newest % self.num_rows
        self._restore(self._columns, self._spans(begin, self._settled_end(begin, end)), state["columns"])
        self._restore(self._rows, self._spans(first, newest + 1), state["rows"])
        self._names.restore(self._starts(newest), self._spans(begin, end), Stream.of(state["start"]))
        at = ((end - 1) % self.timesteps if self.lockstep else (end[lanes] - 1) % self.timesteps), lanes
        columns.restore(state["newest"], self._columns, at)

    def _restore(self, tree: Any, spans: Spans, saved: Any) -> None:
        for key, value in saved.items() if isinstance(saved, Mapping) else ():
            self._restore(tree[key], spans, value)
        if not isinstance(saved, Mapping):
            self._names.restore(self._circles(tree), spans, Stream.of(saved))

    def _settled_end(self, begin: Any, end: Any) -> Any:
        """End of the timesteps that cannot change any more: all but the newest of each lane."""
        return max(begin, end - 1) if self.lockstep else np.maximum(begin, end - 1)

    def _circles(self, array: Array) -> list[Circle]:
        """Circles of an array [number, N, ...]: one for all lanes in lock step, else one per lane."""
        if self.lockstep:
            return [Circle(columns.merge_axes(array))]
        return [Circle(array[:, lane]) for lane in range(self.num_envs)]

    def _starts(self, newest: Any) -> list[Starts]:
        circles, numbers = self._circles(self._start), [newest] if self.lockstep else newest.tolist()
        lanes = [None] if self.lockstep else range(self.num_envs)
        return [
            Starts(circle, self.num_rows, self.num_envs, number, lane)
            for circle, number, lane in zip(circles, numbers, lanes, strict=True)
        ]

    def _spans(self, begin: Any, end: Any) -> Spans:
        """Ranges of circle items, from ranges of timesteps or rows."""
        if self.lockstep:
            return [(begin * self.num_envs, end * self.num_envs)]
        return list(zip(begin.tolist(), end.tolist(), strict=True))

    def _first_rows(self) -> Any:
        """Row of the oldest observation: a number in lock step, else [N]; 0 where there is none."""
        timestep = self.begin % self.timesteps
        if self.lockstep:
            return int(self._start[timestep, 0]) // self.num_envs if self.end > self.begin else 0
        return np.where(self.end > self.begin, self._start[timestep, self._lanes] // self.num_envs, 0)

    def _used_rows(self) -> Any:
        used = (self._row - self._first_rows()) % self.num_rows + 1
        return used * (self.end > self.begin)
