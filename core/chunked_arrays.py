"""Streams: arrays that are saved and loaded piece by piece, so that a checkpoint writes only new items.

A memory with a large state returns streams instead of arrays (:func:`as_views`, :func:`kept`). In successive states of
a run, a series' name and an item's number always identify the same item, so that a checkpoint need not repeat items of
the previous one.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .protocols import Array, ArraySpec

CHUNK_BYTES = 1 << 18
"""Bytes of a stream that are in memory at once."""
_VIEWS: contextvars.ContextVar[bool] = contextvars.ContextVar("axonrl_views", default=False)


class Piece(NamedTuple):
    """The items ``begin`` .. ``end - 1`` of a series.

    ``read(a, b)`` returns the items a .. b - 1, [b - a, ...]; a view or a copy. In a state and all later states of its
    run, a number in a named series always identifies the same item; a series without a name (``""``) makes no such
    promise.
    """

    series: str
    begin: int
    end: int
    read: Callable[[int, int], Array]


class Stream:
    """Stands for an array [n, ...] in a state, as a sequence of pieces. ``np.asarray`` returns the array.

    Args:
        spec: shape and dtype of an item.
        pieces: its items, in order.
    """

    def __init__(self, spec: ArraySpec, pieces: Iterable[Piece]) -> None:
        self.spec = spec
        self.pieces = tuple(piece for piece in pieces if piece.end > piece.begin)

    @classmethod
    def of(cls, saved: Any) -> Stream:
        """A stream, or an array as one."""
        if isinstance(saved, Stream):
            return saved
        array = np.asarray(saved)
        return cls(ArraySpec(array.shape[1:], array.dtype), [Piece("", 0, len(array), lambda a, b: array[a:b])])

    def __len__(self) -> int:
        return sum(piece.end - piece.begin for piece in self.pieces)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The array's."""
        return self.spec.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's."""
        return (len(self), *self.spec.shape)

    @property
    def nbytes(self) -> int:
        """The array's."""
        return len(self) * self.spec.nbytes

    @property
    def series(self) -> list[tuple[str, int, int]]:
        """Name, begin and end of each series; adjacent pieces of one series count as one."""
        joined: list[tuple[str, int, int]] = []
        for series, begin, end, _ in self.pieces:
            if joined and joined[-1][0] == series and joined[-1][2] == begin:
                joined[-1] = series, joined[-1][1], end
            else:
                joined.append((series, begin, end))
        return joined

    def part(self, begin: int, end: int) -> Stream:
        """The stream of the items ``begin`` .. ``end - 1``, counted from the first one here."""
        pieces, offset = [], 0
        for piece in self.pieces:
            first = piece.begin + max(begin - offset, 0)
            offset += piece.end - piece.begin
            pieces.append(piece._replace(begin=first, end=piece.end - max(offset - end, 0)))
        return Stream(self.spec, pieces)

    def chunks(self) -> Iterator[Array]:
        """The items in arrays [k, ...] of at most 256 KiB, or of one item."""
        step = max(CHUNK_BYTES // max(self.spec.nbytes, 1), 1)
        for piece in self.pieces:
            for begin in range(piece.begin, piece.end, step):
                yield piece.read(begin, min(begin + step, piece.end))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a stream becomes an array by copying")
        array: Array = np.empty(self.shape, self.dtype if dtype is None else dtype)
        offset = 0
        for chunk in self.chunks():
            array[offset : offset + len(chunk)] = chunk
            offset += len(chunk)
        return array


@contextlib.contextmanager
def as_views() -> Iterator[None]:
    """Make :func:`kept` return views instead of copies in this context."""
    token = _VIEWS.set(True)
    try:
        yield
    finally:
        _VIEWS.reset(token)


def kept(value: Array | Stream) -> Any:
    """``value`` as ``state_dict`` returns it: a copy, or inside :func:`as_views` the value itself."""
    return value if _VIEWS.get() else np.array(value)
