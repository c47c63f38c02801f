"""The steps of preprocessing: RLgraph's names and arguments of ``common.processing``'s steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...common.processing import images, steps
from ...common.processing.pipeline import sequence as sequence_step
from ...common.processing.steps import Numbers, Step
from ...common.refusals import refuse
from ...common.specs.argument_checks import Only, categories, flag, one_of, or_none, real, several, whole
from ...common.specs.tables import Argument, Entry, SpecTable, without_case


def clip(where: str, value: Numbers, min: float, max: float) -> Step:
    """Values between ``min`` and ``max``. Integers stay integers if both are; else they become floats."""
    if min > max:
        refuse(f"{where}['min']", f"must be at most max, {max:g}; got {min:g}", min)
    return steps.clip(where, value, min, max)


def sequence(where: str, value: Numbers, sequence_length: int, add_rank: bool, **_: Any) -> Step:
    """The last states of each lane, oldest first: stacked on a new last axis, or joined along the last one."""
    if not add_rank and not value.shape:
        refuse(f"{where}['add_rank']", "must be True for numbers, which have no axis to be joined along", False)
    return sequence_step(where, value, sequence_length, concatenate=not add_rank)


def reshape(
    where: str, value: Numbers, flatten: bool, flatten_categories: bool | int | None, new_shape: Any, **_: Any
) -> Step:
    """Another shape, or one axis; see :func:`common.processing.steps.reshape`."""
    given = True if flatten_categories is None else flatten_categories
    return steps.reshape(where, value, flatten, given, new_shape)


DTYPES: Final = {"float": "float32", "float32": "float32", "int": "int32", "int32": "int32"} | {
    name: name for name in ("uint8", "bool")
}
"""By the names that ``convert_type`` takes."""


def _dtype(place: str, given: Any) -> str:
    """The name of a dtype, one of :data:`DTYPES`; a module before it, and types themselves, are understood."""
    name = given.__name__ if isinstance(given, type) else str(given) if isinstance(given, np.dtype) else given
    plain = name.rpartition(".")[2].rstrip("_") if isinstance(name, str) else name
    if plain not in tuple(DTYPES):
        refuse(place, f"must be one of {', '.join(DTYPES)}; got {given!r}", given)
    return DTYPES[plain]


def _weights(place: str, value: Any) -> list[float]:
    weights: list[float] = several(_NUMBER, "weights")(place, images.LUMA if value is None else value)
    return weights


def _size(place: str, value: Any) -> int:
    size: int = whole(-1)(place, value)
    if size == 0:
        refuse(place, "must be at least 1, or -1", value)
    return size


def _shape(place: str, value: Any) -> list[int]:
    sizes: list[int] = several(_size, "integers")(place, value)
    if sizes.count(-1) > 1:
        refuse(place, f"may have one -1, got {value!r}", value)
    return sizes


def _only(**values: Any) -> tuple[Argument, ...]:
    """Arguments of 0.1.3 that take one value here."""
    return tuple(Argument(name, value, Only(value, "there is nothing else")) for name, value in values.items())


_NUMBER: Final = real()
_KEEP: Final = Argument("keep_rank", False, flag)
_SIZES: Final = (Argument("width", check=whole(1)), Argument("height", check=whole(1)))
_STARTS: Final = (Argument("x", 0, whole(0)), Argument("y", 0, whole(0)))
_LAST: Final = "channels_last"
CONCAT: Final = "concat"
"""The step that makes one array of all; the others treat each by itself."""

MAKERS: Final[dict[str, Callable[..., Step]]] = {
    "clip": clip,
    "convert_type": steps.convert_type,
    "divide": steps.divide,
    "grayscale": images.grayscale,
    "image_binary": images.image_binary,
    "image_crop": images.image_crop,
    "image_resize": images.image_resize,
    "multiply": steps.multiply,
    "normalize": steps.normalize,
    "reshape": reshape,
    "sequence": sequence,
    "transpose": steps.transpose,
}
_ENTRIES: Final[dict[str, tuple[Argument, ...]]] = {
    "clip": (Argument("min", 0.0, _NUMBER), Argument("max", 1.0, _NUMBER)),
    CONCAT: _only(axis=-1),
    "convert_type": (Argument("to_dtype", check=_dtype),),
    "divide": (Argument("divisor", check=_NUMBER),),
    "grayscale": (Argument("weights", list(images.LUMA), _weights), _KEEP),
    "image_binary": (Argument("threshold", 0.0, _NUMBER), _KEEP),
    "image_crop": (*_STARTS, *_SIZES),
    "image_resize": (*_SIZES, Argument("interpolation", "area", one_of(*images.METHODS))),
    "multiply": (Argument("factor", check=_NUMBER),),
    "normalize": (),
    "reshape": (
        Argument("flatten", False, flag),
        Argument("flatten_categories", True, categories),
        Argument("new_shape", None, or_none(_shape)),
        *_only(fold_time_rank=False, unfold_time_rank=False, time_major=None),
    ),
    "sequence": (
        Argument("sequence_length", 2, whole(1)),
        Argument("batch_size", 1, whole(1)),
        Argument("add_rank", True, flag),
        *_only(in_data_format=_LAST, out_data_format=_LAST),
    ),
    "transpose": (),
}
STEPS: Final = SpecTable(
    "preprocessing step",
    {name: Entry(arguments) for name, arguments in _ENTRIES.items()},
    ignored=dict.fromkeys(("scope", "backend")),
    normalized=without_case,
    dotted=False,
)
"""What each step takes, by its name; a ``scope`` and a ``backend``, which RLgraph's components have, are left out."""
