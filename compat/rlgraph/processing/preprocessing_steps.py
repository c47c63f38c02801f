"""Steps of preprocessing that treat each part of a state by itself and remember nothing.

A step is a function of its place, of the spec of what goes in, and of its arguments. It returns the spec of what comes
out, and a function of arrays [B, ...].

What needs no floats keeps its dtype. Images of integers stay what they are where they are resized or made grey, with
values rounded to the nearest; so images of bytes are stored as bytes until they are divided or normalised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ....core.protocols import Array
from ....core.spread import varies
from ...common.specs.argument_checks import or_none, several
from ...common.specs.argument_table import Argument, Arguments
from ..utils.rlgraph_errors import flag, integer, number, refuse
from .preprocessing_images import IMAGE_STEPS
from .value_specs import FLOAT, ValueSpec, rounded

Function: TypeAlias = Callable[[Array], Array]
Build: TypeAlias = Callable[[str, ValueSpec, Mapping[str, Any]], tuple[ValueSpec, Function]]


def clip(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """Values between ``min`` and ``max``. Integers stay integers if both are; else they become floats."""
    least, most = arguments["min"], arguments["max"]
    if least > most:
        refuse(f"{where}['min']", f"must be at most max, {most:g}; got {least:g}", least)
    dtype, bounds = value.dtype, value.bounds
    if dtype.kind in "iu" and float(least).is_integer() and float(most).is_integer():
        limits = np.iinfo(dtype)
        if limits.min <= most and least <= limits.max:
            least, most = max(int(least), limits.min), min(int(most), limits.max)
        else:
            dtype = FLOAT
    elif dtype.kind != "f":
        dtype = FLOAT
    low, high = (min(max(bound, least), most) for bound in bounds)
    return value.within(dtype, low, high), lambda x: np.clip(x.astype(dtype, copy=False), least, most)


def divide(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """Values divided by ``divisor``, float32."""
    divisor = arguments["divisor"]
    if divisor == 0:
        refuse(f"{where}['divisor']", "must not be 0", divisor)
    low, high = sorted(bound / divisor for bound in value.bounds)
    return value.within(FLOAT, low, high), lambda x: x.astype(FLOAT) / np.float32(divisor)


def multiply(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """Values times ``factor``, float32."""
    factor = arguments["factor"]
    low, high = sorted(bound * factor if factor else 0.0 for bound in value.bounds)
    return value.within(FLOAT, low, high), lambda x: x.astype(FLOAT) * np.float32(factor)


def convert_type(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """Values in another dtype: towards zero and at most its range if it is of integers, and bools of what is not 0."""
    dtype = DTYPES[arguments["to_dtype"]]
    if dtype == value.dtype:
        return value, lambda x: x
    low, high = value.bounds
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = (float(math.trunc(min(max(bound, limits.min), limits.max))) for bound in (low, high))
    return value.within(dtype, low, high), lambda x: rounded(x, dtype, nearest=False)


def normalize(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """(x - min) / (max - min + 1e-6), over each state as a whole, float32."""
    axes = tuple(range(1, len(value.shape) + 1))

    def function(x: Array) -> Array:
        x = x.astype(FLOAT)
        least, most = x.min(axes, keepdims=True), x.max(axes, keepdims=True)
        span = most - least
        squares = (np.square(one, dtype=np.float64) for one in (span, np.maximum(np.abs(least), np.abs(most))))
        y: Array = (x - least) / (span + np.float32(1e-6)) * varies(*squares)
        return y

    return value.within(FLOAT, 0.0, 1.0), function


def reshape(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """Another shape: ``new_shape``, one number of which may be -1; or one axis with ``flatten``.

    ``flatten`` makes ints with categories one-hot, float32, and joins these; not so with ``flatten_categories=False``,
    and not bytes, which are numbers, as in images. A number in its place is that of the categories.
    """
    flatten, new = arguments["flatten"], arguments["new_shape"]
    if flatten == (new is not None):
        refuse(where, f"takes flatten=True or new_shape, and one of them; got {dict(arguments)}", arguments)
    size, wanted, categories = math.prod(value.shape), arguments["flatten_categories"], value.num_categories
    given = wanted if isinstance(wanted, int) and not isinstance(wanted, bool) and value.dtype.kind in "iu" else None
    if given is not None and categories is not None and value.dtype != np.uint8 and given < categories:
        refuse(f"{where}['flatten_categories']", f"must be at least {categories}, the values that there are", given)
    categories = given if given is not None else None if value.dtype == np.uint8 else categories
    if flatten and wanted and categories is not None:
        if categories > _MOST_CATEGORIES:
            problem = (
                f"must be False for ints of {categories:,} categories: one-hot they are at most {_MOST_CATEGORIES:,}"
            )
            refuse(f"{where}['flatten_categories']", problem, True)
        out = ValueSpec((size * categories,), FLOAT, None, 0.0, 1.0)
        every = np.arange(categories) + (0 if value.num_categories is None else int(value.low))
        return out, lambda x: (x[..., None] == every).astype(FLOAT).reshape(len(x), -1)
    shape = (size,) if flatten else tuple(new)
    if -1 in shape:
        known = math.prod(n for n in shape if n != -1)
        shape = tuple(size // known if n == -1 and known else n for n in shape)
    if -1 in shape or math.prod(shape) != size:
        refuse(f"{where}['new_shape']", f"must hold as many numbers as {list(value.shape)}, got {list(new)}", new)
    return value.of_shape(shape), lambda x: x.reshape(len(x), *shape)


def transpose(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> tuple[ValueSpec, Function]:
    """The first two axes of a state swapped: the height and the width of an image."""
    if len(value.shape) < 2:
        refuse(where, f"needs a state with two axes or more, got one of shape {list(value.shape)}", value)
    first, second, *others = value.shape
    return value.of_shape((second, first, *others)), lambda x: x.swapaxes(1, 2)


_MOST_CATEGORIES: Final = 10_000
DTYPES: Final[dict[str, np.dtype[Any]]] = {
    "float": FLOAT,
    "float32": FLOAT,
    "int": np.dtype(np.int32),
    "int32": np.dtype(np.int32),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
"""By the names that ``convert_type`` takes."""


def _dtype(place: str, given: Any) -> str:
    """The name of a dtype, one of :data:`DTYPES`; a module before it, and types themselves, are understood."""
    name = given.__name__ if isinstance(given, type) else str(given) if isinstance(given, np.dtype) else given
    plain = name.rpartition(".")[2].rstrip("_") if isinstance(name, str) else name
    if plain not in tuple(DTYPES):
        refuse(place, f"must be one of {', '.join(DTYPES)}; got {given!r}", given)
    return str(DTYPES[plain])


def _categories(place: str, value: Any) -> bool | int:
    """Whether ints become one-hot, or of how many categories; None is True."""
    return value if isinstance(value, bool) else True if value is None else integer(place, value, at_least=2)


def _size(place: str, value: Any) -> int:
    size = integer(place, value, at_least=-1)
    if size == 0:
        refuse(place, "must be at least 1, or -1", value)
    return size


def _shape(place: str, value: Any) -> list[int]:
    sizes: list[int] = several(_size, "integers")(place, value)
    if sizes.count(-1) > 1:
        refuse(place, f"may have one -1, got {value!r}", value)
    return sizes


STEPS: Final[dict[str, tuple[Build, Arguments]]] = {
    "clip": (clip, {"min": Argument(number, 0.0), "max": Argument(number, 1.0)}),
    "convert_type": (convert_type, {"to_dtype": Argument(_dtype)}),
    "divide": (divide, {"divisor": Argument(number)}),
    **IMAGE_STEPS,
    "multiply": (multiply, {"factor": Argument(number)}),
    "normalize": (normalize, {}),
    "reshape": (
        reshape,
        {
            "flatten": Argument(flag, False),
            "flatten_categories": Argument(_categories, True),
            "new_shape": Argument(or_none(_shape), None),
        },
    ),
    "transpose": (transpose, {}),
}
"""By name, the function and what it takes."""
