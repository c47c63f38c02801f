"""Trees: one array, or mappings of arrays, to any depth. The functions treat all alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def map_tree(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply ``function`` to each array (or spec) of trees with the same keys."""
    first = trees[0]
    if isinstance(first, Mapping):
        return {name: map_tree(function, *(tree[name] for tree in trees)) for name in first}
    return function(*trees)


def leaves(tree: Any) -> list[Any]:
    """The arrays of a tree in TensorFlow's order: mappings by sorted keys. Lists and tuples are trees here, too."""
    if isinstance(tree, np.ndarray):  # first, as this is called at every timestep
        return [tree]
    if isinstance(tree, Mapping):
        return [array for key in sorted(tree) for array in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [array for item in tree for array in leaves(item)]
    return [tree]
