"""States in parts, so that a message of several gigabytes need not fit into the object store at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.chunked_arrays import Stream
from ..core.protocols import Array, State

PART_BYTES: Final = 64 * 2**20
"""Of a message."""


class Leaf(NamedTuple):
    """Stands in an outline for the array of this number, shape and dtype."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Rows(NamedTuple):
    """Rows ``begin`` .. ``end - 1`` of the array of a number."""

    number: int
    begin: int
    end: int


def outlined(state: State) -> tuple[State, list[Any]]:
    """A state with a :class:`Leaf` in the place of each array [n, ...] and stream; and these."""
    leaves: list[Any] = []

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: walk(one) for key, one in value.items()}
        if isinstance(value, Stream) or (isinstance(value, np.ndarray) and value.ndim):
            leaves.append(value)
            return Leaf(len(leaves) - 1, tuple(value.shape), value.dtype)
        return value

    return walk(state), leaves


def leaves_of(outline: Any) -> list[Leaf]:
    """Those of an outline, by their numbers."""
    if isinstance(outline, Leaf):
        return [outline]
    if not isinstance(outline, Mapping):
        return []
    return sorted(leaf for value in outline.values() for leaf in leaves_of(value))


def messages(leaves: Sequence[Leaf], most: int) -> Iterator[list[Rows]]:
    """All rows, in messages of at most so many bytes, or of one row."""
    message: list[Rows] = []
    room = most
    for number, shape, dtype in leaves:
        row, begin = max(int(np.prod(shape[1:], dtype=np.int64)) * dtype.itemsize, 1), 0
        while begin < shape[0]:
            if room < row and message:
                yield message
                message, room = [], most
            end = min(begin + max(room // row, 1), shape[0])
            message.append(Rows(number, begin, end))
            room -= (end - begin) * row
            begin = end
    if message:
        yield message


def read(leaves: Sequence[Any], message: Sequence[Rows]) -> list[Array]:
    """The rows of a message."""
    return [np.asarray(Stream.of(leaves[number]).part(begin, end)) for number, begin, end in message]


class Assembled:
    """A state that is put together of messages.

    Args:
        outline: of :func:`outlined`.
    """

    def __init__(self, outline: State) -> None:
        self._outline = outline
        self._arrays: list[Array] = [np.empty(leaf.shape, leaf.dtype) for leaf in leaves_of(outline)]

    def put(self, message: Sequence[Rows], rows: Sequence[Array]) -> None:
        """Rows that have come; they are copied."""
        for (number, begin, end), values in zip(message, rows, strict=True):
            self._arrays[number][begin:end] = values

    def state(self) -> State:
        """The whole."""

        def walk(value: Any) -> Any:
            if isinstance(value, Leaf):
                return self._arrays[value.number]
            return {key: walk(one) for key, one in value.items()} if isinstance(value, Mapping) else value

        whole: State = walk(self._outline)
        return whole
