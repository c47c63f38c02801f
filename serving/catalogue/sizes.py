"""Untrusted sizes of states and actions, or a described observation space, as Gymnasium spaces."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from ...core import checks, fields
from ...core.errors import ArgumentError
from ...environments import spaces
from .hosted import Hosted

MAX_NUMBERS: Final = 100_000
"""Maximum numbers in an encoded observation."""
MAX_ACTIONS: Final = 1024
MAX_DEPTH: Final = 8
"""Maximum nesting of JSON values."""
MAX_PARTS: Final = 64
"""Maximum plain spaces within a Dict or a Tuple: each is an input of the program."""
_MAX_AXES: Final = 8
_LARGEST: Final = 1e30
"""Maximum of bounds: float32 holds their differences."""


def depth_of(value: Any, most: int = MAX_DEPTH) -> int:
    """Nesting depth of lists and mappings; ``most + 1`` for anything deeper."""
    inner = list(value.values()) if isinstance(value, Mapping) else value
    if not isinstance(inner, list | tuple) or most < 0:
        return 0
    return 1 + max((depth_of(item, most - 1) for item in inner), default=0)


def is_unfit(value: Any) -> bool:
    """Whether there is an integer that no array can hold, or a number that is not finite. JSON has no limit."""
    if isinstance(value, int):
        return abs(value) > 2**64
    if isinstance(value, float):
        return not math.isfinite(value)
    inner = list(value.values()) if isinstance(value, Mapping) else value
    return isinstance(inner, list | tuple) and any(map(is_unfit, inner))


def observation(given: Mapping[str, Any]) -> tuple[gymnasium.Space[Any], dict[str, Any]]:
    """The observation space from ``state_size``, ``obs_size`` or ``observation_space``, and the entry of the config.

    Raises:
        ArgumentError: none or several of them are given, or the value is invalid or too large.
    """
    names = [name for name in ("state_size", "obs_size", "observation_space") if given.get(name) is not None]
    if not names:
        raise ArgumentError("state_size is missing: give it, or observation_space", "state_size")
    if len(names) > 1:
        raise ArgumentError(f"{names[0]} and {names[1]} are both given: give one of them", names[1], given[names[1]])
    (name,) = names
    if name == "observation_space":
        space = space_from_json(given[name])
        return space, {name: spaces.to_json(space)}
    shape, value = shape_of(name, given[name], MAX_NUMBERS)
    return Box(-np.inf, np.inf, shape, np.float32), {name: value}


def space_from_json(value: Any) -> gymnasium.Space[Any]:
    """The space described by a JSON value.

    Raises:
        ArgumentError: it does not describe a space, or the space is too large or not supported.
    """
    name = "observation_space"
    try:
        fields.check(name, value, fields.space)
    except ArgumentError as error:
        raise ArgumentError(str(error), name) from None
    count = 0
    for i, one in enumerate(_leaves(name, value, MAX_DEPTH)):
        if i == MAX_PARTS:
            raise ArgumentError(f"{name} may have at most {MAX_PARTS} parts", name)
        count += _numbers(name, one)
    if count > MAX_NUMBERS:
        raise ArgumentError(f"{name} may have at most {MAX_NUMBERS:,} numbers, got {count:,}", name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, about bounds that the dtype cannot hold
            space = spaces.from_json(value)
            spaces.observation_spec(space)
    except Exception as error:  # Gymnasium asserts, and NumPy raises anything
        raise ArgumentError(f"{name} is not a valid space: {checks.shortened(str(error))}", name) from error
    return space


def inputs(space: gymnasium.Space[Any]) -> int:
    """Size of an encoded observation: one number per choice of a Discrete space."""
    match space:
        case Dict() | Tuple():
            return sum(inputs(part) for _, part in spaces.parts(space))
        case Discrete():
            return int(space.n)
        case MultiDiscrete():
            return int(space.nvec.sum())
    return math.prod(space.shape or ())


def _leaves(name: str, value: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    """Description of each plain space within a described one."""
    if value["type"] not in ("Dict", "Tuple"):
        yield value
        return
    if depth <= 1:
        raise ArgumentError(f"{name} is nested more than {MAX_DEPTH} deep", name)
    parts = value["spaces"]
    if value["type"] == "Dict":
        keys, parts = [key for key, _ in parts], [part for _, part in parts]
        if len({key for key in keys if isinstance(key, str)}) < len(keys):
            raise ArgumentError(f"{name}: a Dict needs names that are text, and none twice, got {keys}"[:300], name)
    if not parts:
        raise ArgumentError(f"{name}: a {value['type']} needs at least one space", name)
    for part in parts:
        yield from _leaves(name, part, depth - 1)


def _numbers(name: str, value: Mapping[str, Any]) -> int:
    """Number of numbers in a described space, checked before anything of that size is allocated."""
    match value["type"]:
        case "Box":
            shape, _ = shape_of(f"{name}: shape", value["shape"], MAX_NUMBERS, argument=name, least=0)
            return math.prod(shape)
        case "Discrete":
            return int(value["n"])
        case "MultiDiscrete":
            return int(np.array(value["nvec"], object).sum())
    return math.prod(value["n"]) if isinstance(value["n"], list) else int(value["n"])


def shape_of(
    name: str, value: Any, most: int, *, argument: str | None = None, least: int = 1
) -> tuple[tuple[int, ...], Any]:
    """A shape from a size or a list of sizes, and its value in a configuration.

    Raises:
        ArgumentError: the value is neither, or has more than ``most`` numbers.
    """
    argument = argument or name
    listed = isinstance(value, list | tuple)
    sizes = list(value) if listed else [value]
    if not least <= len(sizes) <= _MAX_AXES:
        raise ArgumentError(f"{name} must have 1 .. {_MAX_AXES} sizes, got {checks.shortened(value)}", argument, value)
    for size in sizes:
        is_integer = isinstance(size, int) or (isinstance(size, float) and size.is_integer())
        if isinstance(size, bool) or not is_integer or size < 1:
            what = "a positive integer, or a list of them for a shape"
            raise ArgumentError(f"{name} must be {what}, got {checks.shortened(value)}", argument, value)
    shape = tuple(map(int, sizes))
    if math.prod(shape) > most:
        raise ArgumentError(f"{name} may have at most {most:,} numbers, got {checks.shortened(value)}", argument, value)
    return shape, list(shape) if listed else shape[0]


def action(hosted: Hosted, model: str, given: Mapping[str, Any]) -> tuple[gymnasium.Space[Any], dict[str, Any]]:
    """The action space, and its entries of the config.

    Raises:
        ArgumentError: an entry is missing, invalid or too large, or the model has no such actions.
    """
    if given.get("action_size") is None:
        raise ArgumentError("action_size is missing", "action_size")
    shape, size = shape_of("action_size", given["action_size"], MAX_ACTIONS)
    discrete = _is_discrete(hosted, model, given)
    if discrete:
        _refuse_bounds(model, given)
        if isinstance(size, list):
            raise ArgumentError(f"action_size of discrete actions must be a number, got {size}", "action_size", size)
        return Discrete(size), {"action_size": size, "discrete": True}
    low_name, low = _bound(given, "action_low", "action_min", 0.0, shape)
    high_name, high = _bound(given, "action_high", "action_max", 1.0, shape)
    lowest, highest = np.broadcast_to(np.float32(low), shape), np.broadcast_to(np.float32(high), shape)
    if not (lowest < highest).all():
        message = f"{low_name} must be below {high_name}, got {checks.shortened(low)} and {checks.shortened(high)}"
        raise ArgumentError(message, low_name, low)
    config = {"action_size": size, "discrete": False, "action_low": low, "action_high": high}
    return Box(lowest.copy(), highest.copy(), shape, np.float32), config


def _one(given: Mapping[str, Any], name: str, synonym: str) -> tuple[str, Any]:
    if given.get(name) is not None and given.get(synonym) is not None:
        raise ArgumentError(f"{name} and {synonym} are the same: give one of them", synonym, given[synonym])
    used = synonym if given.get(synonym) is not None else name
    return used, given.get(used)


def _is_discrete(hosted: Hosted, model: str, given: Mapping[str, Any]) -> bool:
    name, value = _one(given, "discrete", "is_discrete")
    if value is None:
        return hosted.actions == ("discrete",)
    if not isinstance(value, bool):
        raise ArgumentError(f"{name} must be true or false, got {checks.shortened(value)}", name, value)
    if ("discrete" if value else "continuous") not in hosted.actions:
        raise ArgumentError(f"{name} of {model} must be {str(not value).lower()}: it has no other actions", name, value)
    return value


def _refuse_bounds(model: str, given: Mapping[str, Any]) -> None:
    """Refuse bounds for discrete actions, except a client's defaults."""
    for names, default in ((("action_low", "action_min"), 0), (("action_high", "action_max"), 1)):
        name, value = _one(given, *names)
        if value is not None and (isinstance(value, bool) or value != default):
            raise ArgumentError(
                f"{name} is for continuous actions, and those of this {model} are discrete", name, value
            )


def _bound(
    given: Mapping[str, Any], name: str, synonym: str, default: float, shape: tuple[int, ...]
) -> tuple[str, Any]:
    used, value = _one(given, name, synonym)
    if value is None:
        return used, default
    try:
        found = np.array(value)
    except ValueError:  # rows of different lengths
        found = np.array("")
    if found.shape not in ((), shape) or found.dtype.kind not in "iuf" or (np.abs(found) > _LARGEST).any():
        what = f"a number in {-_LARGEST:g} .. {_LARGEST:g}, or a list of these of shape {list(shape)}"
        raise ArgumentError(f"{used} must be {what}, got {checks.shortened(value)}", used, value)
    return used, found.astype(float).tolist()
