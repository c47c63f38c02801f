"""Statistics of the results of several runs, on one or several tasks, with confidence intervals.

A task's results are an array [runs]; methods may have different numbers of runs (Agarwal et al. 2021,
arXiv:2108.13264).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..core.protocols import Array

RESAMPLES: Final = 10_000
CONFIDENCE: Final = 0.95
_BOUNDS: Final = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
ENOUGH: Final = 10
"""Minimum number of runs for which a bootstrap interval is about as wide as it should be."""
_SEED: Final = 0
"""Fixed, so that the same results always have the same interval."""
_VALUES_AT_ONCE: Final = 1 << 22


class Interval(NamedTuple):
    """A statistic of the runs, and the bounds of its interval."""

    value: float
    low: float
    high: float


def are_few(runs: int) -> bool:
    """Are there so few runs that :func:`interval` would be too narrow?"""
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
    return stratified_interval([values], statistic)


def intervals(values: Array, statistic: Callable[[Array], Array] = mean) -> tuple[Array, Array, Array]:
    """Apply :func:`interval` to several results of each run, resampled together: values [runs, P] to three [P]."""
    generator = np.random.Generator(np.random.PCG64(_SEED))
    drawn = generator.integers(len(values), size=(len(values), RESAMPLES))
    at_once = max(1, _VALUES_AT_ONCE // drawn.size)
    bounds = [
        np.quantile(statistic(values[:, start : start + at_once][drawn]), _BOUNDS, axis=0)
        for start in range(0, values.shape[1], at_once)
    ]
    low, high = np.concatenate(bounds, axis=1)
    return statistic(values), low, high


def stratified_interval(
    tasks: Sequence[Sequence[float] | Array], statistic: Callable[[Array], Array] = interquartile_mean
) -> Interval:
    """A statistic of all runs on all tasks, with its 95 % interval by the stratified percentile bootstrap.

    Each task is resampled from its own runs; results of different tasks must be on one scale.

    Args:
        tasks: results of each task's runs, at least one.
        statistic: of arrays [results, ...], over the first axis.
    """
    generator = np.random.Generator(np.random.PCG64(_SEED))
    results = [np.asarray(task, np.float64) for task in tasks]
    drawn = [task[generator.integers(len(task), size=(len(task), RESAMPLES))] for task in results]
    return _interval(float(statistic(np.concatenate(results))), statistic(np.concatenate(drawn)))


def probability_of_improvement(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> Interval:
    """Probability that a run of the first method is better than one of the second, averaged over tasks.

    The share of all pairs of runs in which the first result is higher; ties count half (the U statistic of Mann and
    Whitney, divided by the number of pairs). With its 95 % interval, as above.

    Args:
        first: results of the first method on each task, at least one.
        second: results of the second method on the same tasks.
    """
    generator = np.random.Generator(np.random.PCG64(_SEED))
    value, draws = 0.0, np.zeros(RESAMPLES)
    for ours, theirs in zip(first, second, strict=True):
        difference = np.asarray(ours, np.float64)[:, None] - np.asarray(theirs, np.float64)
        wins = (np.sign(difference) + 1) / 2  # [ours, theirs]
        value += float(wins.mean())
        a, b = (_counts(generator, size) for size in wins.shape)  # [RESAMPLES, runs]
        draws += np.einsum("rb,rb->r", a @ wins, b) / wins.size
    return _interval(value / len(first), draws / len(first))


def _counts(generator: np.random.Generator, runs: int) -> Array:
    """Number of times each run is drawn in each resample."""
    found: Array = generator.multinomial(runs, np.full(runs, 1 / runs), size=RESAMPLES).astype(np.float64)
    return found


def _interval(value: float, draws: Array) -> Interval:
    low, high = np.quantile(draws, _BOUNDS)
    return Interval(value, float(low), float(high))
