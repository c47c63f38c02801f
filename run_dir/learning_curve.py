"""The learning curve of a run, plotted from its CSV files."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ..core.checks import counted
from ..core.errors import CheckpointError
from ..core.protocols import Array
from . import record
from .files import replacing
from .history import Evaluation, read_episodes, read_evaluations
from .starts import read_starts

if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # before Python 3.12, Path itself cannot be derived from

CURVE: Final = "learning_curve.png"
POINTS: Final = 201
"""Points of a smoothed curve."""
BLUE, ORANGE, GREY = "#1f5fa8", "#d9591c", "#6b7280"
STYLE: Final[dict[Any, Any]] = {
    "text.parse_math": False,  # names and settings may hold "$"
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": "#374151",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e5e7eb",
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
}


class Caption(NamedTuple):
    """Title of a learning curve."""

    title: str
    subtitle: str


class Picture(_Path):
    """Path of an image, which a notebook shows."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        return self.read_bytes(), {"width": 800}  # the image has more pixels, for sharp screens


def caption(folder: Path, name: str = "", seeds: str = "") -> Caption:
    """Environment and algorithm; then the run's name, seed, versions and start date.

    Args:
        folder: the run folder; the first one of several runs.
        name: common name of several runs.
        seeds: their seeds, in words.
    """
    found = record.read(folder)
    started, *_ = [*read_starts(folder), {}]
    versions = started.get("made_with", {})
    environment = None if found is None or found.environment is None else found.environment["id"]
    algorithm = "" if found is None else algorithm_of(found.model_fn)
    parts = [
        name or folder.name,
        seeds or ("" if found is None else f"seed {found.seed}"),
        *(f"{name} {versions[name]}" for name in ("axonrl", "tensorflow") if name in versions),
        str(started.get("started", ""))[:10],
    ]
    return Caption(", ".join(filter(None, (environment, algorithm))), " | ".join(filter(None, parts)))


def algorithm_of(model_fn: str | None) -> str:
    """``"dqn"`` for ``"dqn"`` and ``"axonrl.models.dqn:model_fn"``; the name of any other function."""
    module, _, function = (model_fn or "").rpartition(":")
    return module.rpartition(".")[2] if function == "model_fn" else function


def learning_curve(folder: Path, final: Mapping[str, float] | None = None, policy: str = "last") -> Picture:
    """Plot the returns of a run over its timesteps, from its CSV files.

    Without timesteps (``Agent.learn``), plot evaluations over updates.

    Args:
        folder: the run folder.
        final: results of the final evaluation, from ``Agent.evaluate``, drawn as a line; None for none.
        policy: name of the policy in the final evaluation.

    Returns:
        The image, ``learning_curve.png``; ``learning_curve.svg`` is beside it.

    Raises:
        CheckpointError: a record of the run is damaged, or the image cannot be written; names it.
        ValueError: a CSV file is damaged; names the line.
    """
    with picture(folder / CURVE, caption(folder)) as axes:
        _draw(axes, folder, final, policy)
    return Picture(folder / CURVE)


@contextlib.contextmanager
def picture(path: Path, above: Caption, labels: tuple[str, str] | None = None) -> Iterator[Any]:
    """Yield Matplotlib axes for returns over timesteps; save them as PNG and SVG at the end.

    Args:
        path: path of the PNG; the SVG is beside it.
        above: title.
        labels: labels of other axes, horizontal and vertical.

    Raises:
        CheckpointError: a file cannot be written.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    title, subtitle = above
    with mpl.rc_context(STYLE):  # pyplot would keep figures, and need a display
        figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        horizontal, vertical = labels or ("timesteps", "return of an episode")
        axes = figure.add_subplot(xlabel=horizontal, ylabel=vertical)
        axes.set_title(subtitle, fontsize=8, fontweight="normal", color=GREY)
        place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (0, 22), "textcoords": "offset points"}
        axes.annotate(title, (0, 1), **place, fontsize=12, fontweight="bold")
        yield axes
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        if labels is None:
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.set_xlim(left=0)
        for file in (path, path.with_suffix(".svg")):
            try:
                with replacing(file) as temporary:
                    figure.savefig(temporary, format=file.suffix[1:])
            except OSError as error:
                what = f"the image {file} cannot be written: {error.strerror or error}"
                raise CheckpointError(f"{what}. Use a writable copy of {path.parent}.") from error
            figure.set_layout_engine("none")  # once: it takes most of the time


def _draw(axes: Any, folder: Path, final: Mapping[str, float] | None, policy: str) -> None:
    episodes, evaluations = read_episodes(folder), read_evaluations(folder)
    if episodes:
        timesteps = np.array([row.global_timestep for row in episodes])
        returns = np.array([row.episode_return for row in episodes])
        axes.plot(timesteps, returns, ".", color=BLUE, alpha=0.35, markersize=3, markeredgewidth=0, label="episode")
        window = smoothing_window(int(timesteps[-1]))
        at, mean, low, high = smooth(timesteps, returns, window)
        axes.plot(at, mean, color=BLUE, label=f"mean within {window:,} timesteps")
        axes.fill_between(at, low, high, color=BLUE, alpha=0.15, linewidth=0, label="10 to 90 % of these episodes")
    if evaluations:
        offline = draws_updates(axes, episodes, evaluations)
        evaluated = [
            (row.offline_steps if offline else row.global_timestep, row.episode_return_mean) for row in evaluations
        ]
        bars = np.array([_bar(row) for row in evaluations]).T
        label = f"evaluation, {counted(evaluations[-1].episodes, 'episode')} (± std)"
        axes.errorbar(
            *zip(*evaluated, strict=True),
            bars,
            color=ORANGE,
            fmt="o",
            markersize=4,
            elinewidth=1,
            capsize=2,
            label=label,
        )
    if final is not None:
        value = final["episode_return_mean"]
        label = f"{policy} policy, {counted(int(final['episodes']), 'episode')}: {value:,.1f}"
        axes.axhline(value, color=ORANGE, linestyle="--", linewidth=1, label=label)


def draws_updates(axes: Any, episodes: Sequence[Any], evaluations: Iterable[Evaluation]) -> bool:
    """Whether the axis shows updates, and is labelled so: for evaluations of a run without timesteps."""
    offline = not episodes and any(row.offline_steps for row in evaluations)
    if offline:
        axes.set_xlabel("updates")
    return offline


def _bar(row: Evaluation) -> tuple[float, float]:
    """Lengths of the error bar below and above the mean, within the returns that occurred."""
    mean, low, high = row.episode_return_mean, row.episode_return_min, row.episode_return_max
    reach = row.episode_return_std
    return (  # by rounding, a mean of equal returns may lie beyond them
        reach if low is None else max(0.0, min(reach, mean - low)),
        reach if high is None else max(0.0, min(reach, high - mean)),
    )


def smoothing_window(timesteps: int) -> int:
    """About a 25th of a run, as 1, 2 or 5 times a power of ten, so that runs of equal length are smoothed alike.

    It does not depend on whether the last episodes ended a little earlier.
    """
    wanted = max(timesteps / 24, 1.0)
    power = 10 ** math.floor(math.log10(wanted))
    return int(max(factor * power for factor in (1, 2, 5) if factor * power <= wanted))


def smooth(timesteps: Array, returns: Array, window: int) -> tuple[Array, Array, Array, Array]:
    """Mean returns of the episodes that ended within a centred window.

    Args:
        timesteps: [E], ends of the episodes; increasing.
        returns: [E].
        window: width in timesteps.

    Returns:
        Timesteps with episodes in their window [P]; mean, 10 % and 90 % quantile [P].
    """
    grid = np.linspace(timesteps[0], timesteps[-1], POINTS)
    first = np.searchsorted(timesteps, grid - window / 2, "left")
    last = np.searchsorted(timesteps, grid + window / 2, "right")
    groups = [returns[a:b] for a, b in zip(first, last, strict=True)]
    mean = np.array([group.mean() for group in groups if group.size])
    low, high = (np.array([np.quantile(group, q) for group in groups if group.size]) for q in (0.1, 0.9))
    return grid[last > first], mean, low, high
