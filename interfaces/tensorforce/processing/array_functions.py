"""Functions of NumPy arrays that preprocessing needs: activations by name, and resizing of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ....contracts import Array

_SELU_ALPHA: Final = np.float32(1.6732632423543772)
_SELU_SCALE: Final = np.float32(1.0507009873554805)  # Klambauer et al. 2017, section 2
_HALF: Final = np.float32(0.5)


def _sigmoid(x: Array) -> Array:
    y: Array = _HALF * (np.tanh(_HALF * x) + np.float32(1))  # does not overflow
    return y


def _elu(x: Array) -> Array:
    y: Array = np.where(x > 0, x, np.expm1(np.minimum(x, np.float32(0))))
    return y


def _selu(x: Array) -> Array:
    y: Array = _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(np.minimum(x, np.float32(0))))
    return y


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    y: Array = powers / powers.sum(-1, keepdims=True)
    return y


def _relu(x: Array) -> Array:
    y: Array = np.maximum(x, np.float32(0))
    return y


ACTIVATIONS: Final[dict[str, Callable[[Array], Array]]] = {
    "crelu": lambda x: np.concatenate((_relu(x), _relu(-x)), -1),
    "elu": _elu,
    "leaky-relu": lambda x: np.maximum(x, np.float32(0.2) * x),
    "none": lambda x: x,
    "relu": _relu,
    "selu": _selu,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "softplus": lambda x: np.logaddexp(np.float32(0), x),
    "softsign": lambda x: x / (np.float32(1) + np.abs(x)),
    "swish": lambda x: x * _sigmoid(x),
    "tanh": np.tanh,
}
"""By name, of float32 arrays. ``crelu`` doubles the last axis; it and ``softmax`` need one."""


def resizer(old: tuple[int, int], new: tuple[int, int]) -> Callable[[Array], Array]:
    """A function that resizes images float32 [height, width, channels].

    Each new pixel is the mean of the area that it covers in the old image, where pixels are squares. Small things
    therefore get fainter and do not vanish, as they would where pixels are only interpolated.

    Args:
        old: height and width of what goes in.
        new: of what comes out.
    """
    if old == new:
        return lambda image: image
    rows, columns = _shares(old[0], new[0]), _shares(old[1], new[1])

    def resize(image: Array) -> Array:
        shrunk = rows @ image.reshape(old[0], -1)  # [H, w * c]
        y: Array = columns @ shrunk.reshape(new[0], old[1], -1)  # [W, w] @ [H, w, c]
        return y

    return resize


def _shares(old: int, new: int) -> Array:
    """How much of each new pixel is of each old one, along one axis: float32 [new, old], rows of sum 1."""
    edges = np.arange(new + 1) * (old / new)
    begin, end = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old)
    overlap = np.clip(np.minimum(end, pixels + 1) - np.maximum(begin, pixels), 0, None)
    shares: Array = (overlap / overlap.sum(1, keepdims=True)).astype(np.float32)
    return shares
