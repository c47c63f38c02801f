"""The results of a search: a table with a row for each point, best first."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ...core.text_columns import Column
from ..config.seeds import seed_ranges
from ..console import Table
from ..seeds.group import FAILED, KILLED
from .folder import Search


@dataclasses.dataclass(frozen=True)
class Took:
    """What a start of a search took.

    Args:
        seconds: from its first process to its last.
        jobs: how many trials ran at a time.
        trained: the seconds of trials in training, evaluations during training included, the final one not.
    """

    seconds: float = 0.0
    jobs: int = 1
    trained: float = 0.0

    @property
    def share(self) -> float:
        """Of the time that there was for training."""
        return self.trained / (self.seconds * self.jobs) if self.seconds else 0.0

    def as_json(self) -> dict[str, float]:
        """As ``--json`` has it."""
        return {"seconds": self.seconds, "jobs": self.jobs, "training_share": self.share}


def ranked(search: Search, minimize: bool) -> list[int]:
    """All points, best first; those without a metric come last."""
    metrics, sign = search.metrics(), 1.0 if minimize else -1.0
    return sorted(range(len(search.points)), key=lambda one: (one not in metrics, sign * metrics.get(one, 0.0), one))


def best_trial(search: Search, minimize: bool) -> int | None:
    """The best trial of the best point; None where nothing has a metric."""
    order = ranked(search, minimize)
    if not order or search.metric(order[0]) is None:
        return None
    known = search.reached(order[0])
    return min(known, key=lambda trial: known[trial] if minimize else -known[trial])


def as_json(search: Search, metric: str, minimize: bool) -> dict[str, Any]:
    """Everything that is known, as plain data."""
    points = [
        {
            "point": point,
            "params": search.points[point],
            "metric": search.metric(point),
            "seeds": len(search.reached(point)),
            "trials": [
                {"trial": trial, "seed": search.seed_of(trial), "folder": search.run_folder(trial)}
                | vars(search.outcomes[trial])
                for trial in search.trials([point])
            ],
        }
        for point in ranked(search, minimize)
    ]
    best = best_trial(search, minimize)
    return {
        "name": search.name,
        "folder": search.folder,
        "metric": metric,
        "optimization": "minimize" if minimize else "maximize",
        "ended": search.ended,
        "best": None if best is None else search.run_folder(best),
        "points": points,
    }


def table(search: Search, metric: str, minimize: bool) -> Table:
    """A row for each point, best first."""
    order, names = ranked(search, minimize), list(dict.fromkeys(name for point in search.points for name in point))
    outcomes = [[search.outcomes[trial] for trial in search.trials([point])] for point in order]
    reached = [(point, search.metric(point)) for point in order]
    params = [Column(name, [_shown(search.points[point].get(name)) for point in order], right=True) for name in names]
    shown = ["-" if value is None else f"{value:,.4g}{_part_of(search, point)}" for point, value in reached]
    return Table(
        [
            Column("point", list(map(str, order)), right=True, whole=True),
            *params,
            Column("trials", [_statuses([one.status for one in trials]) for trials in outcomes]),
            Column("timesteps", [f"{sum(one.timesteps or 0 for one in trials):,}" for trials in outcomes], right=True),
            Column("seconds", [f"{sum(one.seconds or 0.0 for one in trials):,.1f}" for trials in outcomes], right=True),
            Column(metric, shown, right=True, whole=True),
        ],
        search.name,
    )


def described(found: Mapping[str, Any]) -> dict[str, str]:
    """What :func:`.preflight.description` has found, as labels and texts."""
    points, seeds = found["points"], found["seeds"]
    fewer = "" if points == found["wanted"] else f" of {found['wanted']:,}: there are only {points:,}"
    each = "" if seeds is None else f", with seeds {seed_ranges(seeds)} for each point"
    return {
        "search": f"{found['kind']}, {points:,} point{'s' if points > 1 else ''}{fewer}",
        "varies": ", ".join(found["params"]),
        "compares": f"{found['metric']}, {found['optimization']}",
        "trials": f"{found['trials']:,}{each}, {found['jobs']} at the same time",
    }


def failures(search: Search) -> list[int]:
    """The trials that failed or were killed."""
    return [trial for trial, one in search.outcomes.items() if one.status in (FAILED, KILLED)]


def _part_of(search: Search, point: int) -> str:
    """That a mean is of some of its seeds only."""
    count, seeds = len(search.reached(point)), len(search.seeds)
    return "" if count == seeds else f" (of {count} of {seeds} seeds)"


def _statuses(statuses: list[str]) -> str:
    """``finished``, or ``3 finished, 2 failed``."""
    if len(statuses) == 1:
        return statuses[0]
    return ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))


def _shown(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
