"""The preprocessing steps: RLgraph's names and arguments for the steps of ``common.processing``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...common.processing import images, pipeline, steps
from ...common.processing.steps import Numbers, Step
from ...common.refusals import refuse
from ...common.specs.argument_checks import Only, categories, flag, integer, one_of, or_none, real, several
from ...common.specs.tables import Argument, Entry, SpecTable, without_case

_DTYPES: Final = {"float": "float32", "float32": "float32", "int": "int32", "int32": "int32"} | {
    name: name for name in ("uint8", "bool")
}
"""Dtypes by the names that ``convert_type`` accepts."""


def _dtype(place: str, given: Any) -> str:
    """The name of a dtype, given as a type or a name, with or without its module."""
    name = given.__name__ if isinstance(given, type) else str(given) if isinstance(given, np.dtype) else given
    plain = name.rpartition(".")[2].rstrip("_") if isinstance(name, str) else name
    if plain not in tuple(_DTYPES):
        refuse(place, f"must be one of {', '.join(_DTYPES)}; got {given!r}", given)
    return _DTYPES[plain]


def _weights(place: str, value: Any) -> list[float]:
    weights: list[float] = several(_NUMBER, "weights")(place, images.LUMA if value is None else value)
    return weights


def _size(place: str, value: Any) -> int:
    size: int = integer(-1)(place, value)
    if size == 0:
        refuse(place, "must be at least 1, or -1", value)
    return size


def _shape(place: str, value: Any) -> list[int]:
    sizes: list[int] = several(_size, "integers")(place, value)
    if sizes.count(-1) > 1:
        refuse(place, f"may have one -1, got {value!r}", value)
    return sizes


def _categories(place: str, value: Any) -> bool | int:
    found: bool | int = categories(place, True if value is None else value)
    return found


def _fixed_arguments(**values: Any) -> tuple[Argument, ...]:
    """Arguments of 0.1.3 with a single supported value."""
    return tuple(Argument(name, value, Only(value, "there is nothing else")) for name, value in values.items())


def _in_order(where: str, values: dict[str, Any]) -> dict[str, Any]:
    low, high = values["min"], values["max"]
    if low > high:
        refuse(f"{where}['min']", f"must be at most max, {high:g}; got {low:g}", low)
    return values


def _sequence(where: str, value: Numbers, length: int, batch_size: int, add_rank: bool, *_: Any) -> Step:
    """The last states of each lane, oldest first: stacked on a new last axis, or concatenated along the last one."""
    if not add_rank and not value.shape:
        refuse(f"{where}['add_rank']", "must be True for numbers, which have no axis to be joined along", False)
    return pipeline.sequence(where, value, length, concatenate=not add_rank)


_NUMBER: Final = real()
_KEEP: Final = Argument("keep_rank", False, flag)
_SIZES: Final = (Argument("width", check=integer(1)), Argument("height", check=integer(1)))
CONCAT: Final = "concat"
"""The step that joins all arrays; the others process each array on its own."""

_STEPS: Final[dict[str, tuple[Callable[..., Any], Entry]]] = {
    "clip": (
        steps.clip,
        Entry((Argument("min", 0.0, _NUMBER), Argument("max", 1.0, _NUMBER)), finish=_in_order),
    ),
    CONCAT: (lambda where, values, _: pipeline.concat(where, values), Entry(_fixed_arguments(axis=-1))),
    "convert_type": (steps.convert_type, Entry((Argument("to_dtype", check=_dtype),))),
    "divide": (steps.divide, Entry((Argument("divisor", check=_NUMBER),))),
    "grayscale": (images.grayscale, Entry((Argument("weights", list(images.LUMA), _weights), _KEEP))),
    "image_binary": (images.image_binary, Entry((Argument("threshold", 0.0, _NUMBER), _KEEP))),
    "image_crop": (images.image_crop, Entry((Argument("x", 0, integer(0)), Argument("y", 0, integer(0)), *_SIZES))),
    "image_resize": (
        images.image_resize,
        Entry((*_SIZES, Argument("interpolation", "area", one_of(*images.METHODS)))),
    ),
    "multiply": (steps.multiply, Entry((Argument("factor", check=_NUMBER),))),
    "normalize": (steps.normalize, Entry()),
    "reshape": (
        lambda where, value, flatten, count, shape, *_: steps.reshape(where, value, flatten, count, shape),
        Entry(
            (
                Argument("flatten", False, flag),
                Argument("flatten_categories", True, _categories),
                Argument("new_shape", None, or_none(_shape)),
                *_fixed_arguments(fold_time_rank=False, unfold_time_rank=False, time_major=None),
            )
        ),
    ),
    "sequence": (
        _sequence,
        Entry(
            (
                Argument("sequence_length", 2, integer(1)),
                Argument("batch_size", 1, integer(1)),
                Argument("add_rank", True, flag),
                *_fixed_arguments(in_data_format="channels_last", out_data_format="channels_last"),
            )
        ),
    ),
    "transpose": (steps.transpose, Entry()),
}
STEPS: Final = SpecTable(
    "preprocessing step",
    {name: entry for name, (_, entry) in _STEPS.items()},
    ignored=dict.fromkeys(("scope", "backend")),
    normalized=without_case,
    dotted=False,
)
"""Arguments of each step, by its name; RLgraph's ``scope`` and ``backend`` are ignored."""


def make_step(where: str, spec: dict[str, Any], given: Any) -> Any:
    """The step of a specification in normal form, for one kind of value; :data:`CONCAT` takes all values by name."""
    kind, *arguments = spec.values()
    return _STEPS[kind][0](where, given, *arguments)
