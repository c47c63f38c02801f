"""Transitions of a hosted agent as rows, one mapping each, and as columns [T, ...]; parts of a Dict are mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core.protocols import Array
from ...core.trees import map_tree
from ...memories.columns import FLAGS

Columns: TypeAlias = Mapping[str, Any]


def stack(values: Sequence[Any]) -> Any:
    """Stack arrays, or mappings of these, into a batch [N, ...]."""
    return map_tree(_stack, *values)


def _stack(*arrays: Any) -> Array:
    found: Array = np.stack(arrays) if len(arrays) > 1 else np.asarray(arrays[0])[None]
    return found


def select(columns: Any, which: Any) -> Any:
    """These rows of all columns; ``which``: an index of the first axis."""
    return map_tree(lambda column: column[which], columns)


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """The rows, with rewards and flags as Python's numbers."""
    rows: list[dict[str, Any]] = [select(columns, k) for k in range(len(columns["reward"]))]
    for row in rows:
        row["reward"] = float(row["reward"])
        row |= {flag: bool(row[flag]) for flag in FLAGS}
    return rows


def flat(columns: Columns) -> dict[str, Any]:
    """Columns, or their specs, by flat name: ``reward``, ``observation:position``."""
    found: dict[str, Any] = {}
    for key, value in columns.items():
        found |= {f"{key}:{name}": part for name, part in value.items()} if isinstance(value, Mapping) else {key: value}
    return found


def unflatten(arrays: Mapping[str, Array]) -> dict[str, Any]:
    """The inverse of :func:`flat`."""
    found: dict[str, Any] = {}
    for name, array in arrays.items():
        key, colon, part = name.partition(":")
        if colon:
            found.setdefault(key, {})[part] = array
        else:
            found[key] = array
    return found


def column_of(columns: Columns, name: str) -> Array:
    """A column by its flat name."""
    key, _, part = name.partition(":")
    found: Array = columns[key][part] if part else columns[key]
    return found
