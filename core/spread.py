"""Divisor for normalisation by standard deviation; a deviation within rounding error counts as zero."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_ROUNDING: Final = 1e-12
"""A variance, in units of the mean square: a deviation of 1e-6.

Rounding to float32 changes a number by at most 6e-8 of itself (2**-24), so this leaves room for 17 roundings that all
err the same way. Rounding to float64 changes a number by 1e-16 of itself.
"""


def varies(variance: Any, square: Any) -> Any:
    """Whether a variance exceeds float32's rounding error for numbers of this mean square. Arrays or tensors."""
    return variance > _ROUNDING * square


def divisor(mean: Any, variance: Any, epsilon: float) -> Any:
    """Divisor of deviations from a mean: the root of variance plus epsilon; infinity where nothing varies."""
    return np.where(varies(variance, mean * mean), np.sqrt(variance + epsilon), np.inf)
