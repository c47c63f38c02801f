"""Observations from environments: checked against their space and copied into new batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Tuple

from ..core.checks import all_finite
from ..core.protocols import Array, ArrayTree
from ..core.trees import leaves, map_tree
from . import spaces


class MismatchError(ValueError):
    """An observation does not fit its space. The message completes "the environment returned ..."."""


class Observations:
    """Copies observations into its own batches [N, ...].

    Args:
        space: one environment's observation space; ArgumentError if unsupported.
        num_envs: N.
    """

    def __init__(self, space: spaces.AnySpace, num_envs: int) -> None:
        self._space = space
        self._num_envs = num_envs
        self._rows = [_Rows(leaf, num_envs) for leaf in spaces.leaves(space)]
        self._plain = None if isinstance(space, Dict | Tuple) else self._rows[0]
        # These run at every timestep: for a single array its own methods are called directly.
        self.empty: Callable[[], ArrayTree] = self._empty if self._plain is None else self._plain.empty
        """``empty()``: a new batch, for ``put``."""
        self.put: Callable[[ArrayTree, int, Any], None] = self._put if self._plain is None else self._plain.put
        """``put(batch, row, observation)`` writes one observation into a row of ``batch``; ``MismatchError`` if it does
        not fit the space."""
        self.single: Callable[[Any], ArrayTree] = self._single if self._plain is None else self._plain.single
        """``single(observation)``: a new batch [1, ...]; errors as ``put``."""
        self.all_finite: Callable[[ArrayTree], bool] = (
            self._all_finite if self._plain is None else self._plain.all_finite
        )
        """``all_finite(batch)``: whether all numbers are finite."""

    def _empty(self) -> ArrayTree:
        return {rows.name: rows.empty() for rows in self._rows}

    def _all_finite(self, batch: Any) -> bool:
        return all(rows.all_finite(batch[rows.name]) for rows in self._rows)

    def _put(self, batch: Any, row: int, observation: Any) -> None:
        for rows, value in zip(self._rows, _flat(self._space, observation, "an observation"), strict=True):
            rows.put(batch[rows.name], row, value)

    def _single(self, observation: Any) -> ArrayTree:
        batch = self._empty()
        self._put(batch, 0, observation)
        return batch

    def batch(self, observations: Any) -> ArrayTree:
        """A copy of a vector environment's observations; ``MismatchError`` if they do not fit the space."""
        if self._plain is not None:
            return self._plain.batch(observations)
        values = _flat(self._space, observations, "observations")
        return {rows.name: rows.batch(value) for rows, value in zip(self._rows, values, strict=True)}

    def trusted(self, observations: Any) -> ArrayTree:
        """:meth:`batch` without checks and copies, for arrays known to fit the space and to have no other owner."""
        return self.batch(observations) if self._plain is None else self._plain.trusted(observations)

    def non_finite_row(self, batch: ArrayTree) -> tuple[int, Array]:
        """The first row with NaN or infinity, in a batch that has one, and its values in that array."""
        array = next(array for array in leaves(batch) if array.dtype.kind == "f" and not all_finite(array))
        row = int(np.argmin(np.isfinite(array).reshape(self._num_envs, -1).all(axis=1)))
        return row, array[row]


def copied(batch: ArrayTree) -> ArrayTree:
    """A writable copy."""
    made: ArrayTree = map_tree(lambda array: array.copy(), batch)
    return made


def keep_rows(batch: ArrayTree, before: ArrayTree, rows: Array) -> None:
    """Copy the ``rows`` (bool [N]) of ``before`` into ``batch``."""
    for array, old in zip(leaves(batch), leaves(before), strict=True):
        array[rows] = old[rows]


def as_mapping(batch: Any) -> dict[str, Any]:
    """A copy of a batch for a state; :func:`from_mapping` is the inverse."""
    return {"tree": copied(batch)} if isinstance(batch, Mapping) else {"array": copied(batch)}


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


class _Rows:
    """The batches of one array of the observation."""

    def __init__(self, leaf: spaces.Leaf, num_envs: int) -> None:
        self.name = leaf.name
        self.is_float = leaf.spec.dtype.kind == "f"
        self._space = leaf.space
        self._shape, self._dtype = leaf.spec.shape, leaf.spec.dtype
        self._batch_shape = (num_envs, *self._shape)
        self._limits = spaces.limits(leaf.space)
        self._what = f"observation[{leaf.name!r}]" if leaf.name else "observation"

    def empty(self) -> Array:
        return np.empty(self._batch_shape, self._dtype)

    def all_finite(self, array: Any) -> bool:
        return not self.is_float or all_finite(array)

    def put(self, array: Any, row: int, value: Any) -> None:
        array[row] = value if self._fits(value) else self._converted(value, self._shape)

    def single(self, value: Any) -> Array:
        array: Array = (value if self._fits(value) else self._converted(value, self._shape))[None].copy()
        return array

    def _fits(self, value: Any) -> bool:
        """Whether a value can be stored without conversion or check."""
        return (
            type(value) is np.ndarray
            and value.dtype is self._dtype
            and value.shape == self._shape
            and self._limits is None
        )

    def batch(self, value: Any) -> Array:
        return np.array(self._converted(value, self._batch_shape))

    def trusted(self, value: Any) -> Array:
        array: Array = value.astype(self._dtype, copy=False)
        return array

    def _converted(self, value: Any, shape: tuple[int, ...]) -> Array:
        """``value`` in the stored dtype; only floats may lose precision."""
        try:
            given = np.asarray(value)
        except ValueError as error:  # rows of different lengths
            raise MismatchError(f"an {self._what} that is not an array: {error}") from error
        if given.shape != shape or given.dtype.kind not in "biuf":
            found = f"of shape {given.shape} and dtype {given.dtype}"
            raise MismatchError(f"an {self._what} {found}; {self._space} asks for shape {shape}")
        if given.dtype == self._dtype:
            array = given
        else:
            with np.errstate(over="ignore", invalid="ignore"):  # overflow is detected below, or by the caller
                array = given.astype(self._dtype)
            if not self.is_float and not np.array_equal(array, given):
                found = f"with values that {self._dtype} cannot hold"
                raise MismatchError(f"an {self._what} of dtype {given.dtype} {found}; its space is {self._space}")
        if self._limits is not None and bool(((array < self._limits[0]) | (array > self._limits[1])).any()):
            raise MismatchError(f"the {self._what} {given.tolist()}, which is not in {self._space}")
        return array
