"""What is divided by where numbers are normalised by their spread: one that rounding alone makes is none."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_ROUNDING: Final = 1e-12
"""A variance, in units of the mean square: a deviation of 1e-6.

Rounding to float32 moves a number by 6e-8 of itself at most (2**-24): there is room for an arithmetic of 17 roundings
that all err the same way. What varies by more, varies. Rounding to float64 moves a number by 1e-16 of itself.
"""


def varies(variance: Any, square: Any) -> Any:
    """Is this variance more than float32's rounding makes of numbers of this mean square? Of arrays or tensors."""
    return variance > _ROUNDING * square


def divisor(mean: Any, variance: Any, epsilon: float) -> Any:
    """What deviations from a mean are divided by: the root of variance plus epsilon; infinity where nothing varies."""
    return np.where(varies(variance, mean * mean), np.sqrt(variance + epsilon), np.inf)
