"""The space of preprocessed states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .bool_box import BoolBox
from .box_space import BoxSpace
from .containers import Dict, Tuple
from .float_box import FloatBox
from .int_box import IntBox
from .space import Space


def rebuilt(space: Space, boxes: Mapping[str, Any]) -> Space:
    """A space of the same nesting with other boxes; a box alone, where there is one under the empty name.

    Args:
        space: with parts.
        boxes: shape, dtype, ``low`` and ``high`` of each part by flat name.
    """
    if "" in boxes:
        return _box(boxes[""])
    if isinstance(space, Dict):
        return Dict({key: rebuilt(part, _within(boxes, key)) for key, part in space.items()})
    if isinstance(space, Tuple):
        return Tuple(*(rebuilt(part, _within(boxes, str(index))) for index, part in enumerate(space)))
    raise TypeError(f"{space} has no parts {', '.join(boxes)}")


def _within(boxes: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The boxes of one part, by their names in it."""
    inner = {name.removeprefix(f"{key}/"): box for name, box in boxes.items() if name.startswith(f"{key}/")}
    return {**inner, **({"": boxes[key]} if key in boxes else {})}


def _box(found: Any) -> BoxSpace:
    if isinstance(found, BoxSpace):
        return found
    if found.dtype.kind == "b":
        return BoolBox(shape=found.shape)
    if found.dtype.kind == "f":
        return FloatBox(found.low, found.high, shape=found.shape)
    return _of_integers(found)


def _of_integers(found: Any) -> IntBox:
    dtype: Any = np.uint8 if found.dtype == "uint8" else np.int32
    limits = np.iinfo(dtype)
    if found.num_categories is None and found.low <= limits.min and found.high >= limits.max:
        return IntBox(shape=found.shape, dtype=dtype)
    most = 256 if dtype == np.uint8 else limits.max  # an upper bound of int32 is an int32, too
    return IntBox(found.low, min(found.high, most), shape=found.shape, dtype=dtype)
