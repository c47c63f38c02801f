"""Frames: a ring whose observations are stacks of frames, with each frame stored once instead of once per stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..contracts import Array, ArraySpec, ArrayTree, SpecTree, State
from .columns import OBSERVATIONS, Layout, allocate, check_saved, merge_axes, take
from .ring import Ring

_PLACE = ArraySpec((), np.intp)


class Stack(NamedTuple):
    """Observations that are stacks: their spec, how many frames a stack has, and along which axis (0 or -1)."""

    spec: ArraySpec
    size: int
    axis: int

    @classmethod
    def of(cls, spec: SpecTree, size: int) -> Stack:
        """Find the axis; see the argument ``frame_stack`` of ``Memory``.

        Raises:
            ValueError: observations of this spec are no stacks of ``size`` frames.
        """
        if isinstance(spec, Mapping):
            raise ValueError(
                f"frame_stack={size} needs observations that are one array, got a dictionary of {', '.join(spec)}"
            )
        first, last = spec.shape[:1] == (size,), spec.shape[-1:] == (size,)
        if not first and not last:
            raise ValueError(
                f"frame_stack={size} needs observations with {size} frames along their first or last axis,"
                f" got observations of shape {spec.shape}"
            )
        image = len(spec.shape) == 3
        return cls(spec, size, -1 if last and (image or not first) else 0)

    @property
    def frame(self) -> ArraySpec:
        """The spec of one frame."""
        shape = self.spec.shape
        return ArraySpec(shape[1:] if self.axis == 0 else shape[:-1], self.spec.dtype)


class Frames:
    """The frames of stacks that come one after the other in each of N environments: rows [num_rows, N, *frame].

    A stack is k rows on end, the oldest frame first. Of a stack that begins with the last k - 1 frames of the one
    before only the last frame is stored, of an equal one nothing, of any other all k: what is read is bit for bit
    what was put, whatever that was. Each environment has rows of its own, so that an episode that begins in one costs
    the others nothing. It all begins as if stacks of zeros had been put.

    Rows are numbered on and on, and only wrapped around where the array is indexed. A stack is known by its *place*:
    (the number of its first row) * N + environment.
    """

    def __init__(self, stack: Stack, num_rows: int, num_envs: int) -> None:
        self.stack, self.num_rows, self._num_envs = stack, num_rows, num_envs
        self._envs = np.arange(num_envs)
        self._rows: Array = allocate(stack.frame, num_rows, num_envs)
        self._flat_rows: Array = merge_axes(self._rows)
        self._newest: Array = allocate(stack.frame, num_envs, stack.size)  # the stack put last, of each environment
        self._start: Array = np.zeros(num_envs, np.intp)  # its first row
        self._offsets = np.arange(stack.size) * num_envs

    @staticmethod
    def needed_bytes(stack: Stack, num_rows: int, num_envs: int) -> int:
        """Bytes that the arrays take."""
        return (num_rows + stack.size) * num_envs * stack.frame.nbytes

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._rows.nbytes + self._newest.nbytes

    @property
    def end(self) -> Array:
        """The row after the newest one, of each environment [N]."""
        return self._start + self.stack.size

    def arranged(self, observations: Any) -> Array:
        """Observations [N, ...], or of the only environment [...], as stacks [N, k, *frame] of the dtype stored."""
        spec = self.stack.spec
        stacks = np.asarray(observations, spec.dtype).reshape(self._num_envs, *spec.shape)
        return np.ascontiguousarray(stacks if self.stack.axis == 0 else np.moveaxis(stacks, -1, 1))

    def missing(self, stacks: Array) -> Array:
        """How many of their last frames have to be stored [N]: none, one, or all."""
        old, new = _bytes(self._newest), _bytes(stacks)
        same = (old == new).all(axis=(1, 2))
        if same.all():
            return np.zeros(self._num_envs, np.intp)
        shifted = (old[:, 1:] == new[:, :-1]).all(axis=(1, 2))
        return np.where(same, 0, np.where(shifted, 1, self.stack.size))

    def put(self, stacks: Array, missing: Array) -> Array:
        """Store of stacks [N, k, *frame] what is ``missing``, and return their places [N]."""
        if missing.any():
            self._start = self._start + missing
            for back in range(1, missing.max() + 1):
                envs = np.flatnonzero(missing >= back)
                self._rows[(self.end[envs] - back) % self.num_rows, envs] = stacks[envs, -back]
            self._newest[...] = stacks
        places: Array = self._start * self._num_envs + self._envs
        return places

    def get(self, places: Array) -> Array:
        """The observations [..., *shape] at these places [...]; an array of their own."""
        stacks = self._at(places)
        return stacks if self.stack.axis == 0 else np.ascontiguousarray(np.moveaxis(stacks, places.ndim, -1))

    def state_dict(self, first: Array) -> State:
        """Copies of the frames from the rows ``first`` [N] on: those of one environment after those of another."""
        frames = take(self._flat_rows, self._index(first, self.end))
        return {"stack_axis": self.stack.axis, "num_frames": self.end - first, "frames": frames}

    def check_state(self, state: State) -> None:
        """ValueError if ``state`` is not one that :meth:`load_state_dict` can take over."""
        if state["stack_axis"] != self.stack.axis:
            raise ValueError(
                f"the saved memory has its frames along axis {state['stack_axis']}, this one along {self.stack.axis}"
            )
        num_frames = np.asarray(state["num_frames"])
        if num_frames.max() > self.num_rows:
            raise ValueError(
                f"the saved memory has {num_frames.max()} frames of an environment, this one places for {self.num_rows}"
            )
        check_saved("frames", state["frames"], self._flat_rows, int(num_frames.sum()))

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned; the rows ``first`` become the first ones."""
        num_frames = np.asarray(state["num_frames"])
        self._flat_rows[self._index(np.zeros_like(num_frames), num_frames)] = state["frames"]
        self._start = num_frames - self.stack.size
        self._newest[...] = self._at(self._start * self._num_envs + self._envs)

    def _at(self, places: Array) -> Array:
        """Stacks [..., k, *frame]."""
        stacks: Array = take(self._flat_rows, (places[..., None] + self._offsets) % len(self._flat_rows))
        return stacks

    def _index(self, first: Array, end: Array) -> Array:
        """Where the rows ``first`` up to ``end`` [N] are in the flat array."""
        rows = [np.arange(*limits) * self._num_envs + e for e, limits in enumerate(zip(first, end, strict=True))]
        index: Array = np.concatenate(rows) % len(self._flat_rows)
        return index


class FrameRing(Ring):
    """A ring that is given stacks and returns stacks, and whose rows of observations hold their places in Frames.

    Equal stacks that follow each other have the same place, and others never: so whether an episode goes on can be
    seen from the places.
    """

    def __init__(self, specs: Mapping[str, SpecTree], stack: Stack, timesteps: int, num_envs: int) -> None:
        self._frames = Frames(stack, _num_rows(stack, timesteps, num_envs), num_envs)
        super().__init__(_with_places(specs), timesteps, num_envs, 2 * timesteps)
        self._single_places, self._vector_places = self._single, self._vector
        # What comes is checked against the shapes of stacks, which stand in no array: this one has a single number.
        stacks = np.broadcast_to(np.zeros((), stack.spec.dtype), (1, num_envs, *stack.spec.shape))
        self._single, self._vector = Layout(self.columns, stacks[:, 0]), Layout(self._columns, stacks)

    @staticmethod
    def bytes_for(specs: Mapping[str, SpecTree], stack: Stack, timesteps: int, num_envs: int) -> int:
        """Bytes that the arrays of such a ring take."""
        places = Ring.needed_bytes(_with_places(specs), timesteps, num_envs, 2 * timesteps)
        return places + Frames.needed_bytes(stack, _num_rows(stack, timesteps, num_envs), num_envs)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return super().nbytes + self._frames.nbytes

    def gather(self, first: Array, last: Array) -> dict[str, ArrayTree]:
        """What is stored at the places ``first``, but flags and next observation of those at ``last``; copies."""
        batch = super().gather(first, last)
        for key in OBSERVATIONS:
            batch[key] = self._frames.get(np.asarray(batch[key]))
        return batch

    def state_dict(self) -> State:
        """Copies of what is stored, oldest first."""
        state = dict(super().state_dict())
        rows = state["rows"] // self.num_envs
        first = rows[0] if self.count else self._frames.end
        return {**state, "rows": rows - first, **self._frames.state_dict(first)}

    def load_state_dict(self, state: State) -> None:
        """Take over what ``state_dict`` returned; ValueError, and nothing is changed, if it does not fit."""
        self._frames.check_state(state)
        super().load_state_dict({**state, "rows": np.asarray(state["rows"]) * self.num_envs + self._envs})
        self._frames.load_state_dict(state)

    def _store(self, layout: Layout, values: Mapping[str, Any], skipped: Array | None = None) -> None:
        """Store one timestep, of which the rows ``skipped`` are not transitions."""
        given = {key: self._frames.arranged(values[key]) for key in OBSERVATIONS}
        places = {key: self._put(stacks) for key, stacks in given.items()}
        if layout is self._single:
            super()._store(self._single_places, {**values, **{key: one[0] for key, one in places.items()}}, skipped)
        else:
            super()._store(self._vector_places, {**values, **places}, skipped)

    def _put(self, stacks: Array) -> Array:
        """Store the stacks of all environments; the oldest timesteps go if there are not enough rows for them."""
        missing = self._frames.missing(stacks)
        while self.count and (self._frames.end + missing - self._oldest_rows()).max() > self._frames.num_rows:
            self._forget_oldest()
        return self._frames.put(stacks, missing)

    def _oldest_rows(self) -> Array:
        """The rows [N] of the first frames of the oldest timestep."""
        places: Array = take(self._flat_rows, self._start[self.oldest])
        return places // self.num_envs


def _with_places(specs: Mapping[str, SpecTree]) -> dict[str, SpecTree]:
    return {**specs, **dict.fromkeys(OBSERVATIONS, _PLACE)}


def _num_rows(stack: Stack, timesteps: int, num_envs: int) -> int:
    """Rows of frames: one for every timestep, and spare ones for stacks that have to be stored whole."""
    return timesteps + Ring.spare_rows(timesteps, num_envs * stack.frame.nbytes, 2 * stack.size)


def _bytes(stacks: Array) -> Array:
    """The bytes of stacks [N, k, *frame] as [N, k, bytes]: NaN must equal itself here, and zero not minus zero."""
    flat: Array = stacks.reshape(*stacks.shape[:2], -1)
    return flat.view(np.uint8)
