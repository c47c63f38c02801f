"""Converts Gymnasium's spaces to specifications, and their values in both directions.

A space with parts becomes a flat dictionary. Names are ``gymtpl<i>`` for items of a Tuple, the keys of a Dict,
``gymmdc<i>-<shape>`` for numbers of a MultiDiscrete with different ranges, and ``gymbox<i>-<shape>`` for numbers of a
Box of actions with different bounds; names of nested parts are joined with ``-``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from ....environments.spaces import parts
from ...common.gymnasium_values import Codec, Values
from ..spaces.errors import refuse

AnySpace: TypeAlias = "Space[Any]"
Specs: TypeAlias = "dict[str, dict[str, Any]]"
"""Specifications by name; the name of a single array is empty."""

_UNBOUNDED: Final = float(np.finfo(np.float32).max)
"""Magnitude at or above which a bound of actions counts as none."""


class Part(NamedTuple):
    """A space as a specification."""

    spec: dict[str, Any]
    """One specification, or a flat dictionary of several, as returned by ``Environment.states()`` or ``actions()``."""
    read: Callable[[Any], Any]
    """Converts a value of the space to the specification's."""
    write: Callable[[Any], Any]
    """Converts a value of the specification to the space's."""


def part_of(where: str, space: Any, *, actions: bool) -> Part:
    """The specification of a space.

    Args:
        where: prefix of messages: ``"CartPole-v1: states"``.
        space: a space of observations or actions.
        actions: is it a space of actions? Bounds then matter, and integers in a Box are refused.

    Raises:
        TensorforceError: the space is not supported.
    """
    space = _of_gymnasium(space)
    spec: Specs = {}
    codecs, names = {}, dict[str, list[str]]()
    for place, flat, name, one in _leaves(where, space):
        own, codecs[flat] = _codec(place, one, actions)
        names[flat] = ["-".join(filter(None, (name, part))) for part in own]
        if twice := spec.keys() & set(names[flat]):
            refuse(where, f"has two parts that are both called {min(twice)!r}", min(twice))
        spec |= zip(names[flat], own.values(), strict=True)
    values = Values(space, codecs)
    if list(spec) == [""]:
        return Part(spec[""], *codecs[""])

    def read(value: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for flat, array in values.read(value).items():
            one, *more = names[flat]
            found |= zip(names[flat], array.reshape(-1), strict=True) if more else {one: array}
        return found

    def write(value: Mapping[str, Any]) -> Any:
        return values.write(
            {f: np.array([value[n] for n in own]) if own[1:] else value[own[0]] for f, own in names.items()}
        )

    return Part(spec, read, write)


def _leaves(where: str, space: Any, flat: str = "", name: str = "") -> Iterator[tuple[str, str, str, Any]]:
    """The arrays of a space: their places for messages, flat names in Gymnasium and Tensorforce, and spaces."""
    if not isinstance(space, Dict | Tuple):
        yield where, flat, name, space
        return
    for key, part in parts(space):
        ours = f"gymtpl{key}" if isinstance(space, Tuple) else key
        inside = "-".join(filter(None, (name, ours)))
        yield from _leaves(f"{where}[{ours!r}]", part, f"{flat}/{key}" if flat else key, inside)


def _of_gymnasium(space: Any) -> Any:
    """Convert a space of Gym to Gymnasium's space of that name; return others unchanged."""
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


def _codec(where: str, space: Any, actions: bool) -> tuple[Specs, Codec]:
    """The specification of one array, or of each of its numbers by name, with the conversion of values."""
    if isinstance(space, Discrete):
        return {"": _int(space.n)}, _numbers(int(space.start), int)
    if isinstance(space, MultiBinary):
        return {"": {"type": "bool", "shape": _shape(space)}}, _cast_codec(np.bool_, space)
    if isinstance(space, MultiDiscrete):
        codec = _numbers(space.start, lambda value: np.asarray(value, space.dtype).reshape(space.shape))
        return _split("gymmdc", space, [_int(count) for count in space.nvec.reshape(-1)]), codec
    if not isinstance(space, Box):
        supported = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"
        refuse(where, f"{space} is not supported; supported are {supported}", space)
    if not actions:
        return {"": {"type": "float", "shape": _shape(space)}}, _cast_codec(np.float32, space)
    if space.dtype.kind != "f":
        refuse(where, f"{space} is not supported: actions in a Box must be floats", space)
    ends = [space.low.astype(np.float64).reshape(-1), space.high.astype(np.float64).reshape(-1)]
    bounds = list(zip(*(end.tolist() for end in ends), strict=True))
    specs: list[dict[str, Any]] = [
        {"type": "float", "shape": ()}  # a specification has both bounds or none
        | ({"min_value": low, "max_value": high} if abs(low) < _UNBOUNDED and abs(high) < _UNBOUNDED else {})
        for low, high in bounds
    ]
    return _split("gymbox", space, specs), _cast_codec(np.float32, space, is_clipped=True)


def _split(start: str, space: Any, specs: list[dict[str, Any]]) -> Specs:
    """One specification if all numbers have the same bounds, else one for each."""
    if all(one == specs[0] for one in specs):
        return {"": specs[0] | {"shape": _shape(space)}}
    sizes = "_".join(str(size) for size in space.shape)
    return {f"{start}{index}-{sizes}": one for index, one in enumerate(specs)}


def _numbers(start: Any, convert: Callable[[Any], Any]) -> Codec:
    """Codec of integers starting at ``start``; ``convert`` casts them to the space's type."""
    return Codec(lambda value: value - start, lambda value: convert(value) + start)


def _cast_codec(ours: Any, space: Any, is_clipped: bool = False) -> Codec:
    """Codec of an array with another dtype; ``is_clipped`` clips it to the space's bounds, which float32 rounds."""

    def write(value: Any) -> Any:
        array = np.asarray(value, space.dtype).reshape(space.shape)
        return np.asarray(np.clip(array, space.low, space.high)) if is_clipped else array

    return Codec(lambda value: np.asarray(value, ours), write)


def _int(count: Any) -> dict[str, Any]:
    return {"type": "int", "shape": (), "num_values": int(count)}


def _shape(space: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in space.shape)
