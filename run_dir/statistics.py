"""Statistics of the results of several runs, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..core.protocols import Array

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95
ENOUGH: Final = 10
"""Number of runs from which a bootstrap interval is about as wide as it should be."""
_SEED: Final = 0
"""Fixed, so that the same results always have the same interval."""
_VALUES_AT_ONCE: Final = 1 << 22


class Interval(NamedTuple):
    """A statistic of the runs, and the bounds of its interval."""

    value: float
    low: float
    high: float


def are_few(runs: int) -> bool:
    """Are there too few runs for :func:`interval`, which would be too narrow?"""
    return 0 < runs < ENOUGH


def mean(values: Array) -> Array:
    """Means over the first axis."""
    result: Array = np.mean(values, axis=0)
    return result


def interquartile_mean(values: Array) -> Array:
    """Means over the first axis without the lowest and the highest quarter of the values.

    Of n values, n // 4 are dropped on each side (Agarwal et al. 2021, arXiv:2108.13264, and its library rliable).
    """
    ordered = np.sort(values, axis=0)
    cut = len(ordered) // 4
    return mean(ordered[cut : len(ordered) - cut])


def interval(values: Sequence[float] | Array, statistic: Callable[[Array], Array] = mean) -> Interval:
    """A statistic of the results of runs, with its 95 % interval by the percentile bootstrap over the runs.

    Draws 10,000 resamples of the same size, with replacement and a fixed generator; the bounds are the 2.5 % and 97.5 %
    quantiles of their statistics. The interval of a single run has no width.

    Args:
        values: [runs].
        statistic: of arrays [runs, ...], over the first axis.
    """
    found = intervals(np.asarray(values, np.float64)[:, None], statistic)
    return Interval(*(float(array[0]) for array in found))


def intervals(values: Array, statistic: Callable[[Array], Array] = mean) -> tuple[Array, Array, Array]:
    """Apply :func:`interval` to several results of each run, resampled together: values [runs, P] to three [P]."""
    generator = np.random.Generator(np.random.PCG64(_SEED))
    drawn = generator.integers(len(values), size=(len(values), RESAMPLES))
    at_once = max(1, _VALUES_AT_ONCE // drawn.size)
    tail = (1 - CONFIDENCE) / 2
    bounds = [
        np.quantile(statistic(values[:, start : start + at_once][drawn]), (tail, 1 - tail), axis=0)
        for start in range(0, values.shape[1], at_once)
    ]
    low, high = np.concatenate(bounds, axis=1)
    return statistic(values), low, high
