"""Base class of spaces of numbers: shapes, dtypes and bounds."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np

from ....core.checks import shortened
from ....core.protocols import Array
from ..utils.rlgraph_errors import integer, refuse
from .space import Rank, Space

LARGEST: Final = float(np.finfo(np.float32).max)
"""The largest float32: larger numbers are infinite, and bounds of this size or above count as none."""


class BoxSpace(Space):
    """Values of one shape and dtype.

    Attributes:
        shape: shape without batch and time axes.
        dtype: float32, int32, uint8 or bool.
        low, high: the bounds, an array of shape () if equal for all numbers, else of the space's shape.
    """

    kind: ClassVar[str]
    """``float``, ``int`` or ``bool``, in specifications."""
    dtypes: ClassVar[tuple[str, ...]] = ()
    """Names of allowed dtypes."""
    shape: Any = ()
    dtype: Any = None
    low: Array
    high: Array
    unbounded = False
    """Are the numbers unbounded? Integers have no categories then."""

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
        return (*ranks[0], *ranks[1], *self.shape, *([categories] if with_category_rank and categories else []))

    @property
    def bounds(self) -> tuple[Array, Array]:
        """``(low, high)``."""
        return self.low, self.high

    def flat(self) -> dict[str, BoxSpace]:
        """The box itself under an empty name."""
        return {"": self}

    def flatten(self, value: Any) -> dict[str, Any]:
        """The value under an empty name."""
        return {"": value}

    def unflatten(self, arrays: Mapping[str, Any]) -> Any:
        """The array under the empty name."""
        return arrays[""]

    def to_spec(self) -> dict[str, Any]:
        """Type, shape and bounds; infinite bounds are strings, because JSON has no infinity."""
        is_free = self.kind == "bool" or self.unbounded
        bounds = {} if is_free else {"low": _in_json(self.low), "high": _in_json(self.high)}
        dtype = {"dtype": "uint8"} if self.dtype == np.uint8 else {}
        return {"type": self.kind, "shape": list(self.shape), **bounds, **dtype}

    @abstractmethod
    def problem(self, array: Array, *, bounded: bool) -> str:
        """The problem with numbers of an array of any shape, such as ``"must be finite"``; empty if there is none.

        Args:
            array: one value or a batch, whose last axes are the space's.
            bounded: must floats be within the bounds? Integers always must.
        """

    @abstractmethod
    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Random numbers, before the cast to the dtype."""

    def map_boxes(self, function: Callable[[Any], Any]) -> Any:
        """See :meth:`Space.map_boxes`."""
        return function(self)

    def _check_dtype(self, given: Any) -> str:
        """The name of an allowed dtype."""
        argument = f"{type(self).__name__}: dtype"
        try:
            name = np.dtype(given).name
        except TypeError:
            name = ""
        if name not in self.dtypes:
            refuse(argument, f"must be one of {', '.join(self.dtypes)}; got {given!r}", given)
        return str(name)

    def _set_bounds(self, shape: Any, low: Any, high: Any, free: tuple[float, float]) -> None:
        """Set shape and bounds from arguments; ``free`` are the bounds of unbounded numbers."""
        name = type(self).__name__
        self.unbounded = low is None and high is None
        if self.unbounded:
            low, high = free
        elif high is None:
            low, high = 0, low
        elif low is None:
            refuse(f"{name}: low", "is missing: give both bounds; float bounds may be infinite", low)
        low, high = self._bound(f"{name}: low", low), self._bound(f"{name}: high", high)
        self.shape = shape = read_shape(f"{name}: shape", (low.shape or high.shape) if shape is None else shape)
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

    def _bound(self, argument: str, given: Any) -> Array:
        """A bound: a number or an array; ``"inf"`` is allowed, as in JSON. Floats beyond float32 become infinite."""
        try:
            array = np.array(given, np.float64)
        except (ValueError, TypeError, OverflowError):
            array = np.array(math.nan)
        if np.isnan(array).any() or isinstance(given, bool):
            refuse(argument, f"must be a number or an array of numbers, got {shortened(given)}", given)
        if self.kind == "float":
            return np.where(np.abs(array) >= LARGEST, np.copysign(math.inf, array), array).astype(np.float32)
        if not (np.floor(array) == array).all() or (np.abs(array) > 2**32).any():
            refuse(argument, f"must be integers of int32, got {shortened(given)}", given)
        return array.astype(np.int64)

    def __repr__(self) -> str:
        bounds = [] if self.kind == "bool" or self.unbounded else [bounds_text(self.low), bounds_text(self.high)]
        if self.kind == "int" and bounds[:1] == ["0"]:
            bounds = bounds[1:]
        shape = [f"shape={self.shape}"] if self.shape or self.kind == "float" else []
        dtype = ["dtype='uint8'"] if self.dtype == np.uint8 else []
        return f"{type(self).__name__}({', '.join([*bounds, *shape, *dtype])})"


def read_shape(argument: str, given: Any) -> tuple[int, ...]:
    """A shape without batch and time axes: sizes of at least 1."""
    if not isinstance(given, tuple | list):
        refuse(argument, f"must be a tuple of integers, got {shortened(given)}", given)
    return tuple(integer(argument, size, at_least=1) for size in given)


def bounds_text(bound: Array) -> str:
    """Bounds for messages."""
    return " ".join(str(bound.tolist()).split())


def _uniform(bound: Array) -> Array:
    """One number instead of an array of equal ones."""
    return np.array(bound.flat[0]) if bound.size and (bound == bound.flat[0]).all() else bound


def _in_json(bound: Array) -> Any:
    """A number or nested lists; infinite numbers as strings."""
    if bound.ndim:
        return [_in_json(row) for row in bound]
    return bound.item() if np.isfinite(bound) else str(bound.item())
