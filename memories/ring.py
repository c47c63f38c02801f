"""Ring: the newest timesteps of one or several environments, in contiguous arrays that are allocated once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contracts import Array, ArrayTree, SpecTree, State
from . import columns
from .columns import FLAGS, Layout, take

_SPARE_BYTES = 64 * 2**20
_INDEX = np.dtype(np.intp)
_NOTHING = object()


class Ring:
    """Columns [timesteps, N, ...] for every key, but the observations in rows [num_rows, N, ...], each stored once.

    The next observation of a timestep is the row after that of its observation (``start``). While the episodes go
    on, the next timestep starts at the row at which the last one ended, and writes one row. Where they do not
    (another episode, or an observation that is not the next observation of the timestep before) it starts at a new
    row, for all environments, and writes two. For this there are spare rows; twice the timesteps are always enough.
    With fewer the oldest timesteps go when the rows run out.

    A place is an index into the flat columns [timesteps * N, ...], to be wrapped around at their end: timestep * N +
    environment, where the oldest timestep is ``oldest``.
    """

    def __init__(self, specs: Mapping[str, SpecTree], timesteps: int, num_envs: int, num_rows: int) -> None:
        stored = {key: spec for key, spec in specs.items() if key not in columns.OBSERVATIONS}
        self.timesteps, self.num_envs, self.num_rows = timesteps, num_envs, num_rows
        self._rows_may_run_out = num_rows < 2 * timesteps
        self._columns: dict[str, ArrayTree] = columns.allocate(stored, timesteps, num_envs)
        self._rows: ArrayTree = columns.allocate(specs["observation"], num_rows, num_envs)
        self._start = np.zeros((timesteps, num_envs), _INDEX)  # index into the flat rows: row * N + environment
        self._valid: Array | None = None  # [timesteps, N]; made when the first row comes that is not a transition
        self._envs = np.arange(num_envs)
        self._num_envs = np.array(num_envs, _INDEX)  # an array is half the work of a Python number, for arithmetic
        self._vector = Layout(self._columns, self._rows)
        self.columns: dict[str, ArrayTree] = columns.merge_axes(self._columns)
        # The fastest way differs: plain indexing of numbers, ``take`` of anything larger.
        self._numbers = {key: c for key, c in self.columns.items() if isinstance(c, np.ndarray) and c.ndim == 1}
        self._others = {key: column for key, column in self.columns.items() if key not in self._numbers}
        self._flat_rows: ArrayTree = columns.merge_axes(self._rows)
        self._flat_start = self._start.reshape(-1)
        # One environment needs no axis of its own, which makes storing faster.
        self._single = Layout(self.columns, self._flat_rows)
        self.clear()

    @staticmethod
    def spare_rows(timesteps: int, row_bytes: int, at_most: int = 2) -> int:
        """As many as could ever be needed if they take at most 64 MiB, else an eighth of the timesteps.

        A timestep needs ``at_most`` rows at most.
        """
        needed = at_most - 1  # beside one for every timestep
        return min(needed * timesteps, max(timesteps // 8, _SPARE_BYTES // max(row_bytes, 1), needed))

    @staticmethod
    def needed_bytes(specs: Mapping[str, SpecTree], timesteps: int, num_envs: int, num_rows: int) -> int:
        """Bytes that the arrays of a ring take."""
        stored = {key: spec for key, spec in specs.items() if key not in columns.OBSERVATIONS}
        per_timestep = num_envs * (columns.nbytes(stored) + _INDEX.itemsize)
        return timesteps * per_timestep + num_rows * num_envs * columns.nbytes(specs["observation"])

    def clear(self) -> None:
        """Forget every timestep."""
        self.oldest = self.count = 0  # in timesteps: where the oldest is, and how many are stored
        self.num_skipped = 0  # their rows that are not transitions
        self._row = 0  # the row of the newest next observation
        self._handed: Any = _NOTHING  # the very object that came last as next_observation
        self._ended = False  # did any environment's episode end with it?

    def __len__(self) -> int:
        return self.count * self.num_envs - self.num_skipped

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        valid = 0 if self._valid is None else self._valid.nbytes
        return columns.nbytes(self._columns) + columns.nbytes(self._rows) + self._start.nbytes + valid

    def step(self, transition: Mapping[str, Any]) -> None:
        """Store a transition of the only environment, without a batch axis; KeyError or ValueError if it cannot be."""
        self._single.check(transition)
        self._store(self._single, transition)
        self._ended = bool(transition["terminated"] or transition["truncated"])

    def extend(self, batch: Mapping[str, Any], mask: Array | None) -> None:
        """Store a timestep of all environments; KeyError or ValueError if it cannot be."""
        self._vector.check(batch)
        skipped = self._skipped(mask)
        if skipped is not None:
            self._close(skipped)
        self._store(self._vector, batch, skipped)
        # Looking for a byte beats ``any`` on few truth values.
        self._ended = any(1 in np.asarray(batch[key], np.bool_).tobytes() for key in FLAGS)

    def gather(self, first: Array, last: Array) -> dict[str, ArrayTree]:
        """What is stored at the places ``first``, but flags and next observation of those at ``last``; copies."""
        if self.oldest:  # else no place is beyond the end
            size = self.timesteps * self.num_envs
            first, last = (first % size,) * 2 if first is last else (first % size, last % size)
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

    def valid(self, places: Array) -> Array:
        """Are there transitions at these places? Bool, of the shape of ``places``."""
        if self._valid is None:
            return np.ones(places.shape, np.bool_)
        return np.asarray(take(self._valid.reshape(-1), places))

    def places(self, newest: int | None = None) -> Array:
        """The places of the transitions of so many of the newest timesteps (None: of all), oldest first."""
        high = (self.oldest + self.count) * self.num_envs
        places = np.arange(high - (self.count if newest is None else newest) * self.num_envs, high)
        return places[self.valid(places)]

    def state_dict(self) -> State:
        """Copies of what is stored, oldest first."""
        timesteps = np.arange(self.oldest, self.oldest + self.count)
        first, used_rows = self._first_row(), self._used_rows()
        state: dict[str, Any] = {
            "used_rows": used_rows,
            "start": (take(self._start[:, 0], timesteps) // self.num_envs - first) % self.num_rows,
            "columns": take(self._columns, timesteps),
            "rows": take(self._rows, np.arange(first, first + used_rows)),
        }
        if self._valid is not None and self.num_skipped:
            state["valid"] = take(self._valid, timesteps)
        return state

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned; ValueError, and nothing is changed, if it does not fit."""
        start, used_rows = np.asarray(state["start"]), int(state["used_rows"])
        count = len(start)
        if count > self.timesteps or used_rows > self.num_rows:
            raise ValueError(
                f"the saved memory has {count} timesteps in {used_rows} rows,"
                f" this one has places for {self.timesteps} in {self.num_rows}"
            )
        columns.check_saved("columns", state["columns"], self._columns, count)
        columns.check_saved("observation", state["rows"], self._rows, used_rows)
        self.clear()
        self._valid = None
        columns.restore(state["columns"], self._columns)
        columns.restore(state["rows"], self._rows)
        self._start[:count] = start[:, None] * self.num_envs + self._envs
        self.count, self._row = count, max(used_rows - 1, 0)
        if "valid" in state:
            self._mark(slice(count), ~np.asarray(state["valid"]))

    def _store(self, layout: Layout, values: Mapping[str, Any], skipped: Array | None = None) -> None:
        """Store one timestep, of which the rows ``skipped`` are not transitions."""
        observation, next_observation = values["observation"], values["next_observation"]
        # The same object can hold something else by now if its environment was reset in place, so not after an end.
        goes_on = (observation is self._handed and not self._ended) or self._goes_on(layout, observation)
        if self.count == self.timesteps or self._rows_may_run_out:
            self._make_room(1 if goes_on else 2)
        start = self._row
        if not goes_on:
            start = (start + 1) % self.num_rows
            layout.put_observation(start, observation)
        row = (start + 1) % self.num_rows
        layout.put_observation(row, next_observation)
        timestep = (self.oldest + self.count) % self.timesteps
        layout.put_columns(timestep, values)
        self._row = row  # not before: what cannot be stored must leave no trace
        self._start[timestep] = start if self.num_envs == 1 else start * self.num_envs + self._envs
        self.count += 1
        self._handed = next_observation
        if skipped is not None:
            self._mark(timestep, skipped)
        elif self._valid is not None:
            self._valid[timestep] = True

    def _goes_on(self, layout: Layout, observation: Any) -> bool:
        """Is this, in every environment, the newest next observation? Where it is not, an episode was cut."""
        if not self.count:
            return False
        differs = layout.differs(self._row, observation, self.num_envs)
        if differs is None:
            return True
        self._close(differs)
        return False

    def _close(self, cut: Array) -> None:
        """Mark the newest timestep as truncated where ``cut`` [N] is True, unless it was terminated."""
        if self.count:
            newest = (self.oldest + self.count - 1) % self.timesteps
            terminated, truncated = (np.asarray(self._columns[key])[newest] for key in FLAGS)
            truncated[cut & (terminated == 0)] = 1

    def _make_room(self, rows: int) -> None:
        """Forget the oldest timesteps until one more, and so many rows, have room."""
        if self.count == self.timesteps:
            self._forget_oldest()
        if self._rows_may_run_out:
            while self.count and self._used_rows() + rows > self.num_rows:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        if self._valid is not None and self.num_skipped:
            self.num_skipped -= self.num_envs - int(np.count_nonzero(self._valid[self.oldest]))
        self.oldest = (self.oldest + 1) % self.timesteps
        self.count -= 1

    def _first_row(self) -> int:
        return int(self._start[self.oldest, 0]) // self.num_envs if self.count else 0

    def _used_rows(self) -> int:
        return (self._row - self._first_row()) % self.num_rows + 1 if self.count else 0

    def _skipped(self, mask: Array | None) -> Array | None:
        """Where a row is not a transition [N]; None for nowhere."""
        if mask is None:
            return None
        mask = np.asarray(mask)
        if mask.shape != (self.num_envs,) or mask.dtype != np.bool_:
            raise ValueError(f"mask must be bool of shape {(self.num_envs,)}, got {mask.dtype} of shape {mask.shape}")
        return None if mask.all() else ~mask

    def _mark(self, timestep: int | slice, skipped: Array) -> None:
        """Remember which rows are not transitions."""
        if self._valid is None:
            self._valid = np.ones((self.timesteps, self.num_envs), np.bool_)
        self._valid[timestep] = ~skipped
        self.num_skipped += int(np.count_nonzero(skipped))
