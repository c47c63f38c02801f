"""Frames: a ring whose observations are stacks of frames, with each frame stored once instead of once per stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..core.chunked_arrays import Stream, kept
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArraySpec, ArrayTree, SpecTree, State
from .columns import OBSERVATIONS, Layout, Zeros, allocate, check_saved, in_memory, merge_axes, rows_of_bytes, take
from .ring import Ring
from .ring_state import Circle, Names

_PLACE = ArraySpec((), np.intp)


class Stack(NamedTuple):
    """Observations that are stacks: their spec, the number of frames, and the axis they lie along (0 or -1)."""

    spec: ArraySpec
    size: int
    axis: int

    @classmethod
    def of(cls, spec: SpecTree, size: int) -> Stack:
        """Find the axis of the frames; see the argument ``frame_stack`` of ``Memory``.

        Raises:
            ArgumentError: observations of this spec are not stacks of ``size`` frames.
        """
        if isinstance(spec, Mapping):
            raise ArgumentError(
                f"frame_stack={size} needs observations that are one array, got a dictionary of {', '.join(spec)}",
                "frame_stack",
                size,
            )
        first, last = spec.shape[:1] == (size,), spec.shape[-1:] == (size,)
        if not first and not last:
            raise ArgumentError(
                f"frame_stack={size} needs observations with {size} frames along their first or last axis,"
                f" got observations of shape {spec.shape}",
                "frame_stack",
                size,
            )
        image = len(spec.shape) == 3
        return cls(spec, size, -1 if last and (image or not first) else 0)

    @property
    def frame(self) -> ArraySpec:
        """The spec of one frame."""
        shape = self.spec.shape
        return ArraySpec(shape[1:] if self.axis == 0 else shape[:-1], self.spec.dtype)


class Frames:
    """Frames of successive stacks in N lanes: rows [num_rows, N, *frame].

    A stack is k consecutive rows, the oldest frame first. If it begins with the last k - 1 frames of the previous
    stack, only its last frame is stored; if it equals that stack, nothing; otherwise all k. So reading always returns
    the stored stacks bit for bit. Each lane has its own rows. The first stack follows a stack of zeros.

    Rows are numbered from 0 and wrapped around only where the array is indexed. The *place* of a stack is
    (number of its first row) * N + lane.
    """

    def __init__(self, stack: Stack, num_rows: int, num_envs: int, zeros: Zeros = in_memory) -> None:
        self.stack, self.num_rows, self._num_envs = stack, num_rows, num_envs
        self._lanes = np.arange(num_envs)
        self._rows: Array = allocate(stack.frame, num_rows, num_envs, name="frames", zeros=zeros)
        self._flat_rows: Array = merge_axes(self._rows)
        self._newest: Array = allocate(stack.frame, num_envs, stack.size, name="newest")  # stack of each lane
        self._start: Array = np.zeros(num_envs, np.intp)  # its first row
        self._offsets = np.arange(stack.size) * num_envs
        self._circles = [Circle(self._rows[:, lane]) for lane in range(num_envs)]
        self._names = Names()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._rows.nbytes + self._newest.nbytes

    @property
    def end(self) -> Array:
        """The row after the newest one in each lane [N]."""
        return self._start + self.stack.size

    def arrange(self, observations: Any) -> Array:
        """Observations [N, ...], or [...] of the only lane, as stacks [N, k, *frame] of the stored dtype."""
        spec = self.stack.spec
        stacks = np.asarray(observations, spec.dtype).reshape(self._num_envs, *spec.shape)
        return np.ascontiguousarray(stacks if self.stack.axis == 0 else np.moveaxis(stacks, -1, 1))

    def missing(self, stacks: Array) -> Array:
        """Number of last frames of each stack that must be stored [N]: 0, 1 or k."""
        old, new = _bytes(self._newest), _bytes(stacks)
        same = (old == new).all(axis=(1, 2))
        if same.all():
            return np.zeros(self._num_envs, np.intp)
        shifted = (old[:, 1:] == new[:, :-1]).all(axis=(1, 2))
        return np.where(same, 0, np.where(shifted, 1, self.stack.size))

    def put(self, stacks: Array, missing: Array) -> Array:
        """Store the ``missing`` frames of stacks [N, k, *frame], and return the places of the newest stacks [N]."""
        if missing.any():
            self._start = self._start + missing
            for back in range(1, missing.max() + 1):
                lanes = np.flatnonzero(missing >= back)
                self._rows[(self.end[lanes] - back) % self.num_rows, lanes] = stacks[lanes, -back]
            self._newest[missing > 0] = stacks[missing > 0]
        places: Array = self._start * self._num_envs + self._lanes
        return places

    def get(self, places: Array) -> Array:
        """The observations [..., *shape] at these places [...]; a copy."""
        stacks = self._at(places)
        if self.stack.axis == 0:
            return stacks
        # Frame by frame: with a stack's few frames as the innermost loop, copying takes twenty times as long.
        return np.stack(list(np.moveaxis(stacks, places.ndim, 0)), -1)

    def state_dict(self, first: Array) -> State:
        """The frames from the rows ``first`` [N] on, one lane after the other: copies, or streams."""
        stretches = list(zip(first.tolist(), self.end.tolist(), strict=True))
        return {
            "stack_axis": self.stack.axis,
            "first_frame": first,
            "num_frames": self.end - first,
            "frames": kept(self._names.stream("frames", self._circles, stretches)),
        }

    def check_state(self, state: State) -> None:
        """ValueError if :meth:`load_state_dict` cannot take over ``state``."""
        if state["stack_axis"] != self.stack.axis:
            raise ValueError(
                f"the saved memory has its frames along axis {state['stack_axis']}, this one along {self.stack.axis}"
            )
        num_frames = np.asarray(state["num_frames"])
        if num_frames.max() > self.num_rows:
            raise ValueError(
                f"the saved memory has {num_frames.max()} frames of a lane, this one has room for {self.num_rows}"
            )
        check_saved("frames", state["frames"], self._flat_rows, int(num_frames.sum()))

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned."""
        first: Any = np.asarray(state["first_frame"])
        end = first + np.asarray(state["num_frames"])
        stretches = list(zip(first.tolist(), end.tolist(), strict=True))
        self._names = Names()
        self._names.restore(self._circles, stretches, Stream.of(state["frames"]))
        self._start = end - self.stack.size
        self._newest[...] = self._at(self._start * self._num_envs + self._lanes)

    def _at(self, places: Array) -> Array:
        """Stacks [..., k, *frame]."""
        stacks: Array = take(self._flat_rows, (places[..., None] + self._offsets) % len(self._flat_rows))
        return stacks


class FrameRing(Ring):
    """A ring of stacks, whose rows of observations hold their places in Frames.

    Successive stacks share a place if and only if they are equal: so places show whether an episode continues.
    """

    def __init__(
        self,
        specs: Mapping[str, SpecTree],
        stack: Stack,
        timesteps: int,
        num_envs: int,
        zeros: Zeros = in_memory,
    ) -> None:
        # One row per timestep, and spare rows for stacks stored whole.
        num_rows = timesteps + Ring.spare_rows(timesteps, num_envs * stack.frame.nbytes, 2 * stack.size)
        self._frames = Frames(stack, num_rows, num_envs, zeros)
        with_places = {**specs, **dict.fromkeys(OBSERVATIONS, _PLACE)}
        super().__init__(with_places, timesteps, num_envs, 2 * timesteps, zeros)
        self._single_places, self._vector_places = self._single, self._vector
        # Observations are checked as stacks, which no array holds: broadcast a single number instead.
        stacks = np.broadcast_to(np.zeros((), stack.spec.dtype), (1, num_envs, *stack.spec.shape))
        self._single, self._vector = Layout(self.columns, stacks[:, 0]), Layout(self._columns, stacks)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return super().nbytes + self._frames.nbytes

    def gather(self, first: Array, last: Array) -> dict[str, ArrayTree]:
        """Copies of the values at the places ``first``, with flags and next observations from those at ``last``."""
        batch = super().gather(first, last)
        for key in OBSERVATIONS:
            batch[key] = self._frames.get(np.asarray(batch[key]))
        return batch

    def state_dict(self) -> State:
        """Stored values and their timesteps: copies, or streams."""
        newest = self._frames.end - self._frames.stack.size  # the frames of the newest stack are always needed
        first = np.where(self.counts > 0, self._oldest_frames(), newest)
        return {**super().state_dict(), **self._frames.state_dict(first)}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned; ValueError, with nothing changed, if it does not fit."""
        self._frames.check_state(state)
        super().load_state_dict(state)
        self._frames.load_state_dict(state)

    def _store(self, layout: Layout, values: Mapping[str, Any]) -> None:
        """Store one timestep of all lanes, in lock step."""
        places = self._put(values, None)
        if layout is self._single:
            super()._store(self._single_places, {**values, **{key: one[0] for key, one in places.items()}})
        else:
            super()._store(self._vector_places, {**values, **places})

    def _store_lanes(self, layout: Layout, lanes: Array, batch: Mapping[str, Any]) -> None:
        """Store one timestep of some lanes, each at its own place."""
        super()._store_lanes(self._vector_places, lanes, {**batch, **self._put(batch, lanes)})

    def _put(self, values: Mapping[str, Any], lanes: Array | None) -> dict[str, Array]:
        """Store the stacks of some lanes (None: all); return the places of the newest stacks of all lanes, by key."""
        given = {key: self._frames.arrange(values[key]) for key in OBSERVATIONS}
        places = {}
        for key, stacks in given.items():
            missing = self._frames.missing(stacks)
            if lanes is not None:
                missing[np.isin(self._lanes, lanes, invert=True)] = 0
            self._make_room_for_frames(missing)
            places[key] = self._frames.put(stacks, missing)
        return places

    def _make_room_for_frames(self, missing: Array) -> None:
        """Forget the oldest timesteps until each lane has room for ``missing`` [N] frames."""
        while True:
            needed = self._frames.end + missing - self._oldest_frames()
            full = (needed > self._frames.num_rows) & (self.end > self.begin)
            if not full.any():
                return
            self.begin = self.begin + (1 if self.lockstep else full)

    def _oldest_frames(self) -> Array:
        """The rows [N] of the first frames of the oldest timesteps."""
        places: Array = take(self._flat_rows, self._start[self.begin % self.timesteps, self._lanes])
        return places // self.num_envs


def _bytes(stacks: Array) -> Array:
    """Bytes of stacks [N, k, *frame] as [N, k, bytes]: NaN must equal itself here, and zero differ from minus zero."""
    return rows_of_bytes(stacks).reshape(*stacks.shape[:2], -1)
