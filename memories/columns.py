"""Columns: the arrays in which a memory stores each field of its transitions, and the checks on what goes in.

A *tree* is one array, or a flat dictionary of arrays (Dict spaces); the functions here treat both alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..contracts import Array, ArraySpec, ArrayTree, SpecTree

OBSERVATIONS = ("observation", "next_observation")
FLAGS = ("terminated", "truncated")
_NUMBERS = frozenset({float, int, bool, np.float64, np.float32, np.int64, np.int32, np.bool_})
"""Types whose values need no second look: they have no shape."""
REQUIRED = ("observation", "action", "reward", *FLAGS, "next_observation")


def checked_specs(specs: Mapping[str, SpecTree]) -> dict[str, SpecTree]:
    """The specs as they are stored: reward, terminated and truncated become float32 scalars.

    Raises:
        ValueError: a key of a transition is missing, or a spec is not one that a memory can store.
    """
    missing = [key for key in REQUIRED if key not in specs]
    if missing:
        raise ValueError(f"specs must have {', '.join(REQUIRED)}; without {', '.join(missing)}: got {sorted(specs)}")
    if specs["next_observation"] != specs["observation"]:
        raise ValueError(
            "the specs of observation and next_observation must be equal;"
            f" got {specs['observation']} and {specs['next_observation']}"
        )
    if "discount" in specs:
        raise ValueError("'discount' cannot be recorded: it is a key of every batch, made by the memory")
    stored = dict(specs)
    for key in ("reward", *FLAGS):
        spec = specs[key]
        if isinstance(spec, Mapping) or spec.shape != ():
            raise ValueError(f"the spec of {key} must be that of a scalar, got {spec}")
        stored[key] = ArraySpec((), np.float32)
    return stored


def map_tree(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply ``function`` to every array (or spec) of a tree, or of a dictionary of trees."""
    if isinstance(tree, Mapping):
        return {name: map_tree(function, part) for name, part in tree.items()}
    return function(tree)


def nbytes(tree: Any) -> int:
    """Bytes that a tree of arrays takes, or one item of a tree of specs."""
    return sum(map(nbytes, tree.values())) if isinstance(tree, Mapping) else int(tree.nbytes)


def allocate(specs: Any, *leading: int) -> Any:
    """Zeros [*leading, ...]. The operating system provides their memory only where something is written."""
    return map_tree(lambda spec: np.zeros((*leading, *spec.shape), spec.dtype), specs)


def merge_axes(tree: Any) -> Any:
    """The arrays [timesteps, N, ...] as [timesteps * N, ...]; they are views."""
    return map_tree(lambda array: array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]), tree)


def take(tree: Any, index: Array) -> Any:
    """The items at ``index`` (any shape, wrapped around at the end) as arrays of their own [*index.shape, ...]."""
    if isinstance(tree, np.ndarray):  # not map_tree: this is where sampling spends its time
        return tree.take(index, 0, None, "wrap")
    return {name: take(part, index) for name, part in tree.items()}


def physical_memory() -> int | None:
    """Bytes of memory that this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


class Leaf(NamedTuple):
    """One array of a tree: its key, its name inside a Dict (else None), the shape of a value, where it is stored."""

    key: str
    part: str | None
    shape: tuple[int, ...]
    target: Array


class Layout:
    """Checks the values of a transition (or of a vector step) and puts them in their places.

    Args:
        columns: key to tree of arrays; the first axis counts timesteps.
        rows: the tree of observations; the first axis counts rows.
    """

    def __init__(self, columns: Mapping[str, ArrayTree], rows: ArrayTree) -> None:
        trees = {**columns, **dict.fromkeys(OBSERVATIONS, rows)}
        self._keys = trees.keys()
        self._parts = {key: tree.keys() for key, tree in trees.items() if isinstance(tree, Mapping)}
        self._columns = [leaf for key, column in columns.items() for leaf in _leaves(key, column)]
        self._observation, self._next_observation = (list(_leaves(key, rows)) for key in OBSERVATIONS)
        leaves = [*self._observation, *self._columns, *self._next_observation]
        self._numbers = [leaf.key for leaf in leaves if leaf.part is None and not leaf.shape]
        self._shapes = [(leaf.key, leaf.shape) for leaf in leaves if leaf.part is None and leaf.shape]
        self._part_shapes = [(leaf.key, leaf.part, leaf.shape) for leaf in leaves if leaf.part is not None]

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse what cannot be stored, before anything is.

        Raises:
            KeyError: a key is missing or not expected.
            ValueError: a value has the wrong shape.
        """
        if values.keys() != self._keys:
            raise _key_error("a transition", values, self._keys)
        for key, parts in self._parts.items():
            value = values[key]
            if not isinstance(value, Mapping):
                raise ValueError(f"{key} must be a dictionary of {', '.join(parts)}; got {type(value).__name__}")
            if value.keys() != parts:
                raise _key_error(key, value, parts)
        for key in self._numbers:
            if type(values[key]) not in _NUMBERS and np.shape(values[key]) != ():
                raise ValueError(f"{key} must have shape (), got {np.shape(values[key])}")
        for key, shape in self._shapes:
            if getattr(values[key], "shape", None) != shape and np.shape(values[key]) != shape:  # it may be a list
                raise ValueError(f"{key} must have shape {shape}, got {np.shape(values[key])}")
        for key, part, shape in self._part_shapes:
            value = values[key][part]
            if getattr(value, "shape", None) != shape and np.shape(value) != shape:
                raise ValueError(f"{key}[{part!r}] must have shape {shape}, got {np.shape(value)}")

    def put_columns(self, timestep: int, values: Mapping[str, Any]) -> None:
        """Store everything but the observations."""
        for key, part, _, target in self._columns:
            target[timestep] = values[key] if part is None else values[key][part]

    def put_observation(self, row: int, observation: Any) -> None:
        """Store an observation."""
        for _, part, _, target in self._observation:
            target[row] = observation if part is None else observation[part]

    def differs(self, row: int, observation: Any, num_envs: int) -> Array | None:
        """Where an observation is not what the row holds: None for nowhere, else a mask [N] of environments."""
        mask = None
        for _, part, _, target in self._observation:
            stored, given = target[row], np.asarray(observation if part is None else observation[part], target.dtype)
            # Bytes are compared because that is fast, and because NaN must equal itself here.
            if stored.tobytes() != given.tobytes():
                pairs = zip(stored.reshape(num_envs, -1), given.reshape(num_envs, -1), strict=True)
                different = np.array([old.tobytes() != new.tobytes() for old, new in pairs])
                mask = different if mask is None else mask | different
        return mask


def _leaves(key: str, tree: ArrayTree) -> Iterator[Leaf]:
    if isinstance(tree, Mapping):
        yield from (Leaf(key, part, array.shape[1:], array) for part, array in tree.items())
    else:
        yield Leaf(key, None, tree.shape[1:], tree)


def _key_error(name: str, given: Mapping[str, Any], expected: Any) -> KeyError:
    problems = [f"unexpected key {key!r}" for key in given if key not in expected]
    problems += [f"missing key {key!r}" for key in expected if key not in given]
    return KeyError(f"{name}: {', '.join(problems)}; expected are {', '.join(expected)}")


def check_saved(name: str, saved: Any, target: Any, count: int) -> None:
    """Is ``saved`` what :func:`restore` can put into ``target``?

    Raises:
        ValueError: the parts of the tree, a shape or a dtype differ; names both.
    """
    if isinstance(target, Mapping):
        given = sorted(saved) if isinstance(saved, Mapping) else "one array"
        if given != sorted(target):
            raise ValueError(f"the saved {name} has the parts {given}, this memory's has {sorted(target)}")
        for part, array in target.items():
            check_saved(f"{name}/{part}", saved[part], array, count)
        return
    array = np.asarray(saved)
    wanted = (count, *target.shape[1:])
    if array.shape != wanted or array.dtype != target.dtype:
        raise ValueError(
            f"the saved {name} is {array.dtype} of shape {array.shape}, this memory's is {target.dtype} of {wanted}"
        )


def restore(saved: Any, target: Any) -> None:
    """Put saved arrays at the first places of those of ``target``."""
    if isinstance(target, Mapping):
        for part, array in target.items():
            restore(saved[part], array)
    else:
        target[: len(saved)] = saved
