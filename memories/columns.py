"""Columns: the arrays in which a memory stores the fields of its transitions, and the checks of new values.

A *tree* is one array, or a flat dictionary of arrays (Dict spaces); the functions here treat both alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..core.checks import shortened
from ..core.chunked_arrays import Stream
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArraySpec, ArrayTree, SpecTree
from ..core.trees import map_tree

OBSERVATIONS = ("observation", "next_observation")
FLAGS = ("terminated", "truncated")
REQUIRED = ("observation", "action", "reward", *FLAGS, "next_observation")
MADE = ("discount", "weight")
"""Keys of a batch that the memory itself adds."""
_ARRAY = np.ndarray
_DTYPES = "?" + np.typecodes["AllInteger"] + np.typecodes["AllFloat"]
"""Characters of the dtypes of numbers."""
_CASTING: Any = {"b": "safe", "u": "safe", "i": "safe", "f": "same_kind", "c": "same_kind"}
"""Kind of a stored dtype to the casts into it that need no look at the values: floats are rounded."""
_SCALARS = (float, bool, np.float64, np.float32, np.int64, np.int32, np.bool_)
"""Scalar types whose dtype needs no look at the value; an ``int`` may be of any size."""


def checked_specs(specs: Mapping[str, SpecTree]) -> dict[str, SpecTree]:
    """Specs for storage: reward, terminated and truncated become float32 scalars.

    Raises:
        ArgumentError: a key of a transition is missing, or a spec cannot be stored.
    """
    missing = [key for key in REQUIRED if key not in specs]
    if missing:
        raise ArgumentError(f"specs must have {', '.join(REQUIRED)}; missing: {', '.join(missing)}", "specs", specs)
    if specs["next_observation"] != specs["observation"]:
        raise ArgumentError(
            "the specs of observation and next_observation must be equal;"
            f" got {specs['observation']} and {specs['next_observation']}",
            "specs",
            specs,
        )
    for key in MADE:
        if key in specs:
            raise ArgumentError(f"{key!r} cannot be recorded: the memory adds it to a batch itself", "specs", specs)
    stored = dict(specs)
    for key in ("reward", *FLAGS):
        spec = specs[key]
        if isinstance(spec, Mapping) or spec.shape != ():
            raise ArgumentError(f"the spec of {key} must be that of a scalar, got {spec}", "specs", specs)
        stored[key] = ArraySpec((), np.float32)
    return stored


def nbytes(tree: Any) -> int:
    """Bytes that a tree of arrays takes, or one item of a tree of specs."""
    return sum(map(nbytes, tree.values())) if isinstance(tree, Mapping) else int(tree.nbytes)


Zeros: TypeAlias = "Callable[[str, tuple[int, ...], np.dtype[Any]], Array]"
"""Makes an array of zeros from a name, a shape and a dtype."""


def in_memory(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Array of zeros. The operating system allocates its memory only where something is written."""
    return np.zeros(shape, dtype)


def allocate(specs: Any, *leading: int, name: str, zeros: Zeros = in_memory) -> Any:
    """Zeros [*leading, ...]; their names begin with ``name``."""
    return map_named(lambda name, spec: zeros(name, (*leading, *spec.shape), spec.dtype), specs, name)


def map_named(function: Callable[[str, Any], Any], tree: Any, name: str) -> Any:
    """Apply ``function`` to the name and the value of every leaf of a tree, or of a dictionary of trees."""
    if isinstance(tree, Mapping):
        return {key: map_named(function, part, f"{name}[{key!r}]") for key, part in tree.items()}
    return function(name, tree)


def merge_axes(tree: Any) -> Any:
    """The arrays [timesteps, N, ...] as [timesteps * N, ...]; they are views."""
    return map_tree(lambda array: array.reshape(array.shape[0] * array.shape[1], *array.shape[2:]), tree)


def take(tree: Any, index: Array) -> Any:
    """Copy the items at ``index`` (any shape, wrapped around at the end): arrays [*index.shape, ...]."""
    if isinstance(tree, np.ndarray):  # not map_tree: sampling spends its time here
        return tree.take(index, 0, None, "wrap")
    return {name: take(part, index) for name, part in tree.items()}


class Leaf(NamedTuple):
    """One array of a tree: key, name inside a Dict (else None), shape of a value, storage."""

    key: str
    part: str | None
    shape: tuple[int, ...]
    target: Array

    @property
    def holds(self) -> str:
        """Characters of the dtypes that the storage holds, whatever their values."""
        return _held_by(self.target.dtype)

    def check(self, value: Any) -> None:
        """Refuse a value of another shape, or one that the stored dtype would change (1.5 in an int32).

        Raises:
            ArgumentError: names the key.
        """
        name, dtype = self.key if self.part is None else f"{self.key}[{self.part!r}]", self.target.dtype
        try:
            given = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise ArgumentError(f"{name} must have shape {self.shape}: {error}", name, value) from None
        if given.shape != self.shape:
            raise ArgumentError(f"{name} must have shape {self.shape}, got {given.shape}", name, value)
        if given.dtype.char not in self.holds and not _keeps(given, dtype):
            raise ArgumentError(
                f"{name} must be {dtype}, got {given.dtype} with values that {dtype} cannot hold: {shortened(value)}",
                name,
                value,
            )


class Layout:
    """Checks the values of a transition (or of a vector step) and stores them.

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
        # Grouped by the cost of the check: most values are numbers, or arrays that fit.
        self._numbers = [(leaf.key, leaf, _types(leaf)) for leaf in leaves if leaf.part is None and not leaf.shape]
        self._arrays = [(leaf.key, leaf, leaf.shape, leaf.holds) for leaf in leaves if leaf.part is None and leaf.shape]
        self._in_parts = [
            (leaf.key, leaf.part, leaf, leaf.shape, leaf.holds) for leaf in leaves if leaf.part is not None
        ]

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse values that cannot be stored, before anything is written.

        Raises:
            KeyError: a key is missing or unexpected.
            ArgumentError: a value has the wrong shape, or the stored dtype cannot hold it.
        """
        if values.keys() != self._keys:
            raise _key_error("a transition", values, self._keys)
        for key, parts in self._parts.items():
            value = values[key]
            if not isinstance(value, Mapping):
                given = type(value).__name__
                raise ArgumentError(f"{key} must be a dictionary of {', '.join(parts)}; got {given}", key, value)
            if value.keys() != parts:
                raise _key_error(key, value, parts)
        for key, leaf, types in self._numbers:
            if type(values[key]) not in types:
                leaf.check(values[key])
        for key, leaf, shape, held in self._arrays:
            value = values[key]
            if type(value) is not _ARRAY or value.shape != shape or value.dtype.char not in held:
                leaf.check(value)
        for key, part, leaf, shape, held in self._in_parts:
            value = values[key][part]
            if type(value) is not _ARRAY or value.shape != shape or value.dtype.char not in held:
                leaf.check(value)

    def put_columns(self, at: Any, values: Mapping[str, Any]) -> None:
        """Store everything except the observations at one or several timesteps (any index)."""
        for key, part, _, target in self._columns:
            target[at] = values[key] if part is None else values[key][part]

    def put_observation(self, at: Any, observation: Any) -> None:
        """Store observations in one or several rows (any index)."""
        for _, part, _, target in self._observation:
            target[at] = observation if part is None else observation[part]

    def holds(self, at: Any, observation: Any) -> bool:
        """Whether the row holds this observation, byte for byte. NaN equals itself here."""
        for _, part, _, target in self._observation:
            given = np.asarray(observation if part is None else observation[part], target.dtype)
            if target[at].tobytes() != given.tobytes():
                return False
        return True

    def differs(self, at: Any, observations: Any) -> Array:
        """Mask [n] of the observations [n, ...] that differ from what the rows hold."""
        masks = []
        for _, part, _, target in self._observation:
            stored = target[at]
            given = np.ascontiguousarray(observations if part is None else observations[part], target.dtype)
            masks.append((rows_of_bytes(stored) != rows_of_bytes(given)).any(axis=1))
        different: Array = np.logical_or.reduce(masks)
        return different


def rows_of_bytes(array: Array) -> Array:
    """The bytes of each item of a contiguous array [n, ...]: uint8 [n, bytes]."""
    flat: Array = array.reshape(len(array), math.prod(array.shape[1:]))
    return flat.view(np.uint8) if flat.size else np.zeros((len(array), 0), np.uint8)


def _keeps(given: Array, dtype: np.dtype[Any]) -> bool:
    """Whether another dtype holds these values exactly."""
    try:
        with np.errstate(invalid="ignore"):
            return bool(np.all(given.astype(dtype) == given))  # older versions of NumPy return one bool for text
    except (TypeError, ValueError, OverflowError):  # text, say
        return False


@functools.cache
def _held_by(dtype: np.dtype[Any]) -> str:
    casting = _CASTING.get(dtype.kind, "no")
    return "".join(char for char in _DTYPES if np.can_cast(char, dtype, casting))


def _types(leaf: Leaf) -> frozenset[type]:
    return frozenset(scalar for scalar in _SCALARS if np.dtype(scalar).char in leaf.holds)


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
    """Check that :func:`restore` can put ``saved`` into ``target``.

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
    array = saved if isinstance(saved, Stream) else np.asarray(saved)
    wanted = (count, *target.shape[1:])
    if array.shape != wanted or array.dtype != target.dtype:
        raise ValueError(
            f"the saved {name} is {array.dtype} of shape {array.shape}, this memory's is {target.dtype} of {wanted}"
        )


def restore(saved: Any, target: Any, at: Any) -> None:
    """Copy saved arrays to these places of ``target``."""
    if isinstance(target, Mapping):
        for part, array in target.items():
            restore(saved[part], array, at)
    else:
        target[at] = saved
