"""Tables and pictures of the results that ``axonrl reproduce`` writes.

``python -m axonrl.docs.result_tables`` draws the pictures; ``generate.py`` writes
the tables.
"""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..benchmarks import yardsticks
from ..core.protocols import Array
from ..experiments.comparison.charts import in_thousands
from ..experiments.config.seeds import seed_ranges
from ..experiments.config.shipped import shipped
from ..experiments.searches import reproduction
from ..experiments.searches.reproduction import Result
from ..run_dir.learning_curve import BLUE, ORANGE, STYLE
from .tables import markdown

RESULTS: Final = Path(__file__).resolve().parent / "results"
IMAGES: Final = RESULTS.parent / "images" / "results"
_COLOURS: Final = (BLUE, ORANGE)
_COLUMNS: Final = 4
_MUJOCO: Final = ("HalfCheetah", "Hopper", "Walker2d", "Ant", "Humanoid")
_OURS, _PEER = "axonrl", "Stable-Baselines3"
_STANDARD: Final = (
    ("PPO, 1,000,000 timesteps", "ppo_{}", _OURS),
    ("PPO of Stable-Baselines3, 1,000,000 timesteps", "ppo_{}", _PEER),
    ("PPO, 3,000,000 timesteps", "ppo_{}_3m", _OURS),
    ("TD3, 300,000 timesteps", "td3_{}", _OURS),
    ("SAC, 300,000 timesteps", "sac_{}", _OURS),
    ("SAC of Stable-Baselines3, 300,000 timesteps", "sac_{}", _PEER),
    ("TQC, 300,000 timesteps", "tqc_{}", _OURS),
)
"""Title, experiment for each task, library."""
_SECTION: Final = """\
## {environment}

![Returns during training in {environment}](images/results/{file}.svg)

Random actions return {random:,.1f}.

{table}"""
_HEAD: Final = (
    *("experiment", "policy", "mean", "interquartile mean", "of each seed", "kept"),
    *("seeds", "timesteps", "reference"),
)


def by_environment() -> dict[str, dict[str, list[Result]]]:
    """The results of each experiment by environment, in alphabetical order."""
    found: dict[str, dict[str, list[Result]]] = defaultdict(dict)
    for name in sorted(path.name for path in RESULTS.iterdir() if path.is_dir()):
        if results := reproduction.read_all(RESULTS, name):
            found[results[0].environment][name] = results
    return dict(sorted(found.items()))


def table(names: Sequence[str]) -> str:
    """The results of experiments, a row for each policy."""
    rows: list[Sequence[str]] = []
    for name in names:
        results = reproduction.read_all(RESULTS, name)
        if not results:
            raise ValueError(f"{RESULTS / name} has no result")
        found = reproduction.summary(name, results)
        rows += [
            _row(name, policy, found) for policy in reproduction.policies_of(found)
        ]
    return markdown(_HEAD, rows)


def _row(name: str, policy: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    one, seeds = found[policy], found["seeds"]
    bounds = reproduction.interval_text(found, policy)
    return (
        f"`{name}`",
        policy,
        f"{one['mean']:,.1f}",
        "-" if bounds == "-" else f"{one['interquartile_mean']:,.1f} ({bounds})",
        ", ".join(f"{value:,.1f}" for value in one["returns"]),
        "-" if policy == "best" else reproduction.kept_text(found),
        seed_ranges(seeds),
        reproduction.length_text(found),
        reproduction.references_text(found),
    )


def compared(names: Sequence[str]) -> str:
    """Last policies of experiments and of Stable-Baselines3, on the same seeds."""
    rows: list[Sequence[str]] = []
    for name in names:
        peers = last_returns(name, _PEER)
        ours = last_returns(name, _OURS)
        seeds = [seed for seed in peers if seed in ours]
        for library, returns in ((_OURS, ours), (_PEER, peers)):
            each = [returns[seed] for seed in seeds]
            texts = ", ".join(f"{value:,.1f}" for value in each)
            mean = f"{statistics.fmean(each):,.1f}"
            rows.append((f"`{name}`", library, mean, texts, seed_ranges(seeds)))
    return markdown(
        ("experiment", "library", "mean", "of each seed", "seeds"), rows
    )


def standard_tasks() -> str:
    """Mean returns of last policies on MuJoCo's tasks, a row for each algorithm."""
    rows = []
    for title, pattern, library in _STANDARD:
        found = [
            last_returns(pattern.format(task.lower()), library).values()
            for task in _MUJOCO
        ]
        seeds = " or ".join(map(str, sorted({len(each) for each in found if each})))
        means = [f"{statistics.fmean(each):,.0f}" if each else "" for each in found]
        rows.append((title, seeds, *means))
    return markdown(("last policy", "seeds", *_MUJOCO), rows)


def last_returns(name: str, library: str) -> dict[int, float]:
    """Returns of an experiment's last policies by seed.

    Those of another library have the same algorithm, task and timesteps.
    """
    results = reproduction.read_all(RESULTS, name)
    if library == _OURS or not results:
        return {one.seed: one.last["episode_return_mean"] for one in results}
    algorithm, first = name.partition("_")[0], results[0]
    peers = yardsticks.runs_of(algorithm, first.environment, first.timesteps)
    peers.sort(key=lambda one: one["seed"])
    return {one["seed"]: one["last"] for one in peers}


def everything() -> str:
    """A section for each environment, and the experiments without results."""
    found = by_environment()
    sections = [
        _SECTION.format(
            environment=environment,
            file=_file(environment),
            random=_random(experiments),
            table=table(list(experiments)),
        )
        for environment, experiments in found.items()
    ]
    done = {name for experiments in found.values() for name in experiments}
    missing = ", ".join(f"`{name}`" for name in shipped() if name not in done)
    what = f"No results in this form yet; some pages show earlier runs:\n{missing}."
    return "\n\n".join([*sections, *([f"## Not run\n\n{what}"] if missing else [])])


def _random(experiments: Mapping[str, Sequence[Result]]) -> float:
    return float(
        np.mean([one.random for results in experiments.values() for one in results])
    )


def _is_offline(name: str) -> bool:
    return not any(one.timesteps for one in reproduction.read_all(RESULTS, name))


def _file(environment: str) -> str:
    return environment.lower().replace("/", "-").replace(":", "-")


def curves_of(name: str, column: str) -> tuple[Array, Array]:
    """A column of an experiment's CSV files: timesteps [P] and values [runs, P].

    A run that ended before others keeps its last value.
    """
    curves = []
    for path in sorted((RESULTS / name).glob("seed_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                (float(row["timesteps"]), float(row[column]))
                for row in csv.DictReader(file)
                if row[column]
            ]
        curves.append(np.asarray(rows).T)
    grid = max((steps for steps, _ in curves), key=len)
    stacked = np.stack(
        [np.interp(grid, steps, returns) for steps, returns in curves]
    )  # [runs, P]
    return grid, stacked


def draw(
    path: Path, title: str, panels: Sequence[Sequence[str]], column: str
) -> None:
    """Draw curves of experiments in one environment; references are lines.

    Args:
        path: an SVG or PNG file.
        title: of the picture.
        panels: the names of the experiments in each panel.
        column: of the CSV files.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    style: dict[Any, Any] = {
        **STYLE,
        "svg.hashsalt": "axonrl",
    }  # the same curves are the same file
    what = (
        "greedy evaluations" if column == "return_mean" else "episodes of training"
    )
    with mpl.rc_context(style):
        figure = Figure(
            figsize=(max(8, 3 * columns), max(4.5, 2.2 * rows)),
            dpi=150,
            layout="constrained",
        )
        FigureCanvasAgg(figure)
        figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
        offline = any(_is_offline(name) for names in panels for name in names)
        steps = "timesteps; offline, updates" if offline else "timesteps"
        figure.supxlabel(steps, fontsize="medium")
        figure.supylabel(f"return, {what}", fontsize="medium")
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
        for axes, names in zip(grid, panels, strict=False):
            for name, colour in zip(names, _COLOURS, strict=False):
                _curve(axes, name, colour, column, "" if len(names) == 1 else name)
            if len(names) == 1:
                axes.set_title(names[0], loc="left", fontsize=9)
            if axes.get_legend_handles_labels()[1]:
                axes.legend(frameon=False, fontsize=8, loc="lower right")
            axes.xaxis.set_major_formatter(lambda value, _: in_thousands(value))
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(
            path, metadata={"Date": None} if path.suffix == ".svg" else None
        )


def _curve(axes: Any, name: str, colour: str, column: str, label: str) -> None:
    steps, returns = curves_of(name, column)
    axes.fill_between(
        steps,
        returns.min(0),
        returns.max(0),
        color=colour,
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(steps, returns.mean(0), color=colour, linewidth=1.8, label=label)
    references = dict(reproduction.REFERENCES.get(name, ()))
    for value, source in references.items():
        axes.axhline(value, color=colour, linewidth=1, linestyle="--")
        axes.text(
            0.02,
            value,
            f"{value:,g}, {source}",
            transform=axes.get_yaxis_transform(),
            color=colour,
            fontsize=7,
            verticalalignment="bottom" if value == max(references) else "top",
        )


if __name__ == "__main__":
    for environment, experiments in by_environment().items():
        curves = [
            [name]
            for name in experiments
            if len(curves_of(name, "return_mean")[0]) > 1
        ]
        draw(
            IMAGES / f"{_file(environment)}.svg", environment, curves, "return_mean"
        )
    draw(
        IMAGES.parent / "cartpole.png",
        "CartPole-v1",
        [("ppo_cartpole", "dqn_cartpole")],
        "training_return",
    )
