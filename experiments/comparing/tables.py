"""Runs as tables on the terminal, and as plain data for scripts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...runs.statistics import Interval
from .grouping import Group, differences, short_names
from .reading import Run

if TYPE_CHECKING:
    from rich.table import Table

_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_WHOLE: Final = ("environment", "seed", "status", "best return", "timesteps", "age")
"""Columns of short texts, which are not broken where a terminal is narrow."""
_LEFT: Final = ("run", "environment", "algorithm", "status")


def number(value: float | None, digits: int = 2) -> str:
    """With separators of thousands; ``-`` for nothing."""
    return "-" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


def interval(value: Interval | None) -> str:
    """The value and its bounds; without bounds where they are the value."""
    if value is None or value.low == value.high:
        return number(None if value is None else value.value)
    return f"{number(value.value)} ({number(value.low)} to {number(value.high)})"


def age(seconds: float | None) -> str:
    """In the largest unit that is whole: 3 d, 5 h, 12 min."""
    if seconds is None:
        return "-"
    name, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{int(seconds // size)} {name}"


def runs_table(runs: Sequence[Run]) -> Table:
    """A row for each run."""
    names = ("run", "environment", "algorithm", "seed", "status", "best return", "timesteps", "age")
    made = _table(names)
    for run in runs:
        seed = "-" if run.seed is None else str(run.seed)
        texts = [str(run.folder), run.environment or "-", run.algorithm, seed, run.status]
        made.add_row(*map(_plain, texts), number(run.best_return), f"{run.timesteps:,}", age(run.age))
    return made


def run_json(run: Run) -> dict[str, Any]:
    """A run as plain data."""
    names = ("folder", "status", "problem", "environment", "algorithm", "seed", "episodes", "timesteps")
    measured = ("best_return", "final_return", "final_episodes", "training_return", "timesteps_per_second")
    started = None if run.started is None else run.started.isoformat()
    return {**{name: getattr(run, name) for name in (*names, *measured)}, "started": started, "age_seconds": run.age}


def comparison(columns: Sequence[tuple[str, Group]]) -> dict[str, Any]:
    """What is known of each column, and the settings that differ, as plain data."""
    settings = [group.settings for _, group in columns]
    return {
        "columns": [
            {
                "name": name,
                "environment": group.runs[0].environment,
                "algorithm": group.algorithm,
                "seeds": [run.seed for run in group.runs],
                "best_return": _mean([run.best_return for run in group.runs]),
                "final_return": _mean([run.final_return for run in group.runs]),
                "timesteps": _mean([run.timesteps for run in group.runs]),
                "timesteps_per_second": _mean([run.timesteps_per_second for run in group.runs]),
                "runs": [run_json(run) for run in group.runs],
            }
            for name, group in columns
        ],
        "differences": {key: [one.get(key) for one in settings] for key in differences(settings)},
    }


def comparison_table(columns: Sequence[tuple[str, Group]]) -> Table:
    """A column for each group: its results, then the settings that differ."""
    found = comparison(columns)["columns"]
    made = _table(("", *(name for name, _ in columns)))
    rows: Mapping[str, list[str]] = {
        "environment": [one["environment"] or "-" for one in found],
        "algorithm": [one["algorithm"] for one in found],
        "status": [", ".join(dict.fromkeys(run.status for run in group.runs)) for _, group in columns],
        "seeds": [", ".join("-" if seed is None else str(seed) for seed in one["seeds"]) for one in found],
        "best return": [number(one["best_return"]) for one in found],
        "final return": [number(one["final_return"]) for one in found],
        "timesteps": [number(one["timesteps"], 0) for one in found],
        "timesteps/s": [number(one["timesteps_per_second"], 0) for one in found],
        "age": [age(group.runs[0].age) for _, group in columns],
    }
    for label, texts in rows.items():
        made.add_row(_plain(label), *map(_plain, texts))
    made.add_section()
    differing = differences([group.settings for _, group in columns])
    names = short_names(differing)
    for key, texts in differing.items():
        made.add_row(_plain(names[key]), *map(_plain, texts))
    return made


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _table(names: Sequence[str]) -> Table:
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        left = name in (*_LEFT, "")
        made.add_column(_plain(name), justify="left" if left else "right", overflow="fold", no_wrap=name in _WHOLE)
    return made


def _plain(text: str) -> Any:
    """No text is markup."""
    from rich.text import Text

    return Text(text)
