"""Rows: single timesteps as nested dictionaries, and their conversion to arrays with a leading axis."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ....core.trees import leaves, map_tree

Row: TypeAlias = "dict[str, Any]"
"""Arrays without a batch axis, or NumPy scalars, by name; observations and actions are nested by flat name."""


def stack_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows as arrays [T, ...]."""
    found: dict[str, Any] = map_tree(lambda *parts: np.array(parts), *rows)
    return found


def rows_of(columns: Mapping[str, Any]) -> list[Row]:
    """Rows from arrays [T, ...]."""
    return [map_tree(operator.itemgetter(k), columns) for k in range(len(leaves(columns)[0]))]
