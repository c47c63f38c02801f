"""The results of a run: a table on the terminal and a learning curve in the run folder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...contracts import Array
from ...runs.files import replacing
from ..console import rows_table
from .folder import read_starts
from .history import Evaluation, read_episodes, read_evaluations

if TYPE_CHECKING:
    from rich.table import Table

    from ..language.schema import Experiment

CURVE: Final = "learning_curve.png"
WINDOW: Final = 100
"""Episodes in the mean training return."""
POINTS: Final = 201
"""Of a smoothed curve."""
_BLUE, _ORANGE, _GREY = "#1f5fa8", "#d9591c", "#6b7280"
_STYLE: Final[dict[Any, Any]] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _GREY,
    "axes.labelcolor": "#374151",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "xtick.color": _GREY,
    "ytick.color": _GREY,
    "legend.frameon": False,
}


@dataclasses.dataclass(frozen=True)
class Result:
    """A run's counters, how long it trained since it was started or resumed, and the final evaluation, if any.

    ``seconds`` leaves out what comes before the first timestep: loading TensorFlow, tracing, converting.
    ``stopped`` is the reason if the run was stopped from outside, else empty.
    """

    name: str
    folder: Path
    episodes: int
    timesteps: int
    updates: int
    seconds: float
    timesteps_per_second: float
    evaluation: Mapping[str, float] | None = None
    stopped: str = ""

    def as_outputs(self) -> dict[str, float]:
        """Its numbers by name; those of the final evaluation begin with ``final_``."""
        own = ("episodes", "timesteps", "updates", "seconds", "timesteps_per_second")
        evaluation = {f"final_{name}": value for name, value in (self.evaluation or {}).items()}
        return {**{name: getattr(self, name) for name in own}, **evaluation}


@dataclasses.dataclass(frozen=True)
class Caption:
    """What stands above a learning curve, and the name of the policy that was evaluated at the end."""

    title: str
    subtitle: str = ""
    policy: str = "best"


def caption(experiment: Experiment, folder: Path) -> Caption:
    """Environment and algorithm; then name, seed, versions and the day on which the run started."""
    started, *_ = [*read_starts(folder), {}]
    versions = started.get("made_with", {})
    parts = [
        experiment.name,
        f"seed {experiment.seed}",
        *(f"{name} {versions[name]}" for name in ("axonrl", "tensorflow") if name in versions),
        str(started.get("started", ""))[:10],
    ]
    policy = "best" if experiment.evaluate is None else experiment.evaluate.policy
    algorithm = str(experiment.agent.model_fn).rpartition(":")[0].rpartition(".")[2] or str(experiment.agent.model_fn)
    return Caption(f"{experiment.environment.id}, {algorithm}", " | ".join(filter(None, parts)), policy)


def table(result: Result) -> Table:
    """The run as a table."""
    returns = [row.episode_return for row in read_episodes(result.folder)[-WINDOW:]]
    rows = {
        "episodes": f"{result.episodes:,}",
        "timesteps": f"{result.timesteps:,}",
        "updates": f"{result.updates:,}",
        "seconds": f"{result.seconds:,.1f}",
        "timesteps/s": f"{result.timesteps_per_second:,.0f}" if result.timesteps_per_second else "-",
        f"training return, last {len(returns)} episodes": f"{np.mean(returns):,.2f}" if returns else "-",
    }
    if result.evaluation is not None:
        rows |= evaluation_rows(result.evaluation)
    return rows_table(result.name, rows)


def evaluation_rows(results: Mapping[str, float]) -> dict[str, str]:
    """An evaluation as a row: its label and mean ± standard deviation."""
    label = f"evaluation return, {int(results['episodes'])} episodes"
    return {label: f"{results['episode_return_mean']:,.2f} ± {results['episode_return_std']:,.2f}"}


def learning_curve(folder: Path, caption: Caption, final: Mapping[str, float] | None = None) -> Path:
    """Plot the returns of a run over its timesteps, from the CSV files in its folder.

    Args:
        folder: the run folder.
        caption: what stands above the picture, and whose the final evaluation is.
        final: the final evaluation, drawn as a line.

    Returns:
        The picture, ``learning_curve.png``; ``learning_curve.svg`` is beside it.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):  # pyplot keeps figures, and looks for a display
        figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(xlabel="timesteps", ylabel="return of an episode")
        axes.set_title(caption.subtitle, fontsize=8, fontweight="normal", color=_GREY, parse_math=False)
        axes.annotate(
            caption.title,
            (0, 1),
            (0, 22),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=12,
            fontweight="bold",
            parse_math=False,
        )
        _draw(axes, folder, final, caption.policy)
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.set_xlim(left=0)
        for path in (folder / CURVE, (folder / CURVE).with_suffix(".svg")):
            with replacing(path) as temporary:
                figure.savefig(temporary, format=path.suffix[1:])
    return folder / CURVE


def _draw(axes: Any, folder: Path, final: Mapping[str, float] | None, policy: str) -> None:
    episodes, evaluations = read_episodes(folder), read_evaluations(folder)
    if episodes:
        timesteps = np.array([row.global_timestep for row in episodes])
        returns = np.array([row.episode_return for row in episodes])
        axes.plot(timesteps, returns, ".", color=_BLUE, alpha=0.35, markersize=3, markeredgewidth=0, label="episode")
        window = smoothing_window(int(timesteps[-1]))
        at, mean, low, high = smoothed(timesteps, returns, window)
        axes.plot(at, mean, color=_BLUE, label=f"mean within {window:,} timesteps")
        axes.fill_between(at, low, high, color=_BLUE, alpha=0.15, linewidth=0, label="10 to 90 % of these episodes")
    if evaluations:
        evaluated = [(row.global_timestep, row.episode_return_mean) for row in evaluations]
        bars = np.array([_bar(row) for row in evaluations]).T
        label = f"evaluation, {evaluations[-1].episodes} episodes (± std)"
        axes.errorbar(
            *zip(*evaluated, strict=True),
            bars,
            color=_ORANGE,
            fmt="o",
            markersize=4,
            elinewidth=1,
            capsize=2,
            label=label,
        )
    if final is not None:
        value = final["episode_return_mean"]
        label = f"{policy} policy, {int(final['episodes'])} episodes: {value:,.1f}"
        axes.axhline(value, color=_ORANGE, linestyle="--", linewidth=1, label=label)


def _bar(row: Evaluation) -> tuple[float, float]:
    """How far a standard deviation reaches below and above the mean, without leaving the returns that occurred."""
    mean, low, high = row.episode_return_mean, row.episode_return_min, row.episode_return_max
    reach = row.episode_return_std
    return (
        reach if low is None else min(reach, mean - low),
        reach if high is None else min(reach, high - mean),
    )


def smoothing_window(timesteps: int) -> int:
    """About a 25th of a run: 1, 2 or 5 times a power of ten, so that runs of one length are smoothed alike.

    Also if their last episodes ended a little before that length.
    """
    wanted = max(timesteps / 24, 1.0)
    power = 10 ** math.floor(math.log10(wanted))
    return int(max(factor * power for factor in (1, 2, 5) if factor * power <= wanted))


def smoothed(timesteps: Array, returns: Array, window: int) -> tuple[Array, Array, Array, Array]:
    """Means of the episodes that ended within ``window`` timesteps, half of them before and half after.

    Args:
        timesteps: [E], where the episodes ended; increasing.
        returns: [E].
        window: timesteps.

    Returns:
        the timesteps at which they are taken [P], where there are any episodes; mean, 10 % and 90 % quantile [P].
    """
    grid = np.linspace(timesteps[0], timesteps[-1], POINTS)
    first = np.searchsorted(timesteps, grid - window / 2, "left")
    last = np.searchsorted(timesteps, grid + window / 2, "right")
    groups = [returns[a:b] for a, b in zip(first, last, strict=True)]
    mean = np.array([group.mean() for group in groups if group.size])
    low, high = (np.array([np.quantile(group, q) for group in groups if group.size]) for q in (0.1, 0.9))
    return grid[last > first], mean, low, high
