"""Values of Gymnasium's spaces turned into those of ours, and back: only dtypes differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..spaces import BoxSpace, FloatBox, IntBox, Space


class Values:
    """Reads and writes the values of one space.

    Args:
        ours: the space that ``space_of`` made.
        theirs: Gymnasium's.
    """

    def __init__(self, ours: Space, theirs: Any) -> None:
        self.read: Callable[[Any], Any] = _reader(ours)
        self.write: Callable[[Any], Any] = _writer(ours, theirs)
        is_number = isinstance(ours, IntBox) and ours.shape == ()
        self._range = range(int(ours.low), int(ours.high)) if isinstance(ours, IntBox) and is_number else None
        self._ours = ours

    def takes(self, value: Any) -> bool:
        """Is it a value of our space? Floats may be beyond their bounds, which is the environment's business."""
        if self._range is not None and type(value) in (int, np.int32, np.int64):
            return int(value) in self._range
        return _fits(self._ours, value)


def _fits(space: Space, value: Any) -> bool:
    if isinstance(space, FloatBox):
        array = _array(value)
        return array is not None and array.shape == space.shape and not space.problem(array, bounded=False)
    if isinstance(space, BoxSpace):
        return space.contains(value)
    try:
        flat = space.flatten(value)
    except ValueError:
        return False
    return all(_fits(box, flat[name]) for name, box in space.flat().items())


def _array(value: Any) -> Any:
    try:
        return np.asarray(value)
    except (ValueError, TypeError):
        return None


def _reader(ours: Space) -> Callable[[Any], Any]:
    if isinstance(ours, BoxSpace):
        dtype = ours.dtype
        return dtype.type if ours.shape == () else lambda value: np.array(value, dtype)
    flat = ours.flat()
    readers = {name: _reader(box) for name, box in flat.items()}

    def read(value: Any) -> Any:
        parts = ours.flatten(value)
        return ours.unflatten({name: reader(parts[name]) for name, reader in readers.items()})

    return read


def _writer(ours: Space, theirs: Any) -> Callable[[Any], Any]:
    if isinstance(ours, BoxSpace):
        dtype = theirs.dtype
        if isinstance(ours, IntBox) and theirs.shape == ():
            return int
        return lambda value: np.asarray(value, dtype)
    writers = {name: _writer(box, _part(theirs, name)) for name, box in ours.flat().items()}

    def write(value: Any) -> Any:
        parts = ours.flatten(value)
        return ours.unflatten({name: writer(parts[name]) for name, writer in writers.items()})

    return write


def _part(theirs: Any, name: str) -> Any:
    """Gymnasium's space under a flat name."""
    for key in name.split("/"):
        theirs = theirs[int(key)] if isinstance(theirs.spaces, tuple) else theirs[key]
    return theirs
