"""Steps of preprocessing for images [height, width, channels] or [height, width]; see ``preprocessing_steps.py``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array
from ...common.arrays import LUMA, METHODS, resizer, weighted
from ...common.specs.argument_checks import one_of, several, whole
from ...common.specs.argument_table import Argument, Arguments
from ..utils.rlgraph_errors import flag, number, refuse
from .value_specs import FLOAT, ValueSpec, rounded

_Built = tuple[ValueSpec, Callable[[Array], Array]]


def grayscale(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> _Built:
    """The weighted sum over the last axis, which goes unless ``keep_rank``."""
    weights, keep = arguments["weights"], arguments["keep_rank"]
    if not value.shape or value.shape[-1] != len(weights):
        problem = f"has {len(weights)} weights, one for each channel; the state has the shape {list(value.shape)}"
        refuse(f"{where}['weights']", problem, weights)
    low, high = value.bounds
    least = sum(w * (low if w > 0 else high) for w in weights if w)
    most = sum(w * (high if w > 0 else low) for w in weights if w)

    def function(x: Array) -> Array:
        y = weighted(x.astype(FLOAT, copy=False), weights)
        return y if keep else y[..., 0]

    return _of_numbers(_of_channels(value, keep), least, most, function)


def image_binary(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> _Built:
    """1 where the sum of the channels is above ``threshold``, else 0, in the dtype of the image.

    The axis of the channels goes unless ``keep_rank``; an image without one keeps its shape.
    """
    _check_image(where, value)
    threshold, keep, dtype = arguments["threshold"], arguments["keep_rank"], value.dtype
    channels = len(value.shape) == 3

    def function(x: Array) -> Array:
        total = x.sum(-1, dtype=np.float64, keepdims=keep) if channels else x
        y: Array = (total > threshold).astype(dtype)
        return y

    return (_of_channels(value, keep) if channels else value).within(dtype, 0.0, 1.0), function


def image_crop(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> _Built:
    """``height`` rows from ``y`` on, of which ``width`` columns from ``x`` on."""
    _check_image(where, value)
    for size, start, index in (("height", "y", 0), ("width", "x", 1)):
        end = arguments[start] + arguments[size]
        if end > value.shape[index]:
            problem = f"must end within the image's {size} of {value.shape[index]}; {start} + {size} is {end}"
            refuse(f"{where}[{size!r}]", problem, arguments[size])
    x, y, width, height = (arguments[name] for name in ("x", "y", "width", "height"))
    out = value.of_shape((height, width, *value.shape[2:]))
    return out, lambda images: images[:, y : y + height, x : x + width]


def image_resize(where: str, value: ValueSpec, arguments: Mapping[str, Any]) -> _Built:
    """Another size; ``interpolation`` is one of ``common.arrays.METHODS``."""
    _check_image(where, value)
    old, new = (value.shape[0], value.shape[1]), (arguments["height"], arguments["width"])
    out, method = value.of_shape((*new, *value.shape[2:])), arguments["interpolation"]
    resize = resizer(old, new, method)

    def function(images: Array) -> Array:
        return resize(images.reshape(len(images), *old, -1)).reshape(len(images), *out.shape)

    if method == "nearest":
        return out, function
    return _of_numbers(out, *value.bounds, lambda images: function(images.astype(FLOAT, copy=False)))


def _of_numbers(value: ValueSpec, low: float, high: float, function: Callable[[Array], Array]) -> _Built:
    """What returns floats: rounded where the values are integers, and floats of bools."""
    if value.dtype.kind not in "iu":
        return value.within(FLOAT, low, high), function
    dtype, limits = value.dtype, np.iinfo(value.dtype)
    low, high = (float(np.rint(min(max(bound, limits.min), limits.max))) for bound in (low, high))
    return value.within(dtype, low, high), lambda images: rounded(function(images), dtype, nearest=True)


def _of_channels(value: ValueSpec, keep: bool) -> ValueSpec:
    return value.of_shape((*value.shape[:-1], 1) if keep else value.shape[:-1])


def _check_image(where: str, value: ValueSpec) -> None:
    if len(value.shape) not in (2, 3):
        problem = f"takes images [height, width] or [height, width, channels]; got the shape {list(value.shape)}"
        refuse(where, problem, value)


def _weights(place: str, value: Any) -> list[float]:
    weights: list[float] = several(number, "weights")(place, LUMA if value is None else value)
    return weights


_SIZE: Final = Argument(whole(1))
_START: Final = Argument(whole(0), 0)
_KEEP: Final = Argument(flag, False)

IMAGE_STEPS: Final[dict[str, tuple[Callable[[str, ValueSpec, Mapping[str, Any]], _Built], Arguments]]] = {
    "grayscale": (grayscale, {"weights": Argument(_weights, list(LUMA)), "keep_rank": _KEEP}),
    "image_binary": (image_binary, {"threshold": Argument(number, 0.0), "keep_rank": _KEEP}),
    "image_crop": (image_crop, {"x": _START, "y": _START, "width": _SIZE, "height": _SIZE}),
    "image_resize": (
        image_resize,
        {"width": _SIZE, "height": _SIZE, "interpolation": Argument(one_of(*METHODS), "area")},
    ),
}
"""By name, the function and what it takes."""
