"""The results of a run: a table on the terminal, and its learning curve."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...core.checks import counted
from ...run_dir.history import read_episodes
from ...run_dir.learning_curve import learning_curve
from ..config.schema import ExperimentFile
from ..polyaxon.metrics import RESULTS

WINDOW: Final = 100
"""Episodes in the mean training return."""


@dataclasses.dataclass(frozen=True)
class Result:
    """A run's counters, how long it trained since it was started or resumed, and the final evaluation, if any.

    ``seconds`` excludes everything before the first timestep: loading TensorFlow, tracing, converting. ``stopped`` is
    the reason if the run was stopped from outside, else empty.
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


def outputs_of(found: Any) -> dict[str, float]:
    """The known numbers of a result or an outcome, by name; those of the final evaluation begin with ``final_``."""
    own = {name: value for name in RESULTS if (value := getattr(found, name, None)) is not None}
    return own | {f"final_{name}": value for name, value in (found.evaluation or {}).items()}


def draw(folder: Path, experiment: ExperimentFile, evaluation: Mapping[str, float] | None) -> None:
    """Draw the learning curve of a run with this final evaluation; errors as for ``learning_curve``."""
    learning_curve(folder, evaluation, "last" if experiment.evaluate is None else experiment.evaluate.policy)


def last_returns(folder: Path) -> list[float]:
    """The returns of the last 100 episodes of training."""
    return [row.episode_return for row in read_episodes(folder)[-WINDOW:]]


def final_return(folder: Path) -> float | None:
    """The mean return of the last 100 episodes of training."""
    returns = last_returns(folder)
    return sum(returns) / len(returns) if returns else None


def rows(result: Result) -> dict[str, str]:
    """The run as labels and values, for a table."""
    returns = last_returns(result.folder)
    found = {
        "episodes": f"{result.episodes:,}",
        "timesteps": f"{result.timesteps:,}",
        "updates": f"{result.updates:,}",
        "seconds": f"{result.seconds:,.1f}",
        "timesteps/s": f"{result.timesteps_per_second:,.0f}" if result.timesteps_per_second else "-",
        f"training return, last {counted(len(returns), 'episode')}": f"{np.mean(returns):,.2f}" if returns else "-",
    }
    if result.evaluation is not None:
        found |= evaluation_rows(result.evaluation)
    return found


def evaluation_rows(results: Mapping[str, float], what: str = "evaluation return") -> dict[str, str]:
    """An evaluation as a row: its label and mean ± standard deviation."""
    label = f"{what}, {counted(int(results['episodes']), 'episode')}"
    return {label: f"{results['episode_return_mean']:,.2f} ± {results['episode_return_std']:,.2f}"}
