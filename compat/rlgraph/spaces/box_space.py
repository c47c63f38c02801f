"""Base of spaces of numbers: shapes, dtypes and bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import integer, refuse
from .space import Rank, Space

LARGEST: Final = float(np.finfo(np.float32).max)
"""Numbers beyond are infinite as float32; bounds from here on are none."""


class BoxSpace(Space):
    """Values of one shape and dtype.

    Attributes:
        low, high: the bounds, an array of shape () if all numbers have the same, else one of the space's shape.
    """

    low: Array
    high: Array
    _shape: tuple[int, ...]
    _dtype: np.dtype[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Without batch and time."""
        return self._shape

    def get_shape(
        self,
        with_batch_rank: Rank = False,
        with_time_rank: Rank = False,
        time_major: bool | None = None,
        with_category_rank: bool = False,
    ) -> tuple[Any, ...]:
        """See :meth:`Space.get_shape`."""
        asked = ((with_batch_rank, self.has_batch_rank), (with_time_rank, self.has_time_rank))
        ranks = [(None if wanted is True else wanted,) if wanted is not False and has else () for wanted, has in asked]
        if self.time_major if time_major is None else time_major:
            ranks.reverse()
        categories = getattr(self, "num_categories", None)
        return (*ranks[0], *ranks[1], *self._shape, *([categories] if with_category_rank and categories else []))

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32, int32, uint8 or bool."""
        return self._dtype

    @property
    def bounds(self) -> tuple[Array, Array]:
        """``(low, high)``."""
        return self.low, self.high

    @property
    def unbounded(self) -> bool:
        """Have the numbers no bounds at all? Integers have no categories then."""
        return False

    def flat(self) -> dict[str, BoxSpace]:
        """The box itself, under an empty name."""
        return {"": self}

    def flatten(self, value: Any) -> dict[str, Any]:
        """The value under an empty name."""
        return {"": value}

    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        """The array under the empty name."""
        return arrays[""]

    def to_spec(self) -> dict[str, Any]:
        """Type, shape and bounds; infinite ones are strings, as JSON has none."""
        kind = {"b": "bool", "f": "float"}.get(self._dtype.kind, "int")
        is_free = kind == "bool" or self.unbounded
        bounds = {} if is_free else {"low": _in_json(self.low), "high": _in_json(self.high)}
        dtype = {"dtype": "uint8"} if self._dtype == np.uint8 else {}
        return {"type": kind, "shape": list(self._shape), **bounds, **dtype}

    @abstractmethod
    def problem(self, array: Array, *, bounded: bool) -> str:
        """The problem with numbers of an array of any shape, such as ``"must be finite"``; empty if there is none.

        Args:
            array: one value or a batch, whose last axes are the space's.
            bounded: must floats be within the bounds? Integers always must.
        """

    @abstractmethod
    def drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Random numbers, not yet of the dtype."""

    def listed(self, function: Callable[[Any], Any]) -> Any:
        """See :meth:`Space.listed`."""
        return function(self)

    def _set_bounds(self, shape: Any, low: Any, high: Any, free: tuple[float, float]) -> None:
        """Shape and bounds of arguments: a shape, or bounds that have one; ``free`` are the bounds of all numbers."""
        name, dtype = type(self).__name__, np.float32 if self._dtype.kind == "f" else np.int64
        self._unbounded = low is None and high is None
        if self._unbounded:
            low, high = free
        elif high is None:
            low, high = 0, low
        elif low is None:
            refuse(f"{name}: low", "is missing: give both bounds, of which those of floats may be infinite", low)
        low, high = _bound(f"{name}: low", low, dtype), _bound(f"{name}: high", high, dtype)
        self._shape = shape = read_shape(f"{name}: shape", (low.shape or high.shape) if shape is None else shape)
        for argument, array in (("low", low), ("high", high)):
            if array.shape not in ((), shape):
                problem = f"has the shape {array.shape}; it must be one number or have the shape {shape}"
                refuse(f"{name}: {argument}", problem, array)
        low, high = _uniform(low), _uniform(high)
        if low.ndim != high.ndim:
            low, high = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
        for array in (low, high):
            array.flags.writeable = False
        self.low, self.high = low, high

    def __repr__(self) -> str:
        bounds = [] if self._dtype.kind == "b" or self.unbounded else [shown(self.low), shown(self.high)]
        if self._dtype.kind != "f" and bounds[:1] == ["0"]:
            bounds = bounds[1:]
        shape = [f"shape={self._shape}"] if self._shape or self._dtype.kind == "f" else []
        dtype = ["dtype='uint8'"] if self._dtype == np.uint8 else []
        return f"{type(self).__name__}({', '.join([*bounds, *shape, *dtype])})"


def read_shape(argument: str, given: Any) -> tuple[int, ...]:
    """A shape without batch and time: sizes of at least 1."""
    if not isinstance(given, tuple | list):
        refuse(argument, f"must be a tuple of integers, got {shortened(given)}", given)
    return tuple(integer(argument, size, at_least=1) for size in given)


def dtype_of(argument: str, given: Any, allowed: tuple[str, ...]) -> str:
    """The name of a dtype, one of those allowed."""
    try:
        name = np.dtype(given).name
    except TypeError:
        name = ""
    if name not in allowed:
        refuse(argument, f"must be one of {', '.join(allowed)}; got {given!r}", given)
    return str(name)


def _bound(argument: str, given: Any, dtype: DTypeLike) -> Array:
    """One number or an array; ``"inf"`` is one, as JSON has none. Floats that float32 cannot hold are infinite."""
    try:
        array = np.array(given, np.float64)
    except (ValueError, TypeError, OverflowError):
        array = np.array(math.nan)
    if np.isnan(array).any() or isinstance(given, bool):
        refuse(argument, f"must be a number or an array of numbers, got {shortened(given)}", given)
    if dtype is np.float32:
        return np.where(np.abs(array) >= LARGEST, np.copysign(math.inf, array), array).astype(np.float32)
    if not (np.floor(array) == array).all() or (np.abs(array) > 2**32).any():
        refuse(argument, f"must be integers of int32, got {shortened(given)}", given)
    return array.astype(np.int64)


def _uniform(bound: Array) -> Array:
    """One number instead of equal ones."""
    return np.array(bound.flat[0]) if bound.size and (bound == bound.flat[0]).all() else bound


def _in_json(bound: Array) -> Any:
    """A number or nested lists; infinite ones as strings."""
    if bound.ndim:
        return [_in_json(row) for row in bound]
    return bound.item() if np.isfinite(bound) else str(bound.item())


def shown(bound: Array) -> str:
    """Bounds for messages."""
    return " ".join(str(bound.tolist()).split())
