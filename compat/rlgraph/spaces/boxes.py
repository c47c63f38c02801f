"""Spaces of numbers: floats, integers and truth values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

from ....core.checks import shortened
from ....core.protocols import Array
from .errors import integer, refuse
from .space import Box, Rank

LARGEST: Final = float(np.finfo(np.float32).max)
"""Numbers beyond are infinite as float32; bounds from here on are none."""
_SMALLEST_INT, _LARGEST_INT = -(2**31), 2**31 - 1
_FLOATS: Final = ("float16", "float32", "float64")
_INTS: Final = ("int8", "int16", "int32", "int64", "uint8")


class FloatBox(Box):
    """Floats, float32.

    Args:
        low: the lower bound, a number or an array; the upper one if it is given alone (``FloatBox(1.0)`` is 0 .. 1);
            None: there are no bounds. A tuple alone is the shape.
        high: the upper bound, which belongs to the space.
        shape: by default that of the bounds.
        dtype: a float dtype; values are float32 in any case.
        add_batch_rank: kept as ``has_batch_rank``; it has no effect. The same goes for ``add_time_rank``
            and ``time_major``.

    Raises:
        RLGraphError: a bound is not a number, the lower is above the upper one, or shapes do not fit.
    """

    def __init__(
        self,
        low: Any = None,
        high: Any = None,
        shape: Sequence[int] | None = None,
        dtype: DTypeLike = "float32",
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        self._dtype = np.dtype(np.float32)
        _read_dtype("FloatBox: dtype", dtype, _FLOATS)
        if isinstance(low, tuple | list) and high is None and shape is None:
            low, shape = None, low
        if low is None and high is None:
            low, high = -math.inf, math.inf
        elif high is None:
            low, high = 0.0, low
        elif low is None:
            refuse("FloatBox: low", "is missing: give both bounds, of which one may be infinite", low)
        self._shape, self.low, self.high = _bounds("FloatBox", shape, low, high, np.float32)
        if not (self.low <= self.high).all():
            refuse("FloatBox: low", f"must not be above high, got {shortened(low)} and {shortened(high)}", low)

    @property
    def unbounded(self) -> bool:
        """Have the numbers no bounds at all?"""
        return bool(np.isinf(self.low).all() and np.isinf(self.high).all())

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`Box.problem`."""
        if array.dtype.kind not in "fiu":
            return f"must be numbers, got {array.dtype}"
        if not (np.abs(array) <= LARGEST).all():  # NaN is not
            return "must be finite as float32"
        array = array.astype(np.float32)  # as the bounds are: 0.1 is within 0.1 .. 0.9
        if bounded and not ((array >= self.low).all() and (array <= self.high).all()):
            return f"must be within {_text(self.low)} .. {_text(self.high)}"
        return ""

    def to_spec(self) -> dict[str, Any]:
        """Type, shape and bounds; infinite ones are strings, as JSON has none."""
        bounds = {} if self.unbounded else {"low": _json(self.low), "high": _json(self.high)}
        return {"type": "float", "shape": list(self._shape), **bounds}

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        if self.unbounded:
            return np.asarray(rng.standard_normal(shape))
        bounded = np.isfinite(low) & np.isfinite(high)
        inside = rng.uniform(np.where(bounded, low, 0), np.where(bounded, high, 1), shape)
        if bounded.all():
            return np.asarray(inside)
        normal = rng.standard_normal(shape)
        one_sided = np.where(np.isinf(high), low + np.abs(normal), high - np.abs(normal))
        unbounded = np.isinf(low) & np.isinf(high)
        return np.where(bounded, inside, np.where(unbounded, normal, one_sided))

    def __repr__(self) -> str:
        bounds = [] if self.unbounded else [_text(self.low), _text(self.high)]
        return f"FloatBox({', '.join([*bounds, f'shape={self._shape}'])})"


class IntBox(Box):
    """Integers, int32.

    Args:
        low: the lower bound, a number or an array; alone, it is the upper one (``IntBox(4)`` is 0 .. 3); None: all
            numbers of int32.
        high: the upper bound, which does not belong to the space.
        shape: by default that of the bounds.
        dtype: ``"uint8"`` keeps the values as such; with any other integer dtype they are int32.
        add_batch_rank: kept as ``has_batch_rank``; it has no effect. The same goes for ``add_time_rank``
            and ``time_major``.

    Attributes:
        num_categories: how many values a number has, ``high - low``; None without bounds, or if numbers have different
            ones.

    Raises:
        RLGraphError: a bound is not an integer of int32, there is no value between them, or shapes do not fit.
    """

    def __init__(
        self,
        low: Any = None,
        high: Any = None,
        shape: Sequence[int] | None = None,
        dtype: DTypeLike = "int32",
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        is_byte = _read_dtype("IntBox: dtype", dtype, _INTS) == "uint8"
        self._dtype = np.dtype(np.uint8 if is_byte else np.int32)
        least, most = (0, 256) if is_byte else (_SMALLEST_INT, _LARGEST_INT)
        self._unbounded = low is None and high is None
        if self._unbounded:
            low, high = least, most
        elif high is None:
            low, high = 0, low
        elif low is None:
            refuse("IntBox: low", "is missing: give both bounds", low)
        self._shape, self.low, self.high = _bounds("IntBox", shape, low, high, np.int64)
        if not (self.low < self.high).all():
            refuse("IntBox: high", f"must be above {shortened(low)}, got {shortened(high)}: it is excluded", high)
        if (self.low < least).any() or (self.high > most).any():
            refuse("IntBox: low", f"and high must be within {least} .. {most} for {self._dtype}", low)
        sizes = np.unique(self.high - self.low)
        self.num_categories = int(sizes[0]) if len(sizes) == 1 and not self._unbounded else None

    @property
    def unbounded(self) -> bool:
        """Was it made without bounds? It has no categories then."""
        return self._unbounded

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`Box.problem`."""
        kind = array.dtype.kind
        if kind not in "iuf" or (kind == "f" and not (np.floor(array) == array).all()):
            return f"must be integers, got {array.dtype}"
        if not ((array >= self.low).all() and (array < self.high).all()):
            return f"must be in {_text(self.low)} .. {_text(self.high - 1)}"
        return ""

    def to_spec(self) -> dict[str, Any]:
        """Type, shape and bounds; infinite ones are strings, as JSON has none."""
        bounds = {} if self.unbounded else {"low": _json(self.low), "high": _json(self.high)}
        dtype = {"dtype": "uint8"} if self._dtype == np.uint8 else {}
        return {"type": "int", "shape": list(self._shape), **bounds, **dtype}

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.asarray(rng.integers(self.low, self.high, shape))

    def __repr__(self) -> str:
        bounds = [] if self.unbounded else [_text(self.low), _text(self.high)]
        if len(bounds) == 2 and bounds[0] == "0":
            bounds = bounds[1:]
        shape = [f"shape={self._shape}"] if self._shape else []
        dtype = ["dtype='uint8'"] if self._dtype == np.uint8 else []
        return f"IntBox({', '.join([*bounds, *shape, *dtype])})"


class BoolBox(Box):
    """Truth values.

    Args:
        shape: by default ().
        add_batch_rank: kept as ``has_batch_rank``; it has no effect. The same goes for ``add_time_rank``
            and ``time_major``.
    """

    def __init__(
        self,
        shape: Sequence[int] | None = None,
        add_batch_rank: Rank = False,
        add_time_rank: Rank = False,
        time_major: bool = False,
    ) -> None:
        self._set_ranks(add_batch_rank, add_time_rank, time_major)
        self._dtype = np.dtype(np.bool_)
        self._shape = read_shape("BoolBox: shape", () if shape is None else shape)
        self.low, self.high = np.array(False), np.array(True)

    def problem(self, array: Array, *, bounded: bool) -> str:
        """See :meth:`Box.problem`."""
        if array.dtype.kind == "b" or (array.dtype.kind in "iu" and ((array == 0) | (array == 1)).all()):
            return ""
        return f"must be True or False, got {array.dtype}"

    def to_spec(self) -> dict[str, Any]:
        """Type, shape and bounds; infinite ones are strings, as JSON has none."""
        return {"type": "bool", "shape": list(self._shape)}

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return np.asarray(rng.integers(0, 2, shape))

    def __repr__(self) -> str:
        return f"BoolBox(shape={self._shape})" if self._shape else "BoolBox()"


def read_shape(argument: str, given: Any) -> tuple[int, ...]:
    """A shape without batch and time: sizes of at least 1."""
    if not isinstance(given, tuple | list):
        refuse(argument, f"must be a tuple of integers, got {shortened(given)}", given)
    return tuple(integer(argument, size, at_least=1) for size in given)


def _bounds(name: str, shape: Any, low: Any, high: Any, dtype: DTypeLike) -> tuple[tuple[int, ...], Array, Array]:
    """Shape and bounds of arguments: a shape, or bounds that have one."""
    low, high = _bound(f"{name}: low", low, dtype), _bound(f"{name}: high", high, dtype)
    shape = read_shape(f"{name}: shape", (low.shape or high.shape) if shape is None else shape)
    for argument, array in (("low", low), ("high", high)):
        if array.shape not in ((), shape):
            problem = f"has the shape {array.shape}; it must be one number or have the shape {shape}"
            refuse(f"{name}: {argument}", problem, array)
    least, most = _uniform(low), _uniform(high)
    if least.ndim != most.ndim:
        least, most = np.broadcast_to(low, shape), np.broadcast_to(high, shape)
    for array in (least, most):
        array.flags.writeable = False
    return shape, least, most


def _read_dtype(argument: str, given: Any, allowed: tuple[str, ...]) -> str:
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


def _json(bound: Array) -> Any:
    """A number or nested lists; infinite ones as strings."""
    if bound.ndim:
        return [_json(row) for row in bound]
    return bound.item() if np.isfinite(bound) else str(bound.item())


def _text(bound: Array) -> str:
    return " ".join(str(bound.tolist()).split())
