"""Steps for images [height, width, channels] or [height, width]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ....core.protocols import Array
from ..refusals import refuse
from .steps import FLOAT, Numbers, Step, round_to

LUMA: Final = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in the brightness (ITU-R BT.601)."""


def grayscale(where: str, value: Numbers, weights: Sequence[float], keep_rank: bool = False) -> Step:
    """The weighted sum over the last axis, which is dropped unless ``keep_rank``."""
    if not value.shape or value.shape[-1] != len(weights):
        problem = f"has {len(weights)} weights, one for each channel; the state has the shape {list(value.shape)}"
        refuse(f"{where}['weights']", problem, weights)
    low, high = value.low, value.high
    least = sum(w * (low if w > 0 else high) for w in weights if w)
    most = sum(w * (high if w > 0 else low) for w in weights if w)
    columns = np.array(weights, np.float32)[:, None]

    def function(x: Array) -> Array:
        y: Array = x.astype(FLOAT, copy=False) @ columns
        return y if keep_rank else y[..., 0]

    return _of_floats(_of_channels(value, keep_rank), least, most, function)


def image_binary(where: str, value: Numbers, threshold: float = 0.0, keep_rank: bool = False) -> Step:
    """1 where the sum of the channels is above ``threshold``, else 0, in the dtype of the image.

    The channel axis is dropped unless ``keep_rank``; an image without one keeps its shape.
    """
    _check_image(where, value)
    dtype, has_channels = value.dtype, len(value.shape) == 3

    def function(x: Array) -> Array:
        total = x.sum(-1, dtype=np.float64, keepdims=keep_rank) if has_channels else x
        y: Array = (total > threshold).astype(dtype)
        return y

    return Step((_of_channels(value, keep_rank) if has_channels else value).with_range(dtype, 0.0, 1.0), function)


def image_crop(where: str, value: Numbers, x: int, y: int, width: int, height: int) -> Step:
    """Crop to ``height`` rows from ``y`` and ``width`` columns from ``x``."""
    _check_image(where, value)
    for size, start, index, wanted, begin in (("height", "y", 0, height, y), ("width", "x", 1, width, x)):
        if begin + wanted > value.shape[index]:
            end = f"{start} + {size} is {begin + wanted}"
            problem = f"must end within the image's {size} of {value.shape[index]}; {end}"
            refuse(f"{where}[{size!r}]", problem, wanted)
    out = value.of_shape(height, width, *value.shape[2:])
    return Step(out, lambda images: images[:, y : y + height, x : x + width])


def image_resize(where: str, value: Numbers, width: int, height: int, interpolation: str = "area") -> Step:
    """Resize.

    ``interpolation``: ``area`` averages the area of the old image that a new pixel covers, so that small objects get
    fainter but do not vanish; ``bilinear`` interpolates between the old pixels with the nearest centres; ``nearest``
    takes the old pixel that contains the new pixel's centre.
    """
    _check_image(where, value)
    old, out = value.shape[:2], value.of_shape(height, width, *value.shape[2:])
    if old == (height, width):
        return Step(value, lambda images: images)
    if interpolation == "nearest":
        row, column = _nearest(old[0], height), _nearest(old[1], width)
        return Step(out, lambda images: images[:, row[:, None], column])
    rows, columns = METHODS[interpolation](old[0], height), METHODS[interpolation](old[1], width)

    def function(images: Array) -> Array:
        flat = images.astype(FLOAT, copy=False).reshape(len(images), *old, -1)  # [B, h, w, c]
        channels = flat.shape[-1]
        shrunk = rows @ flat.reshape(len(flat), old[0], old[1] * channels)  # [B, H, w * c]
        y: Array = columns @ shrunk.reshape(len(flat), height, old[1], channels)  # [W, w] @ [B, H, w, c]
        return y.reshape(len(images), *out.shape)

    return _of_floats(out, value.low, value.high, function)


def _of_floats(value: Numbers, low: float, high: float, function: Callable[[Array], Array]) -> Step:
    """A step whose function returns floats, rounded if the inputs are integers; bools become floats."""
    if value.dtype.kind not in "iu":
        return Step(value.with_range(FLOAT, low, high), function)
    dtype, limits = value.dtype, np.iinfo(value.dtype)
    low, high = (float(np.rint(min(max(bound, limits.min), limits.max))) for bound in (low, high))
    return Step(value.with_range(dtype, low, high), lambda images: round_to(function(images), dtype, nearest=True))


def _of_channels(value: Numbers, keep: bool) -> Numbers:
    return value.of_shape(*value.shape[:-1], *([1] if keep else []))


def _check_image(where: str, value: Numbers) -> None:
    if len(value.shape) not in (2, 3):
        problem = f"takes images [height, width] or [height, width, channels]; got the shape {list(value.shape)}"
        refuse(where, problem, value)


def _area(old: int, new: int) -> Array:
    """Weights of old pixels in each new one by area, along one axis: float32 [new, old], whose rows sum to 1."""
    edges = np.arange(new + 1) * (old / new)
    begin, end = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old)
    overlap = np.clip(np.minimum(end, pixels + 1) - np.maximum(begin, pixels), 0, None)
    shares: Array = (overlap / overlap.sum(1, keepdims=True)).astype(np.float32)
    return shares


def _bilinear(old: int, new: int) -> Array:
    """Bilinear weights, shaped as those of ``_area``. Beyond the outermost centres, edge pixels repeat."""
    centres = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)[:, None]
    shares: Array = np.clip(1 - np.abs(centres - np.arange(old)), 0, None).astype(np.float32)
    return shares


def _nearest(old: int, new: int) -> Array:
    """The index of the old pixel of each new one, along one axis: int [new]."""
    return (2 * np.arange(new) + 1) * old // (2 * new)


METHODS: Final[dict[str, Callable[[int, int], Array]]] = {"area": _area, "bilinear": _bilinear, "nearest": _nearest}
"""Interpolations of resizing."""
