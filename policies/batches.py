"""The batch interface of executors: converts any memory's arrays to the traced dtypes and shapes."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.checks import shortened
from ..core.protocols import Array, ArraySpec, ArrayTree, SpecTree

_dtype_of = operator.attrgetter("dtype")


class BatchBoundary:
    """Reads the arrays of a batch by key, and converts them if that is lossless.

    A user's memory may return other dtypes and byte orders than declared, or lists instead of arrays.

    Args:
        specs: those of a traced batch, by key, and by name within a Dict.
        read: indices of the arrays that a program reads, in the order of :meth:`arrays`; None for all.
    """

    def __init__(self, specs: Mapping[str, SpecTree], read: Collection[int] | None = None) -> None:
        self._specs = specs
        places = _places(specs)
        self.number = len(places)
        self._places = [place for i, place in enumerate(places) if read is None or i in read]
        self._dtypes = [_at(specs, *place).dtype for place in self._places]
        self._pick = _picker(self._places)

    def arrays(self, batch: Mapping[str, ArrayTree]) -> Sequence[Array]:
        """Return the arrays that are read, ordered by key. Arrays that need no conversion are not copied.

        Raises:
            ValueError: a key is missing, or an array cannot be converted without loss.
        """
        try:
            arrays: Sequence[Array] = self._pick(batch)
            if list(map(_dtype_of, arrays)) == self._dtypes:
                return arrays
        except (AttributeError, IndexError, KeyError, TypeError):  # lists, scalars, missing keys
            pass
        found: Sequence[Array] = self._pick(self.convert(batch))
        return found

    def convert(self, batch: Mapping[str, ArrayTree]) -> dict[str, ArrayTree]:
        """Check and convert all arrays of the batch.

        Raises:
            ValueError: it is not a mapping, a key is missing, a shape is wrong, or an array cannot be converted without
                loss.
        """
        if not isinstance(batch, Mapping):
            raise ValueError(f"the memory's batch must be a mapping of names to arrays, got {shortened(batch)}")
        return {key: _convert(f"batch[{key!r}]", spec, batch.get(key)) for key, spec in self._specs.items()}


def _convert(name: str, spec: SpecTree, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{name} is missing: the memory's batches had it when training started")
    if not isinstance(spec, ArraySpec):
        if not isinstance(value, Mapping):
            raise ValueError(f"{name} must be a dict with the keys {sorted(spec)}, got {type(value).__name__}")
        return {key: _convert(f"{name}[{key!r}]", leaf, value.get(key)) for key, leaf in spec.items()}
    given = np.asarray(value)
    if given.dtype == spec.dtype and given.shape == spec.shape:
        return given
    expected = f"{spec.dtype}{list(spec.shape)}"
    if given.shape != spec.shape or not _is_convertible(given.dtype, spec.dtype):
        raise ValueError(f"{name} must be {expected}, got {given.dtype}{list(given.shape)}")
    with np.errstate(over="ignore", invalid="ignore"):
        array = given.astype(spec.dtype)
    if given.dtype.kind == spec.dtype.kind == "f":
        lost = bool((np.isfinite(given) & ~np.isfinite(array)).any())
    else:
        lost = not np.array_equal(array, given)
    if lost:
        raise ValueError(f"{name} has values that {expected} cannot hold, got {given.dtype}{list(given.shape)}")
    return array


def _is_convertible(given: np.dtype[Any], expected: np.dtype[Any]) -> bool:
    kinds = {"f": "fiub", "i": "iub", "u": "iub", "b": "b"}
    return given.kind in kinds.get(expected.kind, expected.kind)


def _picker(places: Sequence[tuple[str, str | None]]) -> Any:
    """Make a function that returns the arrays of a batch at these places."""
    if len(places) > 1 and all(part is None for _, part in places):
        return operator.itemgetter(*(key for key, _ in places))
    return lambda batch: [batch[key] if part is None else batch[key][part] for key, part in places]


def _places(specs: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Key of each array of a batch, and its name within a Dict; in the order of ``leaves``."""
    found: list[tuple[str, str | None]] = []
    for key, spec in sorted(specs.items()):
        found += [(key, None)] if isinstance(spec, ArraySpec) else [(key, part) for part in sorted(spec)]
    return found


def _at(specs: Mapping[str, Any], key: str, part: str | None) -> ArraySpec:
    spec = specs[key] if part is None else specs[key][part]
    if not isinstance(spec, ArraySpec):
        raise TypeError(f"{key} is not an array")
    return spec
