"""Comparison of methods by few runs, on one or several tasks: Agarwal et al. 2021, arXiv:2108.13264.

A task's results are an array [runs]; methods may have different numbers of runs. The bootstrap is stratified: each task
is resampled from its own runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..core.protocols import Array
from .statistics import CONFIDENCE, RESAMPLES, Interval, interquartile_mean

_SEED: Final = 0
"""Fixed, so that the same results always have the same interval."""


def stratified_interval(
    tasks: Sequence[Sequence[float]], statistic: Callable[[Array], Array] = interquartile_mean
) -> Interval:
    """A statistic of all runs on all tasks, with its 95 % interval by the stratified percentile bootstrap.

    Results of different tasks must be on one scale.

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
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(draws, (tail, 1 - tail))
    return Interval(value, float(low), float(high))
