"""Checks before the first trial, on points that cover every value that the matrix lists.

So a search that begins can also end, and an error in a point's experiment names the line of the value in the matrix.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ...core.yaml_text import Keys, show
from ...run_dir.provenance import processors
from ..config.files import Document
from ..config.optuna import OPTUNA
from ..config.schema import ExperimentFile
from ..config.seeds import seed_list
from ..errors import ExperimentError, Findings
from ..polyaxon import metrics
from ..polyaxon.metrics import AT
from ..tracking.trackers import disabled_by
from . import optuna_parts
from .runs import Point
from .space import GRID, HYPERBAND, MAPPING, Space
from .strategies import most_points, resources

MOST: Final = 200
"""Maximum number of points to try."""


def check_journals(experiment: ExperimentFile, document: Document) -> None:
    """Refuse metrics from journals if tracking is off; ``ExperimentError``."""
    for at, name in metrics.named_metrics(experiment.matrix or {}):
        if disabled_by() and (at[1] != "metric" or "/" in name):
            message = f"is read from the journals of runs, and {disabled_by()} turns tracking off, got {name!r}"
            raise document.error(at, message)


def check_points(space: Space, document: Document, attempt: Callable[[Point], object]) -> None:
    """Try points of the matrix that contain every value that it lists, and a drawn value of other params.

    Args:
        space: the matrix.
        document: for the lines of errors.
        attempt: makes the parts of an experiment with these values; raises ``ExperimentError``.

    Raises:
        ExperimentError: a value is refused; all errors at once.
    """
    optuna_parts.check(space)
    _try_all(_covering_points(space), document, attempt)


def check_first(space: Space, points: Sequence[Point], document: Document, attempt: Callable[[Point], object]) -> None:
    """Try the points with which a search begins; otherwise like :func:`check_points`."""
    _try_all(_locate_points(space, points), document, attempt)


def _locate_points(space: Space, points: Sequence[Point]) -> list[tuple[Point, dict[str, Keys]]]:
    """Points, with the keys of their values in the file."""
    rows = space.kind == MAPPING
    return [
        (point, {name: (*AT, "values", index, name) if rows else (*AT, "params", name) for name in point})
        for index, point in enumerate(points)
    ]


def _covering_points(space: Space) -> list[tuple[Point, dict[str, Keys]]]:
    """Points with all values that the matrix lists."""
    if space.kind == MAPPING:
        return _locate_points(space, space.convert(space.config.values[:MOST]))
    values_of = space.listed_values()
    number = min(MOST, max((len(values) for values in values_of.values()), default=1))
    drawn: Point = {}
    if space.kind == OPTUNA:
        drawn = space.convert([optuna_parts.random_point(space)])[0]
    elif space.kind != GRID:
        with contextlib.suppress(ImportError):  # hypertune is missing; a server draws if the file is submitted
            (drawn,) = space.draw(1)
    lengths = resources(space.config) if space.kind == HYPERBAND else [{}]
    found = []
    for index in range(number):
        chosen = {name: values[index % len(values)] for name, values in values_of.items()}
        point = {**drawn, **{name: value for name, (_, value) in chosen.items()}, **lengths[index % len(lengths)]}
        places: dict[str, Keys] = {name: (*AT, "params", name) for name in drawn}
        found.append((point, {**places, **{name: at for name, (at, _) in chosen.items()}}))
    return found


def _try_all(
    points: Sequence[tuple[Point, Mapping[str, Keys]]], document: Document, attempt: Callable[[Point], object]
) -> None:
    findings = Findings()
    for point, places in points:
        with findings.collecting():
            _try(point, places, document, attempt)
    findings.raise_all()


def _try(point: Point, places: Mapping[str, Keys], document: Document, attempt: Callable[[Point], object]) -> None:
    """Try a point; its error is raised at the value that causes it."""
    try:
        attempt(point)
    except ExperimentError as error:
        due = [name for name in places if _passes(attempt, {other: point[other] for other in point if other != name})]
        what = f"{error.key}: {error.message}" if error.key else error.message
        if len(due) == 1:
            message = f"{show(point[due[0]])} cannot be used: {what}"
            raise document.error(places[due[0]], message) from error
        values = ", ".join(f"{name}: {show(value)}" for name, value in point.items())
        raise document.error(AT, f"the point {{{values}}} cannot be used: {what}") from error


def _passes(attempt: Callable[[Point], object], point: Point) -> bool:
    try:
        attempt(point)
    except ExperimentError:
        return False
    return True


def description(experiment: ExperimentFile, space: Space, folder: Path) -> dict[str, Any]:
    """Describe the maximum that the search will run, for ``axonrl check``."""
    seeds = None if experiment.seeds is None else seed_list(experiment.seeds, experiment.seed)
    wanted, possible = most_points(space), space.size()
    repeats = possible is None or space.kind in (HYPERBAND, OPTUNA)
    points = wanted if repeats else min(wanted, possible or wanted)
    return {
        "kind": space.kind,
        "params": sorted({name for point, _ in _covering_points(space) for name in point}),
        "points": points,
        "wanted": wanted,
        "seeds": seeds,
        "trials": points * len(seeds or [0]),
        "jobs": jobs_of(space),
        "metric": space.objectives[0].name,
        "optimization": space.objectives[0].optimization,
        "objectives": [one.model_dump() for one in space.objectives],
        "folder": f"{folder}/trial-*",
    }


def jobs_of(space: Space) -> int:
    """The default number of trials at the same time."""
    most = min(getattr(space.config, "concurrency", None) or processors(), processors())
    if space.optuna is None:
        return most
    seeds = space.experiment.seeds
    return min(most, space.optuna.batchSize * len([0] if seeds is None else seed_list(seeds, space.experiment.seed)))
