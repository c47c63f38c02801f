"""Statistics of the runs in an environment: curves, results, sample efficiency, speed, and comparisons."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from ...core.protocols import Array
from ...core.spread import varies
from ...run_dir.learning_curve import POINTS, smoothing_window
from ...run_dir.learning_curves import close_gaps, window_means_of
from ...run_dir.statistics import (
    Interval,
    are_few,
    interquartile_mean,
    interval,
    intervals,
    mean,
    probability_of_improvement,
    stratified_interval,
)
from .groups import Entry, Group, differences, settings_key

SHOWN: Final = 8
"""Number of the best groups that are drawn in colours and compared with one another."""
_SHARES: Final = (0.25, 0.5, 0.75, 0.9)
_BANDS: Final = 2
"""Every second point of a curve has an interval."""
_OF_ENVIRONMENT: Final = ("environment.", "code.environment")
"""Beginnings of the settings of an environment."""


@dataclasses.dataclass(frozen=True)
class Band:
    """A mean learning curve with its 95 % interval, [P] each."""

    timesteps: Array
    mean: Array
    low: Array
    high: Array


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """The results of a group. ``final`` is the interquartile mean of its runs' final returns."""

    group: Group
    finals: Sequence[float]
    final: Interval | None
    mean: Interval | None
    best: float | None
    timesteps_per_second: float | None
    """The median over its runs."""
    band: Band | None
    reached: Mapping[float, tuple[int, float | None]]
    """Return to: how many of the runs reached it, and the median of the timesteps; None if half of them did not."""

    @property
    def has_few_runs(self) -> bool:
        """Does the group have too few runs for its intervals?"""
        return are_few(len(self.finals))


@dataclasses.dataclass(frozen=True)
class Study:
    """An environment's groups, the best first; groups without evaluations come last."""

    environment: str
    results: Sequence[GroupResult]
    differing: Mapping[str, Sequence[str]]
    """The settings in which the groups differ, with the value of each."""
    improvement: Mapping[tuple[str, str], Interval]
    """Labels of two displayed groups to the probability that the first one is better."""

    @property
    def what(self) -> str:
        """The source of final returns, in words."""
        training = [result.group.label for result in self.results if not result.group.is_evaluated]
        entries = [entry for result in self.results for entry in result.group.counted if result.group.is_evaluated]
        if not entries:
            return "the last 100 episodes of training"
        numbers = [entry.run.final_episodes or 0 for entry in entries]
        few_and_many = " to ".join(f"{number:,}" for number in sorted({min(numbers), max(numbers)}))
        what = f"the last evaluation, of {few_and_many} episodes"
        return f"{what}; those of {', '.join(training)}, of the last 100 episodes of training" if training else what

    @property
    def comparable(self) -> Sequence[GroupResult]:
        """Groups whose final returns are of one kind: without unevaluated groups if others were evaluated."""
        return [one for one in self.results if one.group.is_evaluated == self.results[0].group.is_evaluated]

    @property
    def coloured_results(self) -> Sequence[GroupResult]:
        """Groups that are drawn in colours."""
        return self.results[:SHOWN]


def study(environment: str, groups: Sequence[Group], reach: Sequence[float] = ()) -> Study:
    """Compute all statistics of the runs in one environment.

    Args:
        environment: its id.
        groups: at least one.
        reach: returns for sample efficiency (when were they reached?); empty for some between the lowest and the
            highest.
    """
    finals = {group.label: _finals(group) for group in groups}
    middle = {label: interval(found, interquartile_mean) if found else None for label, found in finals.items()}
    ordered = sorted(groups, key=lambda group: (not group.is_evaluated, -_value(middle[group.label])))
    smooth = {group.label: _smooth_curves(group) for group in groups}
    reach = reach or _returns_to_reach([curves for _, curves in smooth.values()])
    drawn = {group.label for group in ordered[:SHOWN]}
    results = [
        GroupResult(
            group,
            finals[group.label],
            middle[group.label],
            interval(finals[group.label], mean) if finals[group.label] else None,
            max((entry.run.best_return for entry in group.counted if entry.run.best_return is not None), default=None),
            _median([run.timesteps_per_second for run in group.runs if run.timesteps_per_second is not None]),
            _band(*smooth[group.label], sure=group.label in drawn),
            {value: _timesteps_to_reach(*smooth[group.label], value) for value in reach},
        )
        for group in ordered
    ]
    differing = differences([group.settings for group in ordered])
    return Study(environment, results, differing, _improvement(results[:SHOWN]))


def across(studies: Sequence[Study]) -> dict[str, tuple[Interval, Interval | None]]:
    """Compare groups that are in every environment, once, with the same settings except those of the environment.

    Returns:
        The label in the first environment, to the interquartile mean of the normalised final returns (0 is the lowest
        of all runs in an environment, 1 the highest), with its stratified interval; and the probability of improvement
        over the first group, None for that group itself. Empty if there are no two such groups in two environments.
    """
    found: dict[str, list[tuple[str, str, list[float]]]] = {}
    for one in studies:
        every = [value for result in one.comparable for value in result.finals]
        low, high = min(every, default=0.0), max(every, default=0.0)
        span = high - low if varies((high - low) ** 2, max(low**2, high**2)) else math.inf
        for result in one.comparable:
            if result.finals:
                scaled = [(value - low) / span for value in result.finals]
                settings = {k: v for k, v in result.group.settings.items() if not k.startswith(_OF_ENVIRONMENT)}
                found.setdefault(settings_key(settings), []).append((one.environment, result.group.label, scaled))
    environments = [one.environment for one in studies]
    common = [tasks for tasks in found.values() if [environment for environment, _, _ in tasks] == environments]
    if len(studies) < 2 or len(common) < 2:
        return {}
    scores = {tasks[0][1]: [scaled for _, _, scaled in tasks] for tasks in common}
    ordered = sorted(scores, key=lambda label: -stratified_interval(scores[label]).value)
    first = scores[ordered[0]]
    return {
        label: (
            stratified_interval(scores[label]),
            probability_of_improvement(scores[label], first) if label != ordered[0] else None,
        )
        for label in ordered
    }


def _finals(group: Group) -> list[float]:
    """The final returns of its runs, from evaluations or from training."""
    runs = [entry.run for entry in group.counted]
    found = [run.final_return if group.is_evaluated else run.training_return for run in runs]
    return [math.nan if value is None else value for value in found]


def _value(found: Interval | None) -> float:
    return found.value if found is not None and np.isfinite(found.value) else -np.inf


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _smooth_curves(group: Group) -> tuple[Array, Array]:
    """A grid of timesteps [P], and on it the curve of each run that counts [runs, P]; NaN where it has no value."""
    last = max((_points(entry)[0][-1] for entry in group.counted), default=1.0)
    grid, window, curves = np.linspace(0, last, POINTS), smoothing_window(int(last)), []
    for entry in group.counted:
        at, returns = _points(entry)
        if entry.curve.ends.size:
            curves.append(close_gaps(grid, window_means_of(at, returns, grid, window)))
        else:
            curves.append(np.interp(grid, at, returns, np.nan, np.nan))
    return grid, np.array(curves).reshape(-1, POINTS)


def _points(entry: Entry) -> tuple[Array, Array]:
    """Training episodes; if there are none, as with ``Agent.learn``, evaluations."""
    if entry.curve.ends.size:
        return entry.curve.ends, entry.curve.returns
    return np.array(list(entry.curve.evaluations), float), np.array(list(entry.curve.evaluations.values()))


def _band(grid: Array, curves: Array, *, sure: bool) -> Band | None:
    """The mean where all runs have a value; the interval only for groups that are drawn in colours."""
    grid, curves = grid[::_BANDS], curves[:, ::_BANDS]
    everywhere = np.isfinite(curves).all(axis=0)
    if not len(curves) or not everywhere.any():
        return None
    chosen = curves[:, everywhere]
    found = intervals(chosen) if sure else (chosen.mean(axis=0),) * 3
    return Band(grid[everywhere], *found)


def _returns_to_reach(curves: Sequence[Array]) -> list[float]:
    """Some returns between the lowest and the highest value of all curves, to three digits."""
    known = np.concatenate([one[np.isfinite(one)] for one in curves])
    if not known.size or known.min() == known.max():
        return []
    low, high = float(known.min()), float(known.max())
    return list(dict.fromkeys(float(f"{low + share * (high - low):.3g}") for share in _SHARES))


def _timesteps_to_reach(grid: Array, curves: Array, value: float) -> tuple[int, float | None]:
    when = np.array([grid[curve >= value][0] if (curve >= value).any() else np.inf for curve in curves])
    middle = float(np.median(when)) if when.size else np.inf
    return int(np.isfinite(when).sum()), middle if np.isfinite(middle) else None


def _improvement(results: Sequence[GroupResult]) -> dict[tuple[str, str], Interval]:
    """Compare groups of at least two runs, with returns of one kind: with one run it is 0 or 1, and looks certain."""
    return {
        (ours.group.label, theirs.group.label): probability_of_improvement([ours.finals], [theirs.finals])
        for ours in results
        for theirs in results
        if ours is not theirs
        and min(len(ours.finals), len(theirs.finals)) > 1
        and ours.group.is_evaluated == theirs.group.is_evaluated
    }
