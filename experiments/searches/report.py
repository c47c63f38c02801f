"""Results of many runs: a table with a row for each seed or point, and statistics."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.checks import counted
from ...core.text_columns import Column
from ...run_dir.learning_curve import BLUE, ORANGE, Caption, picture
from ...run_dir.statistics import ENOUGH, Interval, are_few, interquartile_mean, interval, mean
from ..config.seeds import seed_ranges
from ..console import Table
from .runs import FINISHED, Outcome
from .search import Search
from .seeds import Seeds

PARETO: Final = "pareto.png"
"""The picture of several objectives, in the folder."""


def _table(
    title: str, noun: str, rows: Mapping[int, Sequence[Outcome]], params: Sequence[Column], *results: Column
) -> Table:
    """A row for each seed or point, given the outcomes of its runs by number."""
    every = list(rows.values())
    return Table(
        [
            Column(noun, list(map(str, rows)), right=True, whole=True),
            *params,
            Column("status", [_statuses([one.status for one in runs]) for runs in every], whole=True),
            Column("episodes", [_sum([one.episodes for one in runs]) for runs in every], right=True),
            Column("timesteps", [_sum([one.timesteps for one in runs]) for runs in every], right=True),
            Column("seconds", [_sum([one.seconds for one in runs], 1) for runs in every], right=True),
            *results,
        ],
        title,
    )


def _statuses(statuses: Sequence[str]) -> str:
    """``finished``, or ``3 finished, 2 failed``."""
    if len(statuses) == 1:
        return statuses[0]
    return ", ".join(f"{statuses.count(one)} {one}" for one in dict.fromkeys(statuses))


def _sum(values: Sequence[float | None], digits: int = 0) -> str:
    known = [value for value in values if value is not None]
    return _number(math.fsum(known) if known else None, digits)


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"


# -- seeds ------------------------------------------------------------------------------------------------------------


def intervals_of(seeds: Seeds) -> dict[str, Interval]:
    """Mean and interquartile mean of the returns of the seeds that finished, with their 95 % intervals."""
    returns = _returns(seeds)
    if not returns:
        return {}
    return {"mean": interval(returns, mean), "interquartile mean": interval(returns, interquartile_mean)}


def few(seeds: Seeds) -> int:
    """The number of seeds if that is too small for intervals; else 0."""
    number = len(_returns(seeds))
    return number if are_few(number) else 0


def _returns(seeds: Seeds) -> list[float]:
    found = [seeds.outcomes[seed].episode_return for seed in seeds.with_status(FINISHED)]
    return [one for one in found if one is not None]


def seeds_json(seeds: Seeds) -> dict[str, Any]:
    """Everything that is known, as plain data."""
    record = seeds.record()
    return {
        "name": seeds.name,
        "folder": seeds.folder,
        "not_compiled": seeds.not_compiled,
        "seeds": {seed: {**outcome, "folder": seeds.run_folder(seed)} for seed, outcome in record["seeds"].items()},
        "few_seeds": few(seeds) > 0,
        "together": {name.replace(" ", "_"): found._asdict() for name, found in intervals_of(seeds).items()},
    }


def seeds_table(seeds: Seeds) -> Table:
    """A row for each seed."""
    what = "return" if seeds.experiment.evaluate is None else "evaluation return"
    returns = [_number(one.episode_return, 2) for one in seeds.outcomes.values()]
    rows = {seed: [outcome] for seed, outcome in seeds.outcomes.items()}
    return _table(seeds.name, seeds.noun, rows, [], Column(what, returns, right=True, whole=True))


def seeds_lines(seeds: Seeds) -> list[str]:
    """The statistics over seeds, a line for each statistic."""
    finished = len(seeds.with_status(FINISHED))
    what = f"of {counted(finished, 'seed')}:"
    lines = [
        f"{f'{name} {what}':<32}{one.value:,.2f}  (95 % interval: {one.low:,.2f} to {one.high:,.2f})"
        for name, one in intervals_of(seeds).items()
    ]
    if number := few(seeds):
        of = counted(number, "seed")
        lines.append(f"warning: intervals of only {of} are too narrow. Use --seeds {ENOUGH} or more to compare means.")
    return lines


# -- searches ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Took:
    """The duration of one start of a search.

    Args:
        seconds: from its first process to its last.
        jobs: number of trials that ran at a time.
        trained: seconds that trials spent in training, including evaluations during training, but not the final one.
    """

    seconds: float = 0.0
    jobs: int = 1
    trained: float = 0.0

    @property
    def share(self) -> float:
        """The share of training in the total time of all jobs."""
        return self.trained / (self.seconds * self.jobs) if self.seconds else 0.0

    def as_json(self) -> dict[str, float]:
        """The numbers for ``--json``."""
        return {"seconds": self.seconds, "jobs": self.jobs, "training_share": self.share}


@dataclasses.dataclass(frozen=True)
class Front:
    """Points by several objectives.

    Args:
        names: the metrics.
        optimizations: ``maximize`` or ``minimize``, for each.
        values: the values of all objectives by point, for points that have them.
        best: the Pareto front: points for which no other is at least as good in every objective and better in one.
    """

    names: Sequence[str]
    optimizations: Sequence[str]
    values: Mapping[int, Sequence[float]]
    best: Sequence[int]


def rank_points(search: Search, minimize: bool, front: Front | None = None) -> list[int]:
    """All points, best first: those of the Pareto front, if there is one, come first; those without a metric last."""
    metrics, sign, best = search.metrics(), 1.0 if minimize else -1.0, () if front is None else front.best
    order = {
        one: (one not in best, one not in metrics, sign * metrics.get(one, 0.0)) for one in range(len(search.points))
    }
    return sorted(order, key=lambda one: order[one])


def best_trial(search: Search, minimize: bool) -> int | None:
    """The best trial of the best point; None if nothing has a metric."""
    order = rank_points(search, minimize)
    if not order or search.metric(order[0]) is None:
        return None
    known = search.metrics_of(order[0])
    return min(known, key=lambda trial: known[trial] if minimize else -known[trial])


def search_json(search: Search, metric: str, minimize: bool, front: Front | None = None) -> dict[str, Any]:
    """Everything that is known, as plain data."""
    points = [
        {
            "point": point,
            "params": search.points[point],
            "metric": search.metric(point),
            "seeds": len(search.metrics_of(point)),
            "trials": [
                {"trial": trial, "seed": search.seed_of(trial), "folder": search.run_folder(trial)}
                | vars(search.outcomes[trial])
                for trial in search.trials([point])
            ],
        }
        for point in rank_points(search, minimize, front)
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
        **({} if front is None else {"pareto": dataclasses.asdict(front)}),
    }


def search_table(search: Search, metric: str, minimize: bool, front: Front | None = None) -> Table:
    """A row for each point, best first."""
    order = rank_points(search, minimize, front)
    names = list(dict.fromkeys(name for point in search.points for name in point))
    rows = {point: [search.outcomes[trial] for trial in search.trials([point])] for point in order}
    params = [Column(name, [_cell(search.points[point].get(name)) for point in order], right=True) for name in names]
    reached = [(search.metric(point), len(search.metrics_of(point))) for point in order]
    some = [f" (of {count} of {len(search.seeds)} seeds)" * (count < len(search.seeds)) for _, count in reached]
    shown = ["-" if one[0] is None else f"{one[0]:,.4g}{part}" for one, part in zip(reached, some, strict=True)]
    results = [Column(metric, shown, right=True, whole=True)]
    if front is not None:
        for index, name in enumerate(front.names[1:], start=1):
            texts = [f"{front.values[point][index]:,.4g}" if point in front.values else "-" for point in order]
            results.append(Column(name, texts, right=True, whole=True))
        results.append(Column("Pareto front", ["*" if point in front.best else "" for point in order], whole=True))
    return _table(search.name, "point", rows, params, *results)


def draw_front(folder: Path, name: str, front: Front) -> None:
    """Draw each further objective over the first one: ``pareto.png``, ``pareto-2.png``, ...

    Raises:
        CheckpointError: a file cannot be written.
    """
    best = [front.values[point] for point in front.best]
    for index in range(1, len(front.names)):
        labels = tuple(f"{front.names[one]} ({front.optimizations[one]})" for one in (0, index))
        above = Caption(name, f"{len(front.values)} points, {len(best)} on the Pareto front")
        path = folder / (PARETO if index == 1 else f"{Path(PARETO).stem}-{index}.png")
        with picture(path, above, (labels[0], labels[1])) as axes:
            every = list(front.values.values())
            axes.plot(
                [one[0] for one in every], [one[index] for one in every], "o", color=BLUE, alpha=0.5, label="point"
            )
            at = sorted((one[0], one[index]) for one in best)
            axes.plot(*zip(*at, strict=True), "o-", color=ORANGE, label="Pareto front")
            for point in front.best:
                axes.annotate(str(point), (front.values[point][0], front.values[point][index]), fontsize=8)
            axes.margins(0.1)


def search_rows(found: Mapping[str, Any]) -> dict[str, str]:
    """The result of :func:`.preflight.description` as labels and texts."""
    points, seeds = found["points"], found["seeds"]
    fewer = "" if points == found["wanted"] else f" of {found['wanted']:,}: there are only {points:,}"
    each = "" if seeds is None else f", with seeds {seed_ranges(seeds)} for each point"
    return {
        "search": f"{found['kind']}, {counted(points, 'point')}{fewer}",
        "varies": ", ".join(found["params"]),
        "compares": "; ".join(f"{one['name']}, {one['optimization']}" for one in found["objectives"]),
        "trials": f"{found['trials']:,}{each}, {found['jobs']} at the same time",
    }


def _cell(value: Any) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
