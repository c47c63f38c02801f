"""Gymnasium spaces: their arrays, and an exact JSON form.

Memories store, and models receive, float Boxes as float32, bool and uint8 Boxes unchanged, all other integers as int32,
MultiBinary as int8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from numpy.typing import NDArray

from ..core import fields
from ..core.checks import shortened
from ..core.errors import ArgumentError
from ..core.protocols import ArraySpec, RunConfig, SpecTree

AnySpace: TypeAlias = "Space[Any]"

_INT32 = np.iinfo(np.int32)
_OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"
_ACTIONS = "float Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An array of an observation or an action: its flat name (empty for a plain space), its space and its spec."""

    name: str
    space: AnySpace
    spec: ArraySpec


def both_of(config: RunConfig) -> tuple[AnySpace, AnySpace]:
    """The observation and the action space of a run; ``ValueError`` if they are not known yet."""
    observation, action = config.observation_space, config.action_space
    if observation is None or action is None:
        raise ValueError("the spaces of the run are not known yet: train, check or evaluate first")
    return observation, action


def observation_spec(space: AnySpace) -> SpecTree:
    """Specs of the arrays of one observation.

    Returns:
        Dict and Tuple spaces become one flat dictionary; keys of nested spaces are joined with ``/``, the items of a
        Tuple are called ``"0"``, ``"1"``, ...

    Raises:
        ArgumentError: the space is unsupported, or has integers beyond int32.
    """
    found = leaves(space)
    if isinstance(space, Dict | Tuple):
        return {leaf.name: leaf.spec for leaf in found}
    return found[0].spec


def action_spec(space: AnySpace) -> SpecTree:
    """Specs of the arrays of one action: Discrete int32 (), Box float32, MultiDiscrete int32, MultiBinary int8.

    Returns:
        Dict and Tuple spaces become one flat dictionary, as for :func:`observation_spec`.

    Raises:
        ArgumentError: the space is unsupported, or a part of it has no components.
    """
    found = leaves(space, "action")
    for leaf in found:
        if isinstance(leaf.space, Box) and leaf.space.dtype.kind != "f":
            raise _unsupported_action(space)
        if 0 in leaf.spec.shape:
            message = f"the action space {space} has no components" + (leaf.name and f" at {leaf.name!r}")
            raise ArgumentError(message, "action_space", space)
    return {leaf.name: leaf.spec for leaf in found} if isinstance(space, Dict | Tuple) else found[0].spec


def leaves(space: AnySpace, of: str = "observation") -> tuple[Leaf, ...]:
    """The arrays of an observation, or of an action, in the order of the space; raises as :func:`observation_spec`."""
    found = tuple(_leaves(space, "", of))
    names = [leaf.name for leaf in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        message = f"the {of} space {space} has two entries that are both called {twice!r}"
        raise ArgumentError(message, f"{of}_space", space)
    return found


def limits(space: AnySpace) -> tuple[Any, Any] | None:
    """The smallest and largest valid values; None for Boxes, whose declared bounds are often too narrow."""
    if isinstance(space, Discrete):
        return int(space.start), int(space.start) + int(space.n) - 1
    if isinstance(space, MultiDiscrete):
        start = space.start.astype(np.int64)  # sums may not fit into the dtype of the space
        return start, start + space.nvec - 1
    if isinstance(space, MultiBinary):
        return 0, 1
    return None


def _leaves(space: AnySpace, prefix: str, of: str) -> list[Leaf]:
    if not isinstance(space, Dict | Tuple):
        if of == "action" and not isinstance(space, Box | Discrete | MultiDiscrete | MultiBinary):
            raise _unsupported_action(space)
        return [Leaf(prefix, space, _leaf_spec(space))]
    if not len(space):
        message = f"the {of} space has an empty {type(space).__name__}" + (prefix and f" at {prefix!r}")
        raise ArgumentError(message, f"{of}_space", space)
    return [leaf for key, item in parts(space) for leaf in _leaves(item, f"{prefix}/{key}" if prefix else key, of)]


def parts(space: AnySpace) -> list[tuple[str, AnySpace]]:
    """The entries of a Dict, or the items of a Tuple, with their names."""
    if isinstance(space, Dict):
        return [(str(key), item) for key, item in space.spaces.items()]
    return [(str(index), item) for index, item in enumerate(space.spaces)] if isinstance(space, Tuple) else []


def _unsupported_action(space: AnySpace) -> ArgumentError:
    message = f"the action space {space} is not supported; supported are {_ACTIONS}"
    return ArgumentError(message, "action_space", space)


def _leaf_spec(space: AnySpace) -> ArraySpec:
    if isinstance(space, Box):
        return ArraySpec(space.shape, _box_dtype(space))
    if isinstance(space, Discrete):
        _check_int32(space, int(space.start), int(space.start) + int(space.n) - 1)
        return ArraySpec((), np.int32)
    if isinstance(space, MultiDiscrete):
        _check_int32(space, int(space.start.min()), int((space.start.astype(object) + space.nvec).max()) - 1)
        return ArraySpec(space.nvec.shape, np.int32)
    if isinstance(space, MultiBinary):
        return ArraySpec(space.shape, np.int8)
    message = f"the observation space {space} is not supported; supported are {_OBSERVATIONS}"
    raise ArgumentError(message, "observation_space", space)


def _box_dtype(space: Box[Any]) -> np.dtype[Any]:
    if space.dtype.kind == "f":
        return np.dtype(np.float32)
    if space.dtype.kind == "b" or space.dtype == np.uint8:
        return space.dtype
    if space.low.size:
        _check_int32(space, int(space.low.min()), int(space.high.max()))
    return np.dtype(np.int32)


def _check_int32(space: AnySpace, low: int, high: int) -> None:
    if low < _INT32.min or high > _INT32.max:
        message = f"the space {space} has integers from {low} to {high}, which do not fit int32"
        raise ArgumentError(message, "space", space)


def to_json(space: AnySpace) -> dict[str, Any]:
    """A lossless description of ``space`` in JSON values; infinities are strings.

    The state of the space's own random generator is not included.

    Raises:
        ArgumentError: the space is unsupported.
    """
    if isinstance(space, Box):
        return _box_to_json(space)
    if isinstance(space, Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": space.dtype.name}
    if isinstance(space, MultiDiscrete):
        numbers = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"type": "MultiDiscrete", **numbers, "dtype": space.dtype.name}
    if isinstance(space, MultiBinary):
        return {"type": "MultiBinary", "n": space.n if isinstance(space.n, int) else list(space.n)}
    if isinstance(space, Dict):
        return {"type": "Dict", "spaces": [[key, to_json(item)] for key, item in space.spaces.items()]}
    if isinstance(space, Tuple):
        return {"type": "Tuple", "spaces": [to_json(item) for item in space.spaces]}
    raise ArgumentError(f"the space {space} is not supported; supported are {_OBSERVATIONS}", "space", space)


def from_json(data: Mapping[str, Any]) -> AnySpace:
    """Make a space from the result of :func:`to_json`; ArgumentError for anything else, naming the field."""
    fields.check("the description of a space", data, fields.space)
    try:
        return _FROM_JSON[data["type"]](data)
    except (AssertionError, KeyError, OverflowError, TypeError, ValueError) as error:
        message = f"no {data['type']} space is described by {shortened(data)}: {error}"
        raise ArgumentError(message, "type", data) from error


def _box_to_json(space: Box[Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"type": "Box", "dtype": space.dtype.name, "shape": list(space.shape)}
    data |= {"low": _pack(space.low), "high": _pack(space.high)}
    if space.dtype.kind != "f":  # an unbounded integer Box has the limits of its dtype
        data |= {"bounded_below": _pack(space.bounded_below), "bounded_above": _pack(space.bounded_above)}
    return data


def _box_from_json(data: Mapping[str, Any]) -> Box[Any]:
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    box: Box[Any] = Box(_unpack(data["low"], shape, dtype), _unpack(data["high"], shape, dtype), dtype=dtype.type)
    if dtype.kind != "f":
        box.bounded_below = _unpack(data["bounded_below"], shape, np.dtype(bool))
        box.bounded_above = _unpack(data["bounded_above"], shape, np.dtype(bool))
    return box


def _pack(array: NDArray[Any]) -> Any:
    """Nested lists, or one number if all elements are equal, like the bounds of images."""
    if array.size and (array == array.flat[0]).all():
        return _pack_infinity(array.flat[0].item())
    return _pack_infinity(array.tolist())


def _pack_infinity(value: Any) -> Any:
    if isinstance(value, list):
        return [_pack_infinity(item) for item in value]
    return str(value) if value in (np.inf, -np.inf) else value  # JSON has no infinity; NumPy reads "inf" and "-inf"


def _unpack(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.array(value, dtype) if isinstance(value, list) else np.full(shape, value, dtype)


def _multi_discrete_from_json(data: Mapping[str, Any]) -> MultiDiscrete[Any]:
    dtype = np.dtype(data["dtype"])
    return MultiDiscrete(np.array(data["nvec"], dtype), dtype=dtype, start=np.array(data["start"], dtype))


_FROM_JSON: dict[str, Callable[[Mapping[str, Any]], AnySpace]] = {
    "Box": _box_from_json,
    "Discrete": lambda data: Discrete(data["n"], start=data["start"], dtype=data["dtype"]),
    "MultiDiscrete": _multi_discrete_from_json,
    "MultiBinary": lambda data: MultiBinary(data["n"]),
    "Dict": lambda data: Dict([(key, from_json(item)) for key, item in data["spaces"]]),
    "Tuple": lambda data: Tuple(from_json(item) for item in data["spaces"]),
}
