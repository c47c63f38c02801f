"""Values of requests: JSON to arrays and back; errors name the place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Dict, Tuple

from ...core.checks import FLOAT32_MAX, shortened
from ...core.protocols import Array, ArrayTree
from ...environments import spaces
from ...environments.spaces import AnySpace, Leaf
from ..refusals import RefusedError, invalid

Where: TypeAlias = tuple[Any, ...]
"""Path to a value in a request: names, and indices of lists."""

_NUMBERS: Final = {int, float}
_WITH_BOOLS: Final = {int, float, bool}
_SHORT: Final = 64


def place(where: Where) -> str:
    """Format a path: ``step_data.state[3]``."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "body"


class Reader:
    """Reads the observations of one space.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or a Dict or a Tuple of these.
    """

    def __init__(self, space: AnySpace) -> None:
        self._leaves = spaces.leaves(space)
        self._space = space
        self._composite = isinstance(space, Dict | Tuple)
        self._limits = [spaces.limits(leaf.space) for leaf in self._leaves]

    def limits(self) -> dict[str, tuple[Any, Any]]:
        """Lowest and highest values of the parts with limits, by flat name."""
        pairs = zip(self._leaves, self._limits, strict=True)
        return {leaf.name: limits for leaf, limits in pairs if limits is not None}

    def read(self, value: Any, where: Where) -> ArrayTree:
        """Read one observation in the form of memories and models; RefusedError names the invalid place."""
        if not self._composite:
            return self._leaf(0, value, where)
        found: dict[str, tuple[Any, Where]] = {}
        _flatten(self._space, value, "", where, found)
        return {leaf.name: self._leaf(k, *found[leaf.name]) for k, leaf in enumerate(self._leaves)}

    def together(self, values: Sequence[Any]) -> Array | None:
        """Read observations [N, D] at once, if each has D floats without limits; None if any differs or is invalid."""
        spec = self._leaves[0].spec
        if self._composite or self._limits[0] is not None or len(spec.shape) != 1 or spec.dtype.kind != "f":
            return None
        (size,) = spec.shape
        if not all(type(value) is list and len(value) == size for value in values):
            return None
        if not {*map(type, itertools.chain.from_iterable(values))} <= _NUMBERS:
            return None
        try:
            exact = np.array(values, np.float64)
        except OverflowError:
            return None
        # A comparison with NaN is false, so this finds it as well.
        return exact.astype(spec.dtype) if np.abs(exact).max(initial=0.0) <= FLOAT32_MAX else None

    def _leaf(self, index: int, value: Any, where: Where) -> Array:
        leaf = self._leaves[index]
        array = numbers(value, leaf, where)
        limits = self._limits[index]
        if limits is not None and bool(((array < limits[0]) | (array > limits[1])).any()):
            low, high = (np.asarray(limit).tolist() for limit in limits)
            raise invalid(place(where), f"must be in {low} .. {high}, got {shortened(value)}")
        return array


class Actions:
    """Reads actions taken by a client, and writes actions chosen by an agent.

    Args:
        space: Discrete, or a Box of floats with bounds.
    """

    def __init__(self, space: AnySpace) -> None:
        self.leaf = spaces.leaves(space, "action")[0]
        self.discrete = not isinstance(space, Box)
        if isinstance(space, Box):
            self.low, self.high = space.low.astype(np.float32), space.high.astype(np.float32)
        else:
            limits: tuple[int, int] = spaces.limits(space) or (0, 0)
            self.first, self.last = limits

    def read(self, value: Any, where: Where) -> Array:
        """One action: a list of one integer (or the integer), or a list of floats within the bounds."""
        if not self.discrete:
            array = numbers(value, self.leaf, where)
            outside = np.argwhere((array < self.low) | (array > self.high))
            if len(outside):
                index = tuple(outside[0].tolist())
                low, high = float(self.low[index]), float(self.high[index])
                what = f"must be in {low:g} .. {high:g}, got {float(array[index]):g}"
                raise invalid(place((*where, *index)), what)
            return array
        if isinstance(value, list):
            if len(value) != 1:
                raise invalid(place(where), f"must be a list of one integer, got {shortened(value)}")
            value, where = value[0], (*where, 0)
        if type(value) is not int or not self.first <= value <= self.last:
            raise invalid(place(where), f"must be an integer in {self.first} .. {self.last}, got {shortened(value)}")
        return np.array(value, np.int32)

    def sent(self, actions: Array) -> Array:
        """Actions [N, ...] for clients, clipped to the bounds."""
        if self.discrete:
            return actions
        clipped: Array = np.clip(actions, self.low, self.high)
        return clipped

    def to_json(self, action: Array) -> list[Any]:
        """One action, always a list."""
        return [int(action)] if self.discrete else np.asarray(action, np.float32).astype(np.float64).tolist()


def numbers(value: Any, leaf: Leaf, where: Where) -> Array:
    """Read a list of numbers, nested like the shape, or a number for the shape (), as an array of the leaf's dtype."""
    spec = leaf.spec
    _check_shape(value, spec.shape, where, _WITH_BOOLS if spec.dtype.kind == "b" else _NUMBERS)
    if spec.dtype == np.float32 and len(spec.shape) == 1 and _are_few(value):
        return np.array(value, np.float32)
    try:
        exact = np.array(value, np.float64)
    except OverflowError:
        raise invalid(place(where), "has an integer that is too large") from None
    # A comparison with NaN is false, so this finds it as well.
    if spec.dtype.kind == "f":
        if not np.abs(exact).max(initial=0.0) <= FLOAT32_MAX:
            raise invalid(_first(~(np.abs(exact) <= FLOAT32_MAX), where), "must be a finite number in float32's range")
        return exact.astype(np.float32)
    info: Any = np.iinfo(spec.dtype) if spec.dtype.kind in "iu" else None
    low, high = (0, 1) if info is None else (info.min, info.max)
    wrong = ~((exact >= low) & (exact <= high) & (exact == np.floor(exact)))
    if wrong.any():
        raise invalid(_first(wrong, where), f"must be an integer in {low} .. {high}")
    return exact.astype(spec.dtype)


def _are_few(value: list[Any]) -> bool:
    """Whether these are few numbers, all in float32's range, which NumPy checks more slowly. Parsed JSON has no NaN."""
    return 0 < len(value) <= _SHORT and min(value) >= -FLOAT32_MAX and max(value) <= FLOAT32_MAX


def boolean(value: Any, where: Where) -> bool:
    """Check a boolean."""
    if type(value) is not bool:
        raise invalid(place(where), f"must be true or false, got {shortened(value)}")
    return value


def number(value: Any, where: Where, low: float, high: float) -> float:
    """Check a number in a range."""
    if type(value) not in _NUMBERS or not low <= value <= high:
        raise invalid(place(where), f"must be a number in {low:g} .. {high:g}, got {shortened(value)}")
    return float(value)


def reward(value: Any, where: Where) -> float:
    """Check a number that float32 holds."""
    if type(value) not in _NUMBERS or not abs(value) <= FLOAT32_MAX:
        raise invalid(place(where), f"must be a finite number in float32's range, got {shortened(value)}")
    return float(value)


def fields(value: Any, where: Where, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Check an object with these fields and no others."""
    if type(value) is not dict:
        raise invalid(place(where), f"must be an object, got {shortened(value)}")
    missing = [name for name in needed if name not in value]
    unknown = [name for name in value if name not in needed and name not in optional]
    if missing or unknown:
        errors = [(place((*where, name)), "is missing") for name in missing]
        errors += [(place((*where, shortened(name).strip("'"))), "is not a field of this request") for name in unknown]
        raise RefusedError("invalid_value", "; ".join(f"{at} {what}" for at, what in errors[:3]), errors[:20])
    found: Mapping[str, Any] = value
    return found


def _flatten(space: AnySpace, value: Any, name: str, where: Where, found: dict[str, tuple[Any, Where]]) -> None:
    """Collect the leaves of a Dict's or a Tuple's value by flat name."""
    inner = spaces.parts(space)
    if not inner:
        found[name] = value, where
        return
    if isinstance(space, Dict):
        keys: list[Any] = [key for key, _ in inner]
        fields(value, where, tuple(keys))
    else:
        keys = list(range(len(inner)))
        if type(value) is not list or len(value) != len(inner):
            raise invalid(place(where), f"must be a list of {len(inner)}, got {shortened(value)}")
    for key, (part, item) in zip(keys, inner, strict=True):
        _flatten(item, value[key], f"{name}/{part}" if name else part, (*where, key), found)


def _check_shape(value: Any, shape: tuple[int, ...], where: Where, kinds: set[type]) -> None:
    if not shape:
        if type(value) not in kinds:
            raise invalid(place(where), f"must be a number, got {shortened(value)}")
        return
    if type(value) is not list or len(value) != shape[0]:
        got = f"a list of {len(value)}" if type(value) is list else shortened(value)
        raise invalid(place(where), f"must be a list of {shape[0]}, got {got}")
    if len(shape) > 1:
        for index, item in enumerate(value):
            _check_shape(item, shape[1:], (*where, index), kinds)
    elif not {*map(type, value)} <= kinds:
        index = next(k for k, item in enumerate(value) if type(item) not in kinds)
        raise invalid(place((*where, index)), f"must be a number, got {shortened(value[index])}")


def _first(wrong: Array, where: Where) -> str:
    """The place of the first invalid number."""
    index = np.unravel_index(int(np.flatnonzero(wrong)[0]), wrong.shape) if wrong.ndim else ()
    return place((*where, *map(int, index)))
