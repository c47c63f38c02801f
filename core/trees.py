"""Trees: one array, or mappings of arrays, to any depth. The functions treat all alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np


def map_tree(function: Callable[..., Any], *trees: Any) -> Any:
    """Apply ``function`` to each array (or spec) of trees with the same keys."""
    first = trees[0]
    if isinstance(first, Mapping):
        return {name: map_tree(function, *(tree[name] for tree in trees)) for name in first}
    return function(*trees)


def first_row(tree: Any) -> Any:
    """Remove the batch axis of a single row."""
    return {name: first_row(part) for name, part in tree.items()} if isinstance(tree, Mapping) else tree[0]


def leaves(tree: Any) -> list[Any]:
    """The arrays of a tree in TensorFlow's order: mappings by sorted keys. Lists and tuples are trees here, too."""
    if isinstance(tree, np.ndarray):  # first, as this is called at every timestep
        return [tree]
    if isinstance(tree, Mapping):
        return [array for key in sorted(tree) for array in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [array for item in tree for array in leaves(item)]
    return [tree]


def named_arrays(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of an episode by name; arrays of Dict observations have names such as ``observation/position``."""
    if isinstance(tree, Mapping):
        for key, part in tree.items():
            yield from named_arrays(part, f"{name}/{key}" if name else str(key))
    else:
        yield name, np.asarray(tree)


def copied(value: Any) -> Any:
    """Copy nested dictionaries, lists, tuples and arrays; anything else is shared."""
    if type(value) is dict:
        return {key: copied(part) for key, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(copied, value))
    return value.copy() if isinstance(value, np.ndarray) else value


def equal(a: Any, b: Any) -> bool:
    """Whether two values, nested in mappings and tuples, are equal, arrays included. NaN equals itself."""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        both = np.asarray(a), np.asarray(b)
        return bool(np.array_equal(*both, equal_nan=all(one.dtype.kind in "fc" for one in both)))
    return bool(a == b) or bool(a != a and b != b)  # noqa: PLR0124 (NaN)
