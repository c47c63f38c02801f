"""Logarithms of the beta function, and the digamma function, in plain arithmetic that every runtime has.

Both shift their arguments up by recurrence until a few terms of an asymptotic series suffice; the arithmetic has
derivatives of any order.

Source: NIST Digital Library of Mathematical Functions, https://dlmf.nist.gov/5.11 (series), 5.5 (recurrence).
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any

_MOVES: Final = 4
"""Shifts, an even number: with four, the omitted terms are below 1e-7."""
_LOG_SQRT_2PI: Final = 0.5 * math.log(2 * math.pi)


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """``log B(a, b) = log Gamma(a) + log Gamma(b) - log Gamma(a + b)``, without differences of large numbers.

    Args:
        a: float32, above 0.
        b: float32 of the same shape, above 0.

    Returns:
        the same shape.
    """
    total = a + b
    quotients = [(total + 2 * i) * (total + (2 * i + 1)) / ((a + i) * (b + i)) for i in range(_MOVES)]
    moved = [tf.math.log(quotients[i] * quotients[i + 1]) for i in range(0, _MOVES, 2)]
    x, y, total = a + _MOVES, b + _MOVES, total + 2 * _MOVES
    swapped = x > y  # minimum and maximum would split gradients wrongly where both are equal
    x, y = tf.where(swapped, y, x), tf.where(swapped, x, y)
    leading = (x - 0.5) * tf.math.log(x / total) + (y - 0.5) * tf.math.log1p(-x / total) - 0.5 * tf.math.log(total)
    return tf.add_n(moved) + (leading + _LOG_SQRT_2PI) + (_remainder(x) + _remainder(y) - _remainder(total))


def digamma(x: Tensor) -> Tensor:
    """The derivative of ``log Gamma``.

    Args:
        x: float32, above 0.

    Returns:
        the same shape.
    """
    moved = tf.add_n([(2.0 * x + (2 * i + 1)) / ((x + i) * (x + (i + 1))) for i in range(0, _MOVES, 2)])
    inverse = 1.0 / (x + _MOVES)
    square = inverse * inverse
    series = 0.5 * inverse + square * (1 / 12 - square * (1 / 120 - square / 252))
    return tf.math.log(x + _MOVES) - series - moved


def _remainder(x: Tensor) -> Tensor:
    """Remainder of ``log Gamma(x)`` beyond ``(x - 1/2) log x - x + log sqrt(2 pi)``."""
    inverse = 1.0 / x
    square = inverse * inverse
    return inverse * (1 / 12 - square * (1 / 360 - square / 1260))
