"""Learning curves of several runs in one plot, with their mean and its confidence interval."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..core.protocols import Array
from .history import read_episodes, read_evaluations
from .learning_curve import BLUE, ORANGE, POINTS, Caption, draws_updates, picture, smoothing_window
from .statistics import intervals

CURVES: Final = "learning_curves.png"


def learning_curves(folders: Sequence[Path], path: Path, above: Caption) -> None:
    """Plot the returns over timesteps of runs with different seeds, from their CSV files.

    Thin lines are the smoothed runs; the thick line is their mean with its 95 % interval, from where every run has
    finished an episode to where the first run finishes its last one. Evaluations at timesteps that all runs share are
    drawn as their mean with its interval.

    Args:
        folders: the run folders, at least one.
        path: path of the PNG; an SVG is written beside it.
        above: title.

    Raises:
        ValueError: a CSV file is damaged; names the line.
    """
    episodes = [read_episodes(folder) for folder in folders]
    last = max((rows[-1].global_timestep for rows in episodes if rows), default=1)
    window, grid = smoothing_window(last), np.linspace(0, last, POINTS)
    curves = np.array([close_gaps(grid, window_means(rows, grid, window)) for rows in episodes])
    with picture(path, above) as axes:
        for index, curve in enumerate(curves):
            label = None if index or not any(episodes) else f"one seed, mean within {window:,} timesteps"
            axes.plot(grid, curve, color=BLUE, alpha=0.35, linewidth=0.8, label=label)
        everywhere = np.isfinite(curves).all(axis=0)
        if everywhere.any():
            mean, low, high = intervals(curves[:, everywhere])
            axes.plot(
                grid[everywhere],
                mean,
                color=BLUE,
                linewidth=2,
                label=f"mean of {len(folders)} seed{'s' * (len(folders) > 1)}",
            )
            interval: dict[str, Any] = {"alpha": 0.15, "linewidth": 0, "label": "95 % interval of the mean"}
            axes.fill_between(grid[everywhere], low, high, color=BLUE, **interval)
        _draw_evaluations(axes, folders, [row for rows in episodes for row in rows])


def window_means(rows: Sequence[Any], grid: Array, window: int) -> Array:
    """Mean returns of the episodes that ended within a centred window.

    Args:
        rows: episodes.
        grid: [P], timesteps of the window's centre.
        window: width in timesteps.

    Returns:
        [P]; NaN without episodes.
    """
    ends = np.array([row.global_timestep for row in rows])
    return window_means_of(ends, np.array([row.episode_return for row in rows]), grid, window)


def window_means_of(ends: Array, returns: Array, grid: Array, window: int) -> Array:
    """Mean returns within a centred window, from the ends of episodes [E] and their returns [E]."""
    sums = np.concatenate([[0.0], np.cumsum(returns)])
    first = np.searchsorted(ends, grid - window / 2, "left")
    last = np.searchsorted(ends, grid + window / 2, "right")
    count = last - first
    return np.where(count > 0, (sums[last] - sums[first]) / np.maximum(count, 1), np.nan)


def close_gaps(grid: Array, curve: Array) -> Array:
    """Close the gaps of a curve [P], left by episodes longer than the window, with straight lines.

    It stays NaN before the first value and after the last one.
    """
    known = np.isfinite(curve)
    if not known.any():
        return curve
    result: Array = np.interp(grid, grid[known], curve[known], left=np.nan, right=np.nan)
    return result


def _draw_evaluations(axes: Any, folders: Sequence[Path], episodes: Sequence[Any]) -> None:
    read = [read_evaluations(folder) for folder in folders]
    offline = draws_updates(axes, episodes, [row for rows in read for row in rows])
    found = [
        {row.offline_steps if offline else row.global_timestep: row.episode_return_mean for row in rows}
        for rows in read
    ]
    at = sorted(set.intersection(*map(set, found)))
    if not at:
        return
    mean, low, high = intervals(np.array([[values[timestep] for timestep in at] for values in found]))
    bars = np.maximum([mean - low, high - mean], 0.0)  # equal means may differ by rounding
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "elinewidth": 1, "capsize": 2, "color": ORANGE}
    axes.errorbar(at, mean, bars, **style, label="evaluation, mean of the seeds and its interval")
