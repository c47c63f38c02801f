"""Sequences in a ring: first timesteps, candidates for drawing, and initial recurrent states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.chunked_arrays import Stream, kept
from ..core.protocols import Array, ArraySpec
from ..core.trees import map_tree
from . import columns
from .lane_index import changes, index_layers, spans
from .ring import INDEX, Ring
from .ring_state import Circle, Names

_SPARE_BYTES = 2**20
_NUMBERS = ("begin", "end", "episode", "due")


class Shape(NamedTuple):
    """Timesteps of a sequence: trained on, before these (burn-in), and shared with the sequence before."""

    length: int
    burn_in: int
    overlap: int

    @property
    def stride(self) -> int:
        """Timesteps from the beginning of a sequence to the beginning of the next."""
        return self.length - self.overlap

    @property
    def recent(self) -> int:
        """Number of newest timesteps of a lane at which a sequence, or its burn-in, may still begin."""
        return self.burn_in + self.overlap + 1


class Spans(NamedTuple):
    """Sequences [B]: number of the first timestep trained on, timesteps of burn-in, timesteps trained on."""

    first: Array
    burn_in: Array
    length: Array


class Sequences:
    """The sequences in the lanes of a ring.

    In each episode sequences begin at timesteps 0, stride, 2 stride, ..., as long as they hold a timestep that the
    previous sequence does not. The newest sequence of a lane is *open* until it has ``length`` timesteps or its episode
    ends; then it may be drawn, until its oldest timestep (including burn-in) is forgotten. So a lane has at most one
    open sequence. Sequences of a lane are numbered from 0; ``places`` are (number modulo rows) * N + lane.

    Recurrent state is stored once per sequence: before its first timestep of burn-in, or if there is none, before the
    first timestep trained on. The states of each lane's newest timesteps are kept until a sequence needs one.

    Args:
        ring: stores the timesteps.
        shape: timesteps of a sequence.
        state: specs of the recurrent state; empty without one.
    """

    def __init__(self, ring: Ring, shape: Shape, state: Mapping[str, ArraySpec]) -> None:
        self._ring, self._shape = ring, shape
        self._rows = self.rows_for(ring.timesteps, shape, ring.num_envs * columns.nbytes(state))
        self.capacity = self._rows * ring.num_envs
        """Places: 0 .. ``capacity`` - 1."""
        self._lanes = np.arange(ring.num_envs)
        self._first = np.zeros((self._rows, ring.num_envs), INDEX)  # the number of the first timestep trained on
        self._burn_in = np.zeros((self._rows, ring.num_envs), np.int32)
        self._count = np.zeros((self._rows, ring.num_envs), np.int32)  # timesteps trained on
        self._states: dict[str, Array] = columns.allocate(state, self._rows, ring.num_envs, name="state")
        self._recent: dict[str, Array] = columns.allocate(state, shape.recent, ring.num_envs, name="recent")
        self.clear()

    @staticmethod
    def rows_for(timesteps: int, shape: Shape, row_bytes: int) -> int:
        """Capacity of a lane in sequences: twice that of an endless episode, and at most 1 MiB of spare ones."""
        return min(timesteps, 2 * (timesteps // shape.stride) + 1 + _SPARE_BYTES // max(row_bytes, 1))

    @staticmethod
    def needed_bytes(timesteps: int, num_envs: int, shape: Shape, state: Mapping[str, ArraySpec]) -> int:
        """Bytes of the arrays for such sequences."""
        state_bytes = columns.nbytes(state)
        rows = Sequences.rows_for(timesteps, shape, num_envs * state_bytes)
        return num_envs * (rows * (INDEX.itemsize + 2 * 4 + state_bytes) + shape.recent * state_bytes)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return columns.nbytes(self._arrays()) + columns.nbytes(self._recent)

    def clear(self) -> None:
        """Forget every sequence."""
        self._names = Names()
        self._begin: Array = self._lanes * 0  # number of the oldest sequence
        self._end: Array = self._lanes * 0  # number of the next one that will be complete
        self._open: Array = self._lanes < 0  # whether a sequence is open
        self._episode: Array = self._lanes * 0  # number of the first timestep of the newest episode
        self._due: Array = self._lanes * 0  # number of the timestep that completes or begins the next sequence
        self._seen: tuple[Array, Array] = (self._begin.copy(), self._end.copy())

    # -- storing ------------------------------------------------------------------------------------------------------

    def check(self, state: Any, *leading: int) -> None:
        """Refuse recurrent state [*leading, ...] that does not fit; KeyError or ArgumentError."""
        if not isinstance(state, Mapping) or state.keys() != self._states.keys():
            raise KeyError(f"state must have the keys {', '.join(self._states)}; got {state!r:.200}")
        for name, array in self._states.items():
            columns.Leaf("state", name, (*leading, *array.shape[2:]), array).check(state[name])

    def follow_one(self, state: Mapping[str, Any]) -> None:
        """Register one more timestep in the ring's only lane; it started from this recurrent state."""
        ring = self._ring
        newest = int(ring.end) - 1
        for name, recent in self._recent.items():
            recent[newest % len(recent), 0] = state[name]
        terminated, truncated = (np.asarray(ring.columns[key]) for key in columns.FLAGS)
        at, before = newest % ring.timesteps, (newest - 1) % ring.timesteps
        if newest >= self._due[0] or terminated[at] or truncated[at] or terminated[before] or truncated[before]:
            self._advance(self._lanes, np.array([newest]))

    def follow(self, lanes: Array, state: Mapping[str, Array]) -> None:
        """Register one more timestep in these lanes [n]; they started from this recurrent state [n, ...]."""
        newest = (self._lanes * 0 + self._ring.end)[lanes] - 1
        for name, recent in self._recent.items():
            recent[newest % len(recent), lanes] = state[name]
        due = (newest >= self._due[lanes]) | self._has_ended(newest, lanes) | self._has_ended(newest - 1, lanes)
        if due.any():
            self._advance(lanes[due], newest[due])

    def _advance(self, lanes: Array, newest: Array) -> None:
        """Begin and complete the sequences of lanes that are due, given the numbers of their newest timesteps."""
        begins = (newest == 0) | self._has_ended(newest - 1, lanes)
        self._complete(lanes, begins, newest - 1)
        self._episode[lanes] = np.where(begins, newest, self._episode[lanes])
        closed = ~self._open[lanes]
        self._start(lanes[closed], newest[closed])
        full = newest - self._first[self._end[lanes] % self._rows, lanes] + 1 == self._shape.length
        self._complete(lanes, full | self._has_ended(newest, lanes), newest)

    def _has_ended(self, number: Array, lanes: Array) -> Array:
        """Mask of the lanes whose episodes ended with the timesteps of these numbers."""
        at = (number % self._ring.timesteps) * self._ring.num_envs + lanes
        terminated, truncated = (np.asarray(self._ring.columns[key]) for key in columns.FLAGS)
        ended: Array = (terminated[at] + truncated[at]) > 0
        return ended

    def _start(self, lanes: Array, newest: Array) -> None:
        """Begin a sequence in these lanes, whose newest timesteps are the first ones that it adds."""
        position = newest - self._episode[lanes]
        shared = np.where(position > 0, self._shape.overlap, 0)
        burn_in = np.minimum(position - shared, self._shape.burn_in)
        # If episodes are so short that the rows run out, the oldest sequences are dropped.
        self._begin[lanes] = np.maximum(self._begin[lanes], self._end[lanes] + 1 - self._rows)
        row = self._end[lanes] % self._rows
        self._first[row, lanes] = newest - shared
        self._burn_in[row, lanes] = burn_in
        self._count[row, lanes] = 0  # not known yet
        for name, states in self._states.items():
            recent = self._recent[name]
            states[row, lanes] = recent[(newest - shared - burn_in) % len(recent), lanes]
        self._open[lanes] = True
        self._due[lanes] = newest - shared + self._shape.length - 1

    def _complete(self, lanes: Array, mask: Array, last: Array) -> None:
        """End the open sequences of the lanes in the mask with these timesteps."""
        mask = mask & self._open[lanes]
        lanes, last = lanes[mask], last[mask]
        row = self._end[lanes] % self._rows
        self._count[row, lanes] = last - self._first[row, lanes] + 1
        self._end[lanes] += 1
        self._open[lanes] = False
        self._due[lanes] = 0

    # -- drawing ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        self._forget()
        return int((self._end - self._begin).sum())

    def places(self, index: Array) -> Array:
        """Places of the drawable sequences, by index in 0 .. len - 1."""
        number, lane = index_layers(index, self._end - self._begin)
        places: Array = (self._begin[lane] + number) % self._rows * len(self._lanes) + lane
        return places

    def holds_places(self, places: Array) -> Array:
        """Mask bool [...]: which of these places, in 0 .. ``capacity`` - 1, have drawable sequences."""
        row, lane = np.divmod(places, len(self._lanes))
        begin = self._begin[lane]
        held: Array = begin + (row - begin) % self._rows < self._end[lane]
        return held

    def changes(self) -> tuple[Array, Array] | None:
        """Places emptied since the last call, and places that got another sequence; None if there are neither."""
        self._forget()
        seen, now = self._seen, (self._begin.copy(), self._end.copy())
        if np.array_equal(now, seen):
            return None
        self._seen = now
        first, second, added = (self._between(*limits) for limits in changes(seen, now, self._rows))
        return np.concatenate([first, second]), added

    def spans(self, places: Array) -> Spans:
        """Timesteps of the sequences at these places."""
        return Spans(*(array.reshape(-1)[places] for array in (self._first, self._burn_in, self._count)))

    def states(self, places: Array) -> dict[str, Array]:
        """Initial recurrent states [B, ...] of the sequences at these places [B]."""
        return {name: array.reshape(-1, *array.shape[2:])[places] for name, array in self._states.items()}

    def _forget(self) -> None:
        """Drop the sequences whose oldest timestep the ring has forgotten."""
        while True:
            row = self._begin % self._rows
            oldest = self._first[row, self._lanes] - self._burn_in[row, self._lanes]
            gone = (oldest < self._ring.begin) & (self._begin < self._end)
            if not gone.any():
                return
            self._begin[gone] += 1

    def _between(self, begin: Array, end: Array) -> Array:
        return spans(begin, end, len(self._lanes)) % self.capacity

    # -- saving -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Copies, or streams, of the arrays of complete sequences; open ones and the newest states are separate."""
        self._forget()
        arrays, opened = self._arrays(), np.flatnonzero(self._open)
        complete = list(zip(self._begin.tolist(), self._end.tolist(), strict=True))
        streams = {name: self._names.stream(name, self._circles(array), complete) for name, array in arrays.items()}
        return {
            **{name: getattr(self, f"_{name}").copy() for name in _NUMBERS},
            "open": self._open.copy(),
            "complete": map_tree(kept, streams),
            "opened": map_tree(lambda array: array[self._end[opened] % self._rows, opened], arrays),
            "recent": map_tree(kept, self._recent),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned; ValueError, with nothing changed, if it does not fit."""
        begin, end, episode, due = (np.array(state[name], INDEX) for name in _NUMBERS)
        is_open, arrays = np.array(state["open"], np.bool_), self._arrays()
        opened, flat = np.flatnonzero(is_open), columns.merge_axes(arrays)
        columns.check_saved("sequences", state["complete"], flat, int((end - begin).sum()))
        columns.check_saved("open sequences", state["opened"], flat, len(opened))
        columns.check_saved("recent state", state["recent"], self._recent, self._shape.recent)
        self.clear()
        complete = list(zip(begin.tolist(), end.tolist(), strict=True))
        for name, array in arrays.items():
            self._names.restore(self._circles(array), complete, Stream.of(state["complete"][name]))
        columns.restore(state["opened"], arrays, (end[opened] % self._rows, opened))
        columns.restore(state["recent"], self._recent, slice(None))
        self._begin, self._end, self._episode, self._due, self._open = begin, end, episode, due, is_open
        self._seen = begin.copy(), end.copy()

    def _arrays(self) -> dict[str, Array]:
        """Arrays [rows, N, ...] of the sequences; a complete sequence's values never change."""
        states = {f"state[{name!r}]": array for name, array in self._states.items()}
        return {"first": self._first, "burn_in": self._burn_in, "count": self._count, **states}

    def _circles(self, array: Array) -> list[Circle]:
        return [Circle(array[:, lane]) for lane in self._lanes]
