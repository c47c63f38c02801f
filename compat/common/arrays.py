"""Functions of NumPy arrays that preprocessing needs: images in another size, and in shades of grey."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ...core.protocols import Array

LUMA: Final = (0.299, 0.587, 0.114)
"""What red, green and blue add to the brightness (ITU-R BT.601)."""


def weighted(images: Array, weights: Sequence[float]) -> Array:
    """The weighted sum of the channels.

    Args:
        images: float32 [..., channels].
        weights: one for each channel.

    Returns:
        float32 [..., 1].
    """
    y: Array = images @ np.array(weights, np.float32)[:, None]
    return y


def resizer(old: tuple[int, int], new: tuple[int, int], method: str = "area") -> Callable[[Array], Array]:
    """A function that resizes images [..., height, width, channels].

    Args:
        old: height and width of what goes in.
        new: of what comes out.
        method: one of :data:`METHODS`. ``area``: each new pixel is the mean of the area that it covers in the old
            image, where pixels are squares. Small things therefore get fainter and do not vanish, as they would where
            pixels are only interpolated. ``bilinear``: on a line between the two old pixels whose centres are next to
            its own. ``nearest``: the old pixel in which its centre lies.

    Returns:
        a function of float32 images; with ``nearest`` of any dtype, which is kept. It may return what it is given.
    """
    if old == new:
        return lambda images: images
    if method == "nearest":
        row, column = _nearest(old[0], new[0]), _nearest(old[1], new[1])
        return lambda images: images[..., row[:, None], column, :]
    rows, columns = (METHODS[method](*sizes) for sizes in zip(old, new, strict=True))

    def resize(images: Array) -> Array:
        *lead, _, _, channels = images.shape
        shrunk = rows @ images.reshape(*lead, old[0], old[1] * channels)  # [H, w * c]
        y: Array = columns @ shrunk.reshape(*lead, new[0], old[1], channels)  # [W, w] @ [H, w, c]
        return y

    return resize


def _area(old: int, new: int) -> Array:
    """How much of each new pixel is of each old one, along one axis: float32 [new, old], rows of sum 1."""
    edges = np.arange(new + 1) * (old / new)
    begin, end = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old)
    overlap = np.clip(np.minimum(end, pixels + 1) - np.maximum(begin, pixels), 0, None)
    shares: Array = (overlap / overlap.sum(1, keepdims=True)).astype(np.float32)
    return shares


def _bilinear(old: int, new: int) -> Array:
    """Likewise: the nearer a centre, the larger its share. Beyond the outermost centres images go on as they end."""
    centres = np.clip((np.arange(new) + 0.5) * (old / new) - 0.5, 0, old - 1)[:, None]
    shares: Array = np.clip(1 - np.abs(centres - np.arange(old)), 0, None).astype(np.float32)
    return shares


def _nearest(old: int, new: int) -> Array:
    """The index of the old pixel of each new one, along one axis: int [new]."""
    return (2 * np.arange(new) + 1) * old // (2 * new)


METHODS: Final[dict[str, Callable[[int, int], Array]]] = {"area": _area, "bilinear": _bilinear, "nearest": _nearest}
"""The ways to resize."""
