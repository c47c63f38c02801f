"""Circles: circular buffers whose items are numbered without end, and the names under which items are saved."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..core.chunked_arrays import Piece, Stream
from ..core.protocols import Array, ArraySpec
from .mapped import is_mapped, release


class Circle(NamedTuple):
    """An array [capacity, ...] in which item n, of any size, stands at n % capacity."""

    array: Array

    def read(self, begin: int, end: int) -> Array:
        """The items ``begin`` .. ``end - 1``; a view if they are contiguous and in RAM."""
        low, count = begin % len(self.array), end - begin
        if low + count <= len(self.array):
            items: Array = self.array[low : low + count]
            return _taken_out(items) if is_mapped(items) else items
        return np.concatenate([self.array[low:], self.array[: low + count - len(self.array)]])

    def write(self, begin: int, values: Array) -> None:
        """Put items at ``begin``, ``begin + 1``, ..."""
        low = begin % len(self.array)
        fit = len(self.array) - low
        self.array[low : low + len(values)] = values[:fit]
        if is_mapped(self.array):
            release(self.array[low : low + len(values)])
        self.array[: max(len(values) - fit, 0)] = values[fit:]


def _taken_out(items: Array) -> Array:
    """A copy, after which the pages of the file need not stay in RAM."""
    copied: Array = items.copy()
    release(items)
    return copied


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
    """Names under which the items of circles are saved. Make new ones whenever numbers come to mean other items."""

    def __init__(self) -> None:
        self._own = uuid.uuid4().hex
        self._loaded: dict[str, list[tuple[str, int, int]]] = {}

    def stream(self, name: str, circles: Sequence[Circle | Starts], spans: Spans) -> Stream:
        """Stream of these items, circle by circle."""
        pieces: list[Piece] = []
        for number, (circle, (begin, end)) in enumerate(zip(circles, spans, strict=True)):
            at, key = begin, f"{name}/{number}"
            for series, first, last in self._loaded.get(key, ()):
                pieces.append(Piece(series, max(first, begin), min(last, end), circle.read))
                at = max(at, min(last, end))
            pieces.append(Piece(f"{self._own}/{key}", at, end, circle.read))
        array = circles[0].array
        return Stream(ArraySpec(array.shape[1:], array.dtype), pieces)

    def restore(self, name: str, circles: Sequence[Circle | Starts], spans: Spans, saved: Stream) -> None:
        """Put saved items back; they keep their names."""
        offset = 0
        for number, (circle, (begin, end)) in enumerate(zip(circles, spans, strict=True)):
            part = saved.part(offset, offset + end - begin)
            offset, at = offset + end - begin, begin
            for chunk in part.chunks():
                circle.write(at, chunk)
                at += len(chunk)
            self._loaded[f"{name}/{number}"] = _names_in(part, begin)


def _names_in(part: Stream, begin: int) -> list[tuple[str, int, int]]:
    """Series of a stream, if they have names and its items are numbered from ``begin``; else none."""
    at = begin
    for series, first, last in part.series:
        if not series or first != at:
            return []
        at = last
    return part.series
