"""Saving: a ring's content as a state, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.chunked_arrays import Stream, kept
from ..core.protocols import Array, ArrayTree, State
from ..core.trees import map_tree
from . import columns
from .numbered_ring import Circle, Names, Spans, Starts


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
        settled = self._spans(self.begin, self._settled(self.begin, self.end))
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
        self._restore("columns", self._columns, self._spans(begin, self._settled(begin, end)), state["columns"])
        self._restore("rows", self._rows, self._spans(first, newest + 1), state["rows"])
        self._names.restore("start", self._starts(newest), self._spans(begin, end), Stream.of(state["start"]))
        at = ((end - 1) % self.timesteps if self.lockstep else (end[lanes] - 1) % self.timesteps), lanes
        columns.restore(state["newest"], self._columns, at)

    def _restore(self, name: str, tree: Any, spans: Spans, saved: Any) -> None:
        for key, value in saved.items() if isinstance(saved, Mapping) else ():
            self._restore(f"{name}[{key!r}]", tree[key], spans, value)
        if not isinstance(saved, Mapping):
            self._names.restore(name, self._circles(tree), spans, Stream.of(saved))

    def _settled(self, begin: Any, end: Any) -> Any:
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
