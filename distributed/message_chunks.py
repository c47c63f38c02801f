"""States split into messages, so that several gigabytes need not fit into the object store at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.chunked_arrays import Stream
from ..core.protocols import Array, State
from ..core.trees import map_tree

PART_BYTES: Final = 64 * 2**20
"""Size of a message."""


class Leaf(NamedTuple):
    """Placeholder in an outline: index, shape and dtype of an array."""

    number: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


class Rows(NamedTuple):
    """Rows ``begin`` .. ``end - 1`` of the array of this index."""

    number: int
    begin: int
    end: int


def outline_of(state: State) -> tuple[State, list[Any]]:
    """Replace each array [n, ...] and chunked array of a state by a :class:`Leaf`; return outline and arrays."""
    arrays: list[Any] = []

    def leaf(value: Any) -> Any:
        if isinstance(value, Stream) or (isinstance(value, np.ndarray) and value.ndim):
            arrays.append(value)
            return Leaf(len(arrays) - 1, tuple(value.shape), value.dtype)
        return value

    return map_tree(leaf, state), arrays


def leaves_of(outline: State) -> list[Leaf]:
    """Leaves of an outline, by index."""
    found: list[Leaf] = []
    map_tree(lambda value: found.append(value) if isinstance(value, Leaf) else None, outline)
    return found


def messages(leaves: Sequence[Leaf], most: int) -> Iterator[list[Rows]]:
    """Split all rows into messages of at most ``most`` bytes, or of one row."""
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
    """Read the rows of a message."""
    return [np.asarray(Stream.of(leaves[number]).part(begin, end)) for number, begin, end in message]


class StateAssembler:
    """A state assembled from messages.

    Args:
        outline: see :func:`outline_of`.
    """

    def __init__(self, outline: State) -> None:
        self._outline = outline
        self._arrays: list[Array] = [np.empty(leaf.shape, leaf.dtype) for leaf in leaves_of(outline)]

    def put(self, message: Sequence[Rows], rows: Sequence[Array]) -> None:
        """Copy received rows into place."""
        for (number, begin, end), values in zip(message, rows, strict=True):
            self._arrays[number][begin:end] = values

    def state(self) -> State:
        """The complete state."""
        whole: State = map_tree(
            lambda value: self._arrays[value.number] if isinstance(value, Leaf) else value, self._outline
        )
        return whole
