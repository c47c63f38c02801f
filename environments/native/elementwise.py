"""Functions of float64 arrays, bit-identical to NumPy's results for single numbers.

Sums, products and quotients are rounded the same way everywhere (IEEE 754). Powers are not: NumPy squares an array by a
multiplication, and a single number by the C library's ``pow``, which differs in the last bit in one of a thousand
cases. Sines and cosines agree if NumPy's loop treats all elements alike, which :func:`same_as_scalar` tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from ...core.protocols import Array

InPlace: TypeAlias = "Callable[[Array, Array], Any]"
"""``function(x, out)``: writes the function of each element of ``x`` [size] into ``out`` [size]."""

_PROBES: Final = 1024
"""Minimum count of numbers for comparing loops over arrays with calls for single numbers."""
_LARGEST: Final = 50.0
"""Largest absolute value of these numbers: angles in these environments are smaller."""


def same_as_scalar(function: np.ufunc, size: int) -> InPlace:
    """``function`` of contiguous arrays [size], bit-identical to its results for single elements.

    This is ``function`` itself if its loop over that many elements, vectorised or not, gives the same results, as in
    all known versions of NumPy; else one call for each element.

    Args:
        function: ``np.sin`` or ``np.cos``.
        size: length of the arrays.
    """
    rows = -(-_PROBES // size)
    probes = np.random.default_rng(0).uniform(-1.0, 1.0, (rows, size)) * np.geomspace(1e-3, _LARGEST, rows)[:, None]
    at_once, alone = np.empty(size), np.empty(size)
    for row in probes:
        function(row, at_once)
        one_by_one(function, row, alone)
        if at_once.tobytes() != alone.tobytes():
            return lambda x, out: one_by_one(function, x, out)
    return function


def one_by_one(function: np.ufunc, x: Array, out: Array) -> None:
    """Call ``function`` for each element of ``x`` as a NumPy number."""
    out[:] = [function(value) for value in x]


def squared(x: Array) -> list[Any]:
    """``value ** 2`` of each element of ``x`` as a NumPy number."""
    return [value**2 for value in x]


def math_cos(x: Array) -> list[float]:
    """``math.cos`` of each element of ``x``."""
    return list(map(math.cos, x.tolist()))
