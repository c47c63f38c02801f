"""Observations from environments: checked against their space and copied into new batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Dict, Tuple

from ..core.checks import all_finite
from ..core.protocols import Array, ArrayTree
from ..core.trees import leaves, map_tree
from . import spaces


class MismatchError(ValueError):
    """An observation does not fit its space. The message completes "the environment returned ..."."""


class ArrayObservations:
    """Copies observations of a space that is neither a Dict nor a Tuple into new batches [N, ...].

    Args:
        leaf: the space's array.
        num_envs: N.
    """

    def __init__(self, leaf: spaces.Leaf, num_envs: int) -> None:
        self._is_float = leaf.spec.dtype.kind == "f"
        self._space = leaf.space
        self._shape, self._dtype = leaf.spec.shape, leaf.spec.dtype
        self._batch_shape = (num_envs, *self._shape)
        self._limits = spaces.limits(leaf.space)
        self._what = f"observation[{leaf.name!r}]" if leaf.name else "observation"

    def empty(self) -> Array:
        """A new batch, for :meth:`put`."""
        return np.empty(self._batch_shape, self._dtype)

    def all_finite(self, batch: Any) -> bool:
        """Whether all numbers are finite."""
        return not self._is_float or all_finite(batch)

    def put(self, batch: Any, row: int, observation: Any) -> None:
        """Write one observation into a row of ``batch``; ``MismatchError`` if it does not fit the space."""
        batch[row] = observation if self._fits(observation) else self._convert(observation, self._shape)

    def single(self, observation: Any) -> Array:
        """A new batch [1, ...]; errors as for :meth:`put`."""
        fitting = observation if self._fits(observation) else self._convert(observation, self._shape)
        array: Array = fitting[None].copy()
        return array

    def _fits(self, value: Any) -> bool:
        """Whether a value can be stored without conversion or check."""
        return (
            type(value) is np.ndarray
            and value.dtype is self._dtype
            and value.shape == self._shape
            and self._limits is None
        )

    def batch(self, observations: Any) -> Array:
        """A copy of a vector environment's observations; ``MismatchError`` if they do not fit the space."""
        return np.array(self._convert(observations, self._batch_shape))

    def batch_unchecked(self, observations: Any) -> Array:
        """:meth:`batch` without checks and copies, for arrays known to fit the space and to have no other owner."""
        array: Array = observations.astype(self._dtype, copy=False)
        return array

    def _convert(self, value: Any, shape: tuple[int, ...]) -> Array:
        """``value`` in the stored dtype; only floats may be rounded."""
        try:
            given = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise MismatchError(f"an {self._what} that is not an array: {error}") from error
        if given.shape != shape or given.dtype.kind not in "biuf":
            found = f"of shape {given.shape} and dtype {given.dtype}"
            raise MismatchError(f"an {self._what} {found}; {self._space} asks for numbers of shape {shape}")
        if given.dtype == self._dtype:
            array = given
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected below, or by the caller
                array = given.astype(self._dtype)
            if not self._is_float and not np.array_equal(array, given):
                found = f"with values that {self._dtype} cannot hold"
                raise MismatchError(f"an {self._what} of dtype {given.dtype} {found}; its space is {self._space}")
        if self._limits is not None and bool(((array < self._limits[0]) | (array > self._limits[1])).any()):
            raise MismatchError(f"the {self._what} {given.tolist()}, which is not in {self._space}")
        return array


class CompositeObservations:
    """:class:`ArrayObservations` for a Dict or a Tuple space: batches are a flat dictionary of arrays [N, ...].

    Args:
        space: one environment's observation space; ArgumentError if unsupported.
        num_envs: N.
    """

    def __init__(self, space: spaces.AnySpace, num_envs: int) -> None:
        self._space = space
        self._leaves = {leaf.name: ArrayObservations(leaf, num_envs) for leaf in spaces.leaves(space)}

    def empty(self) -> dict[str, Array]:
        """A new batch, for :meth:`put`."""
        return {name: leaf.empty() for name, leaf in self._leaves.items()}

    def all_finite(self, batch: Any) -> bool:
        """Whether all numbers are finite."""
        return all(leaf.all_finite(batch[name]) for name, leaf in self._leaves.items())

    def put(self, batch: Any, row: int, observation: Any) -> None:
        """Write one observation into a row of ``batch``; ``MismatchError`` if it does not fit the space."""
        for (name, leaf), value in self._flat(observation, "an observation"):
            leaf.put(batch[name], row, value)

    def single(self, observation: Any) -> dict[str, Array]:
        """A new batch [1, ...]; errors as for :meth:`put`."""
        return {name: leaf.single(value) for (name, leaf), value in self._flat(observation, "an observation")}

    def batch(self, observations: Any) -> dict[str, Array]:
        """A copy of a vector environment's observations; ``MismatchError`` if they do not fit the space."""
        return {name: leaf.batch(value) for (name, leaf), value in self._flat(observations, "observations")}

    batch_unchecked = batch

    def _flat(self, value: Any, what: str) -> Iterable[tuple[tuple[str, ArrayObservations], Any]]:
        return zip(self._leaves.items(), _flat(self._space, value, what), strict=True)


Observations: TypeAlias = ArrayObservations | CompositeObservations


def observations_for(space: spaces.AnySpace, num_envs: int) -> Observations:
    """Converter of a space's observations to batches [N, ...]; ArgumentError if unsupported."""
    if isinstance(space, Dict | Tuple):
        return CompositeObservations(space, num_envs)
    return ArrayObservations(spaces.leaves(space)[0], num_envs)


def non_finite_row(batch: ArrayTree) -> tuple[int, Array]:
    """The first row with NaN or infinity, in a batch that has one, and its values in that array."""
    array = next(array for array in leaves(batch) if array.dtype.kind == "f" and not all_finite(array))
    row = int(np.argmin(np.isfinite(array).reshape(len(array), -1).all(axis=1)))
    return row, array[row]


def copy_batch(batch: ArrayTree) -> ArrayTree:
    """A writable copy."""
    made: ArrayTree = map_tree(lambda array: array.copy(), batch)
    return made


def keep_rows(batch: ArrayTree, before: ArrayTree, rows: Array) -> None:
    """Copy the ``rows`` (bool [N]) of ``before`` into ``batch``."""
    for array, old in zip(leaves(batch), leaves(before), strict=True):
        array[rows] = old[rows]


def as_mapping(batch: Any) -> dict[str, Any]:
    """A copy of a batch for a state; :func:`from_mapping` is the inverse."""
    return {"tree": copy_batch(batch)} if isinstance(batch, Mapping) else {"array": copy_batch(batch)}


def from_mapping(value: Mapping[str, Any]) -> Any:
    """The batch of :func:`as_mapping`."""
    return value.get("tree", value.get("array"))


def _flat(space: spaces.AnySpace, value: Any, what: str) -> list[Any]:
    """The values of a nested observation, in the order of the space's leaves."""
    if isinstance(space, Dict):
        if not isinstance(value, Mapping) or value.keys() != space.spaces.keys():
            given = f"keys {sorted(map(str, value))}" if isinstance(value, Mapping) else f"type {type(value).__name__}"
            expected = sorted(map(str, space.spaces))
            raise MismatchError(f"{what} of {given}, where the space is a Dict with the keys {expected}")
        return [flat for key, item in space.spaces.items() for flat in _flat(item, value[key], f"{what}[{key!r}]")]
    if isinstance(space, Tuple):
        if not isinstance(value, Sequence) or len(value) != len(space.spaces):
            given = f"{len(value)} items" if isinstance(value, Sequence) else f"type {type(value).__name__}"
            raise MismatchError(f"{what} of {given}, where the space is a Tuple of {len(space.spaces)} items")
        items = zip(space.spaces, value, strict=True)
        return [flat for key, (item, one) in enumerate(items) for flat in _flat(item, one, f"{what}[{key}]")]
    return [value]
