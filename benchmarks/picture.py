"""Training curves of experiments in one environment: the mean over the seeds of each, and the range of its seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..experiments.running.folder import read_experiment
from ..run_dir.history import read_episodes
from ..run_dir.learning_curve import POINTS, STYLE, smoothed, smoothing_window
from ..run_dir.starts import read_starts

COLOURS: Final = ("#1f5fa8", "#d9591c", "#2f855a", "#7b3fa0", "#b7791f", "#6b7280")
_GREY: Final = "#6b7280"
_STYLE: Final[dict[Any, Any]] = {
    **STYLE,
    "axes.titleweight": "normal",
    "svg.hashsalt": "axonrl",  # the same curves are the same file
}


@dataclasses.dataclass(frozen=True)
class Band:
    """Several runs over timesteps [P]: the mean over runs of each run's smoothed return, the lowest and the highest."""

    timesteps: np.ndarray[Any, Any]
    mean: np.ndarray[Any, Any]
    low: np.ndarray[Any, Any]
    high: np.ndarray[Any, Any]


def band(runs: Sequence[tuple[Sequence[int], Sequence[float]]], window: int) -> Band:
    """Runs with the same settings and other seeds.

    Args:
        runs: for each the timesteps at which its episodes ended, increasing, and their returns.
        window: timesteps over which the returns of a run are averaged.

    Raises:
        ValueError: there is no run, or one has no episode.
    """
    if not runs or not all(len(timesteps) for timesteps, _ in runs):
        raise ValueError("a band needs at least one run, and each run at least one episode")
    first = max(timesteps[0] for timesteps, _ in runs)  # where all runs have something to show
    last = min(timesteps[-1] for timesteps, _ in runs)
    grid = np.linspace(first, max(first, last), POINTS)
    curves = []
    for timesteps, returns in runs:
        at, mean, _, _ = smoothed(np.asarray(timesteps), np.asarray(returns, np.float64), window)
        curves.append(np.interp(grid, at, mean))
    stacked = np.stack(curves)  # [runs, P]
    return Band(grid, stacked.mean(0), stacked.min(0), stacked.max(0))


def draw(path: Path, folders: Mapping[str, Sequence[Path]], seeds: str) -> tuple[Path, Path]:
    """Draw the runs of each experiment, as a PNG and an SVG.

    Args:
        path: the PNG or the SVG; the other one is beside it.
        folders: for each experiment the finished run folders of its seeds.
        seeds: the seeds, as they are to be written.

    Returns:
        The PNG and the SVG.

    Raises:
        ValueError: the experiments are not of one environment, or there is no episode to draw.
    """
    experiments = {name: read_experiment(runs[0]) for name, runs in folders.items()}
    environments = sorted({experiment.environment.id for experiment in experiments.values()})
    if len(environments) > 1:
        raise ValueError(f"a picture is of one environment; these experiments are of {', '.join(environments)}")
    curves = {
        name: [([row.global_timestep for row in rows], [row.episode_return for row in rows]) for rows in episodes]
        for name, episodes in ((name, [read_episodes(run) for run in runs]) for name, runs in folders.items())
    }
    window = min(smoothing_window(timesteps[-1]) for runs in curves.values() for timesteps, _ in runs if timesteps)
    labels = {name: _label(str(experiment.agent.model_fn)) for name, experiment in experiments.items()}
    if len(set(labels.values())) < len(labels):  # two experiments of one algorithm
        labels = {name: name for name in labels}
    bands = {labels[name]: band(runs, window) for name, runs in curves.items()}
    count = len(next(iter(folders.values())))
    starts = [start for runs in folders.values() for run in runs for start in read_starts(run)[:1]]
    return _write(path, bands, f"{environments[0]}: {' and '.join(bands)}", _subtitle(seeds, count, window, starts))


def _label(model_fn: str) -> str:
    return model_fn.upper() if ":" not in model_fn else model_fn.rpartition(":")[2]


def _subtitle(seeds: str, count: int, window: int, starts: Sequence[Mapping[str, Any]]) -> str:
    """Seeds, what is averaged, versions and the last day on which one of the runs started."""
    made = starts[0].get("made_with", {}) if starts else {}
    what = f"training return, means within {window:,} timesteps; line: mean of the seeds, band: lowest to highest"
    parts = [
        f"seed {seeds}" if count == 1 else f"seeds {seeds.replace('-', ' to ')}",
        *(f"{name} {made[name]}" for name in ("axonrl", "tensorflow") if name in made),
        max((str(start.get("started", ""))[:10] for start in starts), default=""),
    ]
    return f"{what}\n{' | '.join(filter(None, parts))}"


def _write(path: Path, bands: Mapping[str, Band], title: str, subtitle: str) -> tuple[Path, Path]:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(xlabel="timesteps", ylabel="return of an episode")
        axes.set_title(subtitle, fontsize=8, color=_GREY, parse_math=False)
        above: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 34), "textcoords": "offset points"}
        axes.annotate(title, (0, 1), **above, fontsize=12, fontweight="bold", parse_math=False)
        for (label, one), colour in zip(bands.items(), COLOURS, strict=False):
            axes.fill_between(one.timesteps, one.low, one.high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(one.timesteps, one.mean, color=colour, linewidth=1.8, label=label)
            axes.plot(one.timesteps[-1], one.mean[-1], "o", color=colour, markersize=5, clip_on=False)  # the end
        axes.legend(frameon=False, loc="lower right")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlim(0, 1.02 * max(one.timesteps[-1] for one in bands.values()))
        written = path.with_suffix(".png"), path.with_suffix(".svg")
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in written:
            figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
    return written
