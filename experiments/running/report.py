"""The results of a run: a table on the terminal and a learning curve in the run folder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...contracts import Array
from ...runs.files import replacing
from ..console import rows_table
from .history import read_episodes, read_evaluations

if TYPE_CHECKING:
    from rich.table import Table

CURVE: Final = "learning_curve.png"
WINDOW: Final = 100
"""Episodes in the mean training return."""
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
    """A run's counters, the time since it was started or resumed, and the final evaluation, if there was one.

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


def table(result: Result) -> Table:
    """The run as a table."""
    returns = [row.episode_return for row in read_episodes(result.folder)[-WINDOW:]]
    rows = {
        "episodes": f"{result.episodes:,}",
        "timesteps": f"{result.timesteps:,}",
        "updates": f"{result.updates:,}",
        "seconds": f"{result.seconds:,.1f}",
        "timesteps/s": f"{result.timesteps_per_second:,.0f}",
        f"training return, last {len(returns)} episodes": f"{np.mean(returns):,.2f}" if returns else "-",
    }
    if result.evaluation is not None:
        rows |= evaluation_rows(result.evaluation)
    return rows_table(result.name, rows)


def evaluation_rows(results: Mapping[str, float]) -> dict[str, str]:
    """An evaluation as a row: its label and mean ± standard deviation."""
    label = f"evaluation return, {int(results['episodes'])} episodes"
    return {label: f"{results['episode_return_mean']:,.2f} ± {results['episode_return_std']:,.2f}"}


def learning_curve(folder: Path, title: str, final: Mapping[str, float] | None = None) -> Path:
    """Plot the returns of a run over its timesteps, from the CSV files in its folder.

    Args:
        folder: the run folder.
        title: the picture's title.
        final: the final evaluation, drawn as a line.

    Returns:
        The picture, ``learning_curve.png``.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):  # pyplot keeps figures, and looks for a display
        figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot(title=title, xlabel="timesteps", ylabel="episode return")
        _draw(axes, folder, final)
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=4, fontsize=9)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        with replacing(folder / CURVE) as temporary:
            figure.savefig(temporary, format="png")
    return folder / CURVE


def _draw(axes: Any, folder: Path, final: Mapping[str, float] | None) -> None:
    episodes, evaluations = read_episodes(folder), read_evaluations(folder)
    if episodes:
        timesteps = np.array([row.global_timestep for row in episodes])
        returns = np.array([row.episode_return for row in episodes])
        axes.plot(timesteps, returns, ".", color=_BLUE, alpha=0.5, markersize=4, markeredgewidth=0, label="episode")
        window = max(1, min(WINDOW, len(returns) // 20))
        axes.plot(timesteps[window - 1 :], moving_mean(returns, window), color=_BLUE, label=f"mean of {window}")
    if evaluations:
        at, mean, std = (np.array(column) for column in list(zip(*evaluations, strict=True))[:3])
        axes.errorbar(
            at, mean, std, color=_ORANGE, fmt="o", markersize=4, elinewidth=1, capsize=2, label="evaluation (± std)"
        )
    if final is not None:
        label = f"final evaluation: {final['episode_return_mean']:,.1f}"
        axes.axhline(final["episode_return_mean"], color=_ORANGE, linestyle="--", linewidth=1, label=label)


def moving_mean(values: Array, window: int) -> Array:
    """The mean of every ``window`` consecutive values, [n - window + 1]."""
    return np.convolve(values, np.full(window, 1 / window), mode="valid")
