"""Search strategies: each batch of points depends on the results of earlier batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from .runs import Point
from .space import BAYES, GRID, HYPERBAND, MAPPING, TPE, Space


@dataclasses.dataclass(frozen=True)
class Batch:
    """Points that run together.

    ``bracket`` is hyperband's bracket iteration: the number of times its points have been promoted.
    """

    points: Sequence[int]
    iteration: int = 0
    bracket: int = 0


@dataclasses.dataclass(frozen=True)
class Next:
    """The next batch.

    Args:
        points: their values.
        resumed: their numbers, if they are existing points that continue with these values.
        iteration: as in :class:`Batch`.
        bracket: as in :class:`Batch`.
    """

    points: Sequence[Point]
    resumed: Sequence[int] = ()
    iteration: int = 0
    bracket: int = 0


def following(
    space: Space, batches: Sequence[Batch], points: Sequence[Point], metrics: Mapping[int, float]
) -> Next | None:
    """Choose the next batch of a search.

    Args:
        space: the matrix.
        batches: all batches that have run.
        points: all of them, by number.
        metrics: the metrics of points that have one.

    Returns:
        The next batch; None at the end.

    Raises:
        ExperimentError: a value does not suit its param.
    """
    if space.kind == HYPERBAND:
        return _hyperband(space, batches, points, metrics)
    if space.kind in (BAYES, TPE):
        return _next_guided(space, batches, points, metrics)
    if batches:
        return None
    return Next(space.grid() if space.kind in (GRID, MAPPING) else space.draw(space.config.num_runs))


def _next_guided(
    space: Space, batches: Sequence[Batch], points: Sequence[Point], metrics: Mapping[int, float]
) -> Next | None:
    config = space.config
    if not batches:
        if space.kind == BAYES:
            return Next(space.draw(config.num_initial_runs))
        return Next(space.suggest([], [], 0))
    iteration = batches[-1].iteration
    if not config.should_reschedule(iteration):
        return None
    if metrics:
        found = space.suggest([points[one] for one in metrics], [*metrics.values()], iteration + 1)
    else:  # nothing to learn from
        found = space.draw(1 if space.kind == BAYES else config.num_runs, iteration + 1)
    if new := [point for point in found if point not in points]:
        return Next(new, iteration=iteration + 1)
    # A point that has run would give nothing new; bayes may suggest it again when it is certain of it.
    drawn = [point for point in space.draw(len(points) + 1, iteration + 1) if point not in points]
    return Next(drawn[:1], iteration=iteration + 1) if drawn else None


def _hyperband(
    space: Space, batches: Sequence[Batch], points: Sequence[Point], metrics: Mapping[int, float]
) -> Next | None:
    config = space.config
    if not batches:
        return _bracket(space, 0)
    last = batches[-1]
    begun = config.get_bracket(iteration=last.iteration)
    if last.bracket < begun:
        first = next(one for one in batches if (one.iteration, one.bracket) == (last.iteration, 0))
        number = config.get_num_runs_to_keep(num_runs=len(first.points), bracket_iteration=last.bracket)
        sign = 1.0 if space.minimizes else -1.0
        known = sorted((one for one in last.points if one in metrics), key=lambda one: sign * metrics[one])
        kept = known[: max(1, number)]
        if kept:
            values = _resource(config, last.iteration, last.bracket + 1)
            promoted = [{**points[one], **values} for one in kept]
            return Next(promoted, kept if config.resume else (), last.iteration, last.bracket + 1)
    return _bracket(space, last.iteration + 1) if begun >= 1 else None


def _bracket(space: Space, iteration: int) -> Next:
    number = space.config.get_num_runs(bracket=space.config.get_bracket(iteration=iteration))
    values = _resource(space.config, iteration, 0)
    return Next(space.convert([{**one, **values} for one in space.draw(number, iteration)]), (), iteration, 0)


def resources(config: Any) -> list[Point]:
    """The values of hyperband's resource for a trial that is always promoted."""
    return [_resource(config, 0, bracket) for bracket in range(config.get_bracket(iteration=0) + 1)]


def _resource(config: Any, iteration: int, bracket: int) -> Point:
    amount = config.max_iterations * config.eta ** (bracket - config.get_bracket(iteration=iteration))
    nearest = round(amount)
    if abs(amount - nearest) < 1e-9 * amount:  # 9 * 3 ** -2 may be a little less than 1
        amount = nearest
    name, kind = config.resource.name, str(getattr(config.resource.type, "value", config.resource.type or "int"))
    return {name: max(1, int(amount)) if kind.lower() == "int" else float(amount)}


def most_points(space: Space) -> int:
    """The maximum number of points that a search runs; there may be fewer."""
    config = space.config
    if space.kind in (GRID, MAPPING):
        number = space.size() or 0
        return min(number, getattr(config, "num_runs", None) or number)
    if space.kind == BAYES:
        return int(config.num_initial_runs + config.max_iterations)
    if space.kind == TPE:
        return int(config.num_runs * (config.max_iterations + 1))
    if space.kind != HYPERBAND:
        return int(config.num_runs)
    found = 0
    for bracket in range(config.get_bracket(iteration=0) + 1):
        number = config.get_num_runs(bracket=bracket)
        promoted = [
            max(1, config.get_num_runs_to_keep(num_runs=number, bracket_iteration=one)) for one in range(bracket)
        ]
        found += number + (0 if config.resume else sum(promoted))
    return found
