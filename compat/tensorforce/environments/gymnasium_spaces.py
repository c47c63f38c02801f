"""Gymnasium's spaces as specifications, and values of one turned into those of the other.

What has parts becomes a flat dictionary: the items of a Tuple ``gymtpl<i>``, those of a Dict their keys, numbers of a
MultiDiscrete with different ranges ``gymmdc<i>-<shape>``, those of a Box of actions with different bounds
``gymbox<i>-<shape>``; names of parts of parts are joined with ``-``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from ....core.protocols import Array
from ..spaces.errors import refuse

AnySpace: TypeAlias = "Space[Any]"

_UNBOUNDED: Final = float(np.finfo(np.float32).max)
"""Bounds of actions from here on are none."""


class Part(Protocol):
    """A space: its specification, one or a flat dictionary of them, and the values of both."""

    @property
    def spec(self) -> dict[str, Any]:
        """As ``Environment.states()`` or ``actions()`` returns it."""

    def read(self, value: Any) -> Any:
        """The space's value as the specification has it."""

    def write(self, value: Any) -> Any:
        """The specification's value as the space has it."""


def part_of(where: str, space: Any, *, actions: bool) -> Part:
    """The specification of a space.

    Args:
        where: for messages: ``"CartPole-v1: states"``.
        space: of observations or actions.
        actions: bounds matter, and integers in a Box are refused.

    Raises:
        TensorforceError: the space is not supported.
    """
    space = _of_gymnasium(space)
    if isinstance(space, Discrete):
        return _Numbers({"type": "int", "shape": (), "num_values": int(space.n)}, int(space.start), int)
    if isinstance(space, MultiBinary):
        shape = tuple(int(size) for size in space.shape)
        return _Cast({"type": "bool", "shape": shape}, np.dtype(np.bool_), space.dtype)
    if isinstance(space, MultiDiscrete):
        return _multi_discrete(space)
    if isinstance(space, Box):
        if actions and space.dtype.kind != "f":
            refuse(where, f"{space} is not supported: actions in a Box must be floats", space)
        return _box(space) if actions else _Cast(_float(space.shape), np.dtype(np.float32), space.dtype)
    if isinstance(space, Tuple):
        items = [(f"gymtpl{index}", item) for index, item in enumerate(space.spaces)]
        return _joined(where, items, actions, lambda values: tuple(values.values()), lambda i: i)
    if not isinstance(space, Dict):
        supported = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"
        refuse(where, f"{space} is not supported; supported are {supported}", space)
    keys = list(space.spaces)
    return _joined(where, list(space.spaces.items()), actions, dict, lambda i: keys[i])


def _of_gymnasium(space: Any) -> Any:
    """A space of Gym, which has the same names, as one of Gymnasium; others as they are."""
    kind = type(space).__name__
    if isinstance(space, Space) or kind not in _OF_GYM:
        return space
    return _OF_GYM[kind](space)


_OF_GYM: Final[dict[str, Callable[[Any], AnySpace]]] = {
    "Box": lambda space: Box(space.low, space.high, dtype=space.dtype.type),
    "Discrete": lambda space: Discrete(space.n, start=getattr(space, "start", 0)),
    "MultiBinary": lambda space: MultiBinary(space.n),
    "MultiDiscrete": lambda space: MultiDiscrete(space.nvec),
    "Tuple": lambda space: Tuple([_of_gymnasium(one) for one in space.spaces]),
    "Dict": lambda space: Dict({name: _of_gymnasium(one) for name, one in space.spaces.items()}),
}


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """Integers from ``start`` on; ``convert`` makes the space's type of them."""

    spec: dict[str, Any]
    start: Any
    convert: Callable[[Any], Any]

    def read(self, value: Any) -> Any:
        return value - self.start

    def write(self, value: Any) -> Any:
        return self.convert(value) + self.start


@dataclasses.dataclass(frozen=True)
class _Cast:
    """An array of another dtype, within the space's bounds if it has any."""

    spec: dict[str, Any]
    ours: np.dtype[Any]
    theirs: Any
    low: Array | None = None
    high: Array | None = None

    def read(self, value: Any) -> Any:
        return np.asarray(value, self.ours)

    def write(self, value: Any) -> Any:
        array = np.asarray(value, self.theirs)
        return array if self.low is None else np.clip(array, self.low, self.high)


@dataclasses.dataclass(frozen=True)
class _Split:
    """The numbers of an array, each with a specification of its own."""

    spec: dict[str, Any]
    whole: Part
    shape: tuple[int, ...]

    def read(self, value: Any) -> Any:
        return dict(zip(self.spec, self.whole.read(value).reshape(-1), strict=True))

    def write(self, value: Any) -> Any:
        return self.whole.write(np.array([value[name] for name in self.spec]).reshape(self.shape))


@dataclasses.dataclass(frozen=True)
class _Joined:
    """Several spaces.

    ``parts`` has the name, the key in the space's values, and the names of its parts if it has such.
    """

    spec: dict[str, Any]
    parts: Sequence[tuple[str, Any, Part]]
    gather: Callable[[dict[Any, Any]], Any]

    def read(self, value: Any) -> Any:
        values: dict[str, Any] = {}
        for name, key, part in self.parts:
            read = part.read(value[key])
            values |= {name: read} if _is_atomic(part.spec) else {f"{name}-{inner}": read[inner] for inner in part.spec}
        return values

    def write(self, value: Mapping[str, Any]) -> Any:
        values: dict[Any, Any] = {}
        for name, key, part in self.parts:
            given = value[name] if _is_atomic(part.spec) else {inner: value[f"{name}-{inner}"] for inner in part.spec}
            values[key] = part.write(given)
        return self.gather(values)


def _is_atomic(spec: Mapping[str, Any]) -> bool:
    return isinstance(spec.get("type"), str)


def _float(shape: tuple[int, ...]) -> dict[str, Any]:
    return {"type": "float", "shape": tuple(int(size) for size in shape)}


def _multi_discrete(space: MultiDiscrete[Any]) -> Part:
    shape, counts = space.nvec.shape, space.nvec.reshape(-1)

    def convert(value: Any) -> Any:
        return np.asarray(value, space.dtype)

    if (counts == counts[0]).all():
        return _Numbers({"type": "int", "shape": shape, "num_values": int(counts[0])}, space.start, convert)
    names = _names("gymmdc", len(counts), shape)
    spec = {
        name: {"type": "int", "shape": (), "num_values": int(count)} for name, count in zip(names, counts, strict=True)
    }
    return _Split(spec, _Numbers({}, space.start, convert), shape)


def _box(space: Box[Any]) -> Part:
    low, high = space.low.astype(np.float64).reshape(-1), space.high.astype(np.float64).reshape(-1)
    bounds = [_bounds(*both) for both in zip(low.tolist(), high.tolist(), strict=True)]
    half = any(_is_half(*both) for both in zip(low.tolist(), high.tolist(), strict=True))
    limits = (space.low, space.high) if half else (None, None)
    whole = _Cast(_float(space.shape) | bounds[0], np.dtype(np.float32), space.dtype, *limits)
    if all(one == bounds[0] for one in bounds):
        return whole
    names = _names("gymbox", len(bounds), space.shape)
    return _Split({name: _float(()) | one for name, one in zip(names, bounds, strict=True)}, whole, space.shape)


def _bounds(low: float, high: float) -> dict[str, float]:
    """Nothing if one of them is none, for a specification has both or none."""
    return {"min_value": low, "max_value": high} if abs(low) < _UNBOUNDED and abs(high) < _UNBOUNDED else {}


def _is_half(low: float, high: float) -> bool:
    return (abs(low) < _UNBOUNDED) != (abs(high) < _UNBOUNDED)


def _names(start: str, count: int, shape: tuple[int, ...]) -> list[str]:
    sizes = "_".join(str(size) for size in shape)
    return [f"{start}{index}-{sizes}" for index in range(count)]


def _joined(
    where: str,
    items: Sequence[tuple[str, AnySpace]],
    actions: bool,
    gather: Callable[[dict[Any, Any]], Any],
    key: Callable[[int], Any],
) -> Part:
    spec: dict[str, Any] = {}
    parts = []
    for index, (name, space) in enumerate(items):
        part = part_of(f"{where}[{name!r}]", space, actions=actions)
        flat = {name: part.spec} if _is_atomic(part.spec) else {f"{name}-{one}": part.spec[one] for one in part.spec}
        if twice := flat.keys() & spec.keys():
            refuse(where, f"has two parts that are both called {min(twice)!r}", min(twice))
        spec |= flat
        parts.append((str(name), key(index), part))
    return _Joined(spec, parts, gather)
