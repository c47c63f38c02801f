"""Functions of ``tensorforce.util``."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from ..common.value_specs import TYPES

np_dtype_mapping: Final = {"bool": np.bool_, "int": np.int32, "long": np.int64, "float": np.float32}
"""NumPy types by type of value."""


def np_dtype(dtype: str) -> Any:
    """The NumPy type for a type of value."""
    return np_dtype_mapping[dtype]


def tf_dtype(dtype: str) -> Any:
    """TensorFlow's type for a type of value; loads TensorFlow."""
    import tensorflow as tf

    return tf.as_dtype(np_dtype_mapping[dtype])


def is_iterable(x: Any) -> bool:
    """Does it have entries, and is not a string?"""
    return isinstance(x, Iterable) and not isinstance(x, str)


def is_atomic_values_spec(values_spec: Mapping[str, Any]) -> bool:
    """Is it the specification of one state or action, rather than a dictionary of them?"""
    return values_spec.get("type") in TYPES or "shape" in values_spec


def product(xs: Iterable[float], empty: float = 1) -> float:
    """The product of numbers; ``empty`` if there are none."""
    numbers = list(xs)
    return math.prod(numbers) if numbers else empty


def flatten(xs: Any) -> list[Any]:
    """The entries of nested lists and tuples, in order."""
    return [one for x in xs for one in flatten(x)] if isinstance(xs, list | tuple) else [xs]
