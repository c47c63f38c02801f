"""Activations by name, as functions of NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ....core.protocols import Array

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
