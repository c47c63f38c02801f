"""The results of many seeds: a table with a row for each, and what they say together."""

from __future__ import annotations

import math
from typing import Any

from ...core.text_columns import Column
from ...run_dir.statistics import ENOUGH, Interval, are_few, interquartile_mean, interval, mean
from ..console import Table
from .group import FINISHED, Group


def together(group: Group) -> dict[str, Interval]:
    """Mean and interquartile mean of the returns of the seeds that finished, with their 95 % intervals."""
    returns = _returns(group)
    if not returns:
        return {}
    return {"mean": interval(returns, mean), "interquartile mean": interval(returns, interquartile_mean)}


def few(group: Group) -> int:
    """How many seeds the intervals are of, where these are too few; else 0."""
    number = len(_returns(group))
    return number if are_few(number) else 0


def _returns(group: Group) -> list[float]:
    outcomes = [outcome for outcome in group.outcomes.values() if outcome.status == FINISHED]
    return [one.episode_return for one in outcomes if one.episode_return is not None]


def as_json(group: Group) -> dict[str, Any]:
    """Everything that is known, as plain data."""
    return {
        "name": group.experiment.name,
        "folder": group.folder,
        "not_compiled": group.not_compiled,
        "seeds": {
            str(seed): {**vars(outcome), "folder": group.run_folder(seed)} for seed, outcome in group.outcomes.items()
        },
        "few_seeds": few(group) > 0,
        "together": {name.replace(" ", "_"): found._asdict() for name, found in together(group).items()},
    }


def table(group: Group) -> Table:
    """A row for each seed."""
    what = "return" if group.experiment.evaluate is None else "evaluation return"
    all_of = list(group.outcomes.values())
    columns = [
        Column("seed", list(map(str, group.outcomes)), right=True, whole=True),
        Column("status", [one.status for one in all_of], whole=True),
        Column("episodes", [_number(one.episodes) for one in all_of], right=True),
        Column("timesteps", [_number(one.timesteps) for one in all_of], right=True),
        Column("seconds", [_number(one.seconds, 1) for one in all_of], right=True),
        Column(what, [_number(one.episode_return, 2) for one in all_of], right=True, whole=True),
    ]
    return Table(columns, group.experiment.name)


def lines(group: Group) -> list[str]:
    """What the seeds say together, a line for each number."""
    found = together(group)
    finished = sum(outcome.status == FINISHED for outcome in group.outcomes.values())
    what = f"of {finished} seed{'' if finished == 1 else 's'}:"
    told = [
        f"{f'{name} {what}':<32}{one.value:,.2f}  (95 % interval: {one.low:,.2f} to {one.high:,.2f})"
        for name, one in found.items()
    ]
    if number := few(group):
        seeds = f"{number} seed{'' if number == 1 else 's'}"
        told.append(
            f"warning: intervals of only {seeds} are too narrow. Use --seeds {ENOUGH} or more to compare means."
        )
    return told


def _number(value: float | None, digits: int = 0) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:,.{digits}f}"
