"""Runs as tables on the terminal, and as plain data for scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ...core.text_columns import HEADING, Column
from ..config.seeds import seed_ranges
from ..console import Table
from .groups import Group, differences, short_names
from .run_digest import RunDigest
from .run_folders import common_folder, short_path

_UNITS: Final = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_WITHOUT_FRACTION: Final = 999.95
_LEFT: Final = ("run", "environment", "algorithm", "status")
_WHOLE: Final = ("seed", "status", "best")
"""Columns that are kept on a narrow terminal."""


def number(value: float | None) -> str:
    """Four significant digits, without an exponent for large numbers; ``-`` for None."""
    if value is None or not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= _WITHOUT_FRACTION else f"{value:.4g}"


def age(seconds: float | None) -> str:
    """A duration in its largest unit: 3 d, 5 h, 12 min."""
    if seconds is None:
        return "-"
    name, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    return f"{int(seconds // size)} {name}"


def runs_table(runs: Sequence[RunDigest], common: Path | None) -> Table:
    """A row for each run, with its path relative to ``common``."""
    columns: dict[str, list[str]] = {
        "run": [short_path(run.folder, common) for run in runs],
        "environment": [run.environment or "-" for run in runs],
        "algorithm": [run.algorithm for run in runs],
        "seed": ["-" if run.seed is None else str(run.seed) for run in runs],
        "status": [run.status for run in runs],
        "best": [number(run.best_return) for run in runs],
        "timesteps": [f"{run.timesteps:,}" for run in runs],
        "age": [age(run.age) for run in runs],
    }
    return Table([Column(name, texts, name not in _LEFT, name in _WHOLE) for name, texts in columns.items()])


def run_json(run: RunDigest) -> dict[str, Any]:
    """A run as plain data."""
    names = ("folder", "status", "problem", "environment", "algorithm", "seed", "episodes", "timesteps")
    measured = ("best_return", "final_return", "final_episodes", "training_return", "timesteps_per_second")
    started = None if run.started is None else run.started.isoformat()
    return {**{name: getattr(run, name) for name in (*names, *measured)}, "started": started, "age_seconds": run.age}


class Compared(NamedTuple):
    """A group in one of the given folders; ``alone`` if that folder has no other group."""

    folder: Path
    group: Group
    alone: bool

    def name(self, common: Path | None = None) -> str:
        """The folder, relative to ``common``, and the group in it."""
        if self.folder == common:
            return self.group.label
        folder = short_path(self.folder, common)
        return folder if self.alone else f"{folder}: {self.group.label}"


def common_of(columns: Sequence[Compared]) -> Path | None:
    """The folder of all columns, or the one that holds their folders; None if there is none."""
    folders = [column.folder for column in columns]
    return folders[0] if len(folders) > len(set(folders)) == 1 else common_folder(folders)


def comparison(columns: Sequence[Compared]) -> dict[str, Any]:
    """The results of each column, and the settings that differ, as plain data."""
    settings = [column.group.settings for column in columns]
    counted = [[entry.run for entry in column.group.counted] for column in columns]
    return {
        "columns": [
            {
                "name": column.name(),
                "environment": column.group.runs[0].environment,
                "algorithm": column.group.algorithm,
                "seeds": [run.seed for run in column.group.runs],
                "best_return": _mean([run.best_return for run in runs]),
                "final_return": _mean([run.final_return for run in runs]),
                "timesteps": _mean([run.timesteps for run in column.group.runs]),
                "timesteps_per_second": _mean([run.timesteps_per_second for run in column.group.runs]),
                "not_recorded": column.group.unrecorded,
                "runs": [run_json(run) for run in column.group.runs],
            }
            for column, runs in zip(columns, counted, strict=True)
        ],
        "differences": {key: [one.get(key) for one in settings] for key in differences(settings)},
    }


def comparison_table(columns: Sequence[Compared], common: Path | None) -> Table:
    """A column for each group, with its folder relative to ``common``: results, then the settings that differ."""
    found = comparison(columns)["columns"]
    groups = [column.group for column in columns]
    rows: dict[str, Sequence[str]] = {
        "environment": [one["environment"] or "-" for one in found],
        "algorithm": [one["algorithm"] for one in found],
        "status": [", ".join(dict.fromkeys(run.status for run in group.runs)) for group in groups],
        "seeds": [seed_ranges(one["seeds"]) if None not in one["seeds"] else "-" for one in found],
        "best return": [number(one["best_return"]) for one in found],
        "final return": [number(one["final_return"]) for one in found],
        "timesteps": [f"{one['timesteps']:,.0f}" for one in found],
        "timesteps/s": [number(one["timesteps_per_second"]) for one in found],
        "age": [age(group.runs[0].age) for group in groups],
    }
    if any(group.unrecorded for group in groups):
        rows["not recorded"] = [", ".join(group.unrecorded) or "-" for group in groups]
    differing = differences([group.settings for group in groups])
    names = short_names(differing)
    lines = [*rows.items(), *((names[key], texts) for key, texts in differing.items())]
    heads = Column("", [label for label, _ in lines], least=HEADING)
    cells = zip(columns, zip(*(texts for _, texts in lines), strict=True), strict=True)
    return Table(
        [heads, *(Column(column.name(common), texts, right=True) for column, texts in cells)],
        above=len(rows),
        across=True,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
