"""The points of a search: described by the section ``matrix``, chosen by ``hypertune``, as in Polyaxon.

A matrix of the kind ``optuna`` is treated as one of the kind ``random`` with more keys (:mod:`.optuna_study` chooses
its points).
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...core.yaml_text import Keys, show
from ..config.declared import convert
from ..config.files import Document
from ..config.optuna import OPTUNA, Objective, OptunaKeys
from ..config.schema import ExperimentFile
from ..config.sections import validate
from ..polyaxon import metrics
from ..polyaxon.matrix import check_matrix
from ..polyaxon.metrics import AT, RETURN
from .runs import Point

GRID, RANDOM, MAPPING, HYPERBAND, BAYES, TPE = "grid", "random", "mapping", "hyperband", "bayes", "tpe"
KINDS: Final = (GRID, RANDOM, MAPPING, HYPERBAND, BAYES, TPE, OPTUNA)
"""The kinds of matrix that can be run here; ``iterative`` needs a user's own tuner on a server."""
LISTED: Final = ("choice", "range", "linspace", "logspace", "geomspace")
"""Kinds of param that list their values."""
DRAWN: Final = (
    "pchoice",
    *(f"{q}{name}" for name in ("uniform", "loguniform", "normal", "lognormal") for q in ("", "q")),
)
"""Kinds of param that can only be drawn."""
DATES: Final = ("daterange", "datetimerange")
"""Kinds of param that give values of no declared type."""
TAKES: Final[Mapping[str, Sequence[str]]] = {
    GRID: LISTED,
    RANDOM: (*LISTED, *DRAWN),
    HYPERBAND: (*LISTED, *DRAWN),
    BAYES: (*LISTED, "uniform"),
    TPE: (*LISTED, *DRAWN[1:]),
    OPTUNA: ("choice", "range", "uniform", "loguniform", "quniform"),
}
"""The kinds of param that each kind of matrix can vary."""
REQUIRED: Final[Mapping[str, Sequence[str]]] = {
    HYPERBAND: ("params", "maxIterations", "eta", "resource", "metric"),
    BAYES: ("metric",),
    TPE: ("numRuns", "maxIterations"),
    OPTUNA: ("params", "numRuns", "metric"),
}
"""Keys that a search needs to know what to do or when to end; in Polyaxon's schema they are optional."""
UTILITY: Final = {"acquisitionFunction": "ucb", "kappa": 1.2, "eps": 0.0, "numWarmup": 1000, "numIterations": 10}
GAUSSIAN: Final = {"kernel": "matern", "lengthScale": 1.0, "nu": 1.5, "numRestartsOptimizer": 0}
"""Defaults of ``bayes``; hypertune requires all of them."""
MOST_POINTS: Final = 10_000
MOST_ATTEMPTS: Final = 1_000
"""Consecutive draws without a new point after which no more are assumed to exist."""
_SPACES: Final[Mapping[str, Any]] = {
    "range": np.arange,
    "linspace": np.linspace,
    "logspace": np.logspace,
    "geomspace": np.geomspace,
}
_MANAGERS: Final = {
    GRID: ("grid_search", "GridSearchManager"),
    MAPPING: ("mapping", "MappingManager"),
    BAYES: ("bayesian_optimization", "BayesSearchManager"),
    TPE: ("tpe", "TPEManager"),
}


class Space:
    """A checked matrix.

    Args:
        experiment: with the section ``matrix``.
        document: for the lines of errors.
        given: the params of ``-P``.

    Raises:
        ExperimentError: the matrix is invalid, or cannot be run here.
    """

    def __init__(self, experiment: ExperimentFile, document: Document, given: Mapping[str, str]) -> None:
        matrix = _with_defaults(experiment.matrix or {})
        self.experiment, self.document, self._declared = experiment, document, experiment.params
        _check(matrix, document)
        self.optuna: OptunaKeys | None = None
        """The additional keys of the kind ``optuna``."""
        if (kind := matrix.get("kind")) == OPTUNA:
            keys = [key for key in OptunaKeys.model_fields if key in matrix]
            self.optuna = validate(OptunaKeys, {key: matrix[key] for key in keys}, AT, document)
            metrics.check(matrix, experiment, document)
            others = {key: value for key, value in matrix.items() if key not in keys}
            self.config = check_matrix({**others, "kind": RANDOM}, experiment, given, document)
        else:
            self.config = check_matrix(matrix, experiment, given, document)
        self.kind = str(kind)
        self.seed: int | None = getattr(self.config, "seed", None)
        """The seed for draws; must be set if the matrix has none."""
        if (wanted := matrix.get("numRuns") or 0) > MOST_POINTS:
            raise document.error((*AT, "numRuns"), f"must be at most {MOST_POINTS:,}, got {wanted:,}")
        if self.kind == HYPERBAND:
            self._check_hyperband(matrix)

    @property
    def objectives(self) -> Sequence[Objective]:
        """The compared metrics; the table shows the first one."""
        if self.optuna is not None:
            return self.optuna.metric
        metric = getattr(self.config, "metric", None)
        name, wanted = (RETURN, None) if metric is None else (str(metric.name), metric.optimization)
        minimizes = str(getattr(wanted, "value", wanted)).lower() == "minimize"
        return [Objective(name=name, optimization="minimize" if minimizes else "maximize")]

    @property
    def minimizes(self) -> bool:
        """Is the first metric minimised? By default it is maximised."""
        return self.objectives[0].optimization == "minimize"

    def grid(self) -> list[Point]:
        """Every combination of values, or the points that a mapping lists."""
        if self.kind == GRID:
            self._check_size()
        return self.convert(self._manager().get_suggestions())

    def listed_values(self) -> dict[str, list[tuple[Keys, Any]]]:
        """The params whose values the matrix lists: each value, and its keys in the file."""
        found: dict[str, list[tuple[Keys, Any]]] = {}
        for name, param in (getattr(self.config, "params", None) or {}).items():
            at = (*AT, "params", name)
            if param.kind in ("choice", "pchoice"):
                values = [(value[0] if param.kind == "pchoice" else value) for value in param.value]
                places: list[Keys] = [(*at, "value", index) for index in range(len(values))]
            elif param.kind in LISTED:
                values = [*_SPACES[param.kind](**param.value.to_dict())]
                places = [at] * len(values)
            else:
                continue
            pairs = zip(places, values, strict=True)
            found[name] = [(place, self._convert(name, value, place)) for place, value in pairs]
        return found

    def size(self) -> int | None:
        """The number of points; None if params are drawn."""
        if self.kind == MAPPING:
            return len(self.config.values)
        listed = self.listed_values()
        if listed.keys() != self.config.params.keys():
            return None
        values = ([value for _, value in one] for one in listed.values())
        return math.prod(len(one) if self.kind == GRID else len(set(one)) for one in values)

    def draw(self, number: int, salt: int = 0) -> list[Point]:
        """Distinct points, drawn like hypertune's RandomSearchManager does; fewer if there are no more."""
        sample: Any = _hypertune("matrix.utils").sample
        generator, found, attempts = np.random.RandomState(self.salted_seed(salt)), list[Point](), 0
        while len(found) < number and attempts < MOST_ATTEMPTS:
            values = {name: sample(one, rand_generator=generator) for name, one in self.config.params.items()}
            (point,) = self.convert([values])
            attempts += 1
            if point not in found:
                found.append(point)
                attempts = 0
        return found

    def suggest(self, points: Sequence[Point], metrics: Sequence[float], salt: int) -> list[Point]:
        """Points suggested from results, for bayes and tpe."""
        self.config.seed = self.salted_seed(salt)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a fit that did not converge still gives a suggestion
            found = self._manager().get_suggestions(configs=[dict(one) for one in points], metrics=list(metrics))
        return self.convert(found or [])

    def convert(self, points: Sequence[Mapping[str, Any]]) -> list[Point]:
        """Convert values to the declared types, as JSON has them."""
        return [{name: self._convert(name, value) for name, value in point.items()} for point in points]

    def _convert(self, name: str, value: Any, at: Keys = ()) -> Any:
        at = at or (*AT, "params", name)
        value = value.item() if hasattr(value, "item") else value
        kind = self._declared[name].type
        if isinstance(value, float) and not math.isfinite(value):
            raise self.document.error(at, f"gives {value}, which is not finite")
        try:
            return convert(value, kind)
        except ValueError:
            hint = "; use a kind that gives whole numbers, such as range or quniform" if kind == "int" else ""
            message = f"gives {show(value)}, and the param is of type {kind}{hint}"
            raise self.document.error(at, message) from None

    def _manager(self) -> Any:
        module, name = _MANAGERS[self.kind]
        return getattr(_hypertune(f"search_managers.{module}.manager"), name)(self.config)

    def is_whole(self, name: str) -> bool:
        """Is a declared param an integer?"""
        return self._declared[name].type == "int"

    def salted_seed(self, salt: int) -> int:
        """The seed for these draws."""
        return ((self.seed or 0) + salt) % (2**32 - 1) or 2**32 - 1  # hypertune treats 0 as no seed

    def _check_size(self) -> None:
        number = self.size() or 0
        if min(number, self.config.num_runs or number) > MOST_POINTS:
            message = f"has {number:,} points, and at most {MOST_POINTS:,} can be run; use numRuns, or random"
            raise self.document.error(AT, message)

    def _check_hyperband(self, matrix: Mapping[str, Any]) -> None:
        name, params = str(self.config.resource.name), matrix["params"]
        if name not in self._declared:
            message = f"no param {name!r} is declared under 'params'"
            raise self.document.error((*AT, "resource", "name"), message, name=name, choices=self._declared)
        if name in params:
            raise self.document.error((*AT, "params", name), "is the resource, which hyperband sets itself")
        if not self.config.eta > 1:
            raise self.document.error((*AT, "eta"), f"must be above 1, got {self.config.eta}")
        self.config.set_tuning_params()
        most = max(self.config.get_num_runs(bracket=bracket) for bracket in range(self.config.s_max + 1))
        if most > MOST_POINTS:
            message = (
                f"gives {most:,} trials at first, and at most {MOST_POINTS:,} can be run; count the resource in larger"
                ' units, as in train: {max_timesteps: "${thousands}e3"}, or use a larger eta'
            )
            raise self.document.error((*AT, "maxIterations"), message)


def _hypertune(module: str) -> Any:
    """A module of hypertune; ``ImportError`` with what to install."""
    try:
        return importlib.import_module(f"hypertune.{module}")
    except ModuleNotFoundError as error:
        message = f"This search needs {error.name}. Install it with: pip install 'axonrl[search]'"
        raise ImportError(message, name=error.name) from error


def _with_defaults(matrix: Mapping[str, Any]) -> dict[str, Any]:
    if matrix.get("kind") != BAYES:
        return dict(matrix)
    utility = matrix.get("utilityFunction") or {}
    if not isinstance(utility, Mapping):
        return dict(matrix)
    gaussian = utility.get("gaussianProcess") or {}
    gaussian = {**GAUSSIAN, **gaussian} if isinstance(gaussian, Mapping) else gaussian
    return {**matrix, "utilityFunction": {**UTILITY, **utility, "gaussianProcess": gaussian}}


def _check(matrix: Mapping[str, Any], document: Document) -> None:
    """Refuse what Polyaxon's schema accepts but cannot be run."""
    kind, params = matrix.get("kind"), matrix.get("params")
    if kind == "iterative":
        message = f"'iterative' needs a tuner on a server; axonrl run takes {', '.join(KINDS)}"
        raise document.error((*AT, "kind"), message)
    if isinstance(kind, str) and kind not in KINDS:
        message = f"must be one of {', '.join(KINDS)}, got {show(kind)}"
        raise document.error((*AT, "kind"), message, name=kind, choices=KINDS)
    for name in REQUIRED.get(str(kind), ()):
        if matrix.get(name) is None:
            raise document.error((*AT, name), "this key is required")
    for name, one in params.items() if isinstance(params, Mapping) else ():
        takes, given = TAKES.get(str(kind), ()), one.get("kind") if isinstance(one, Mapping) else None
        if takes and isinstance(given, str) and given in (*LISTED, *DRAWN, *DATES) and given not in takes:
            message = f"{kind} takes {', '.join(takes)}, got {given}"
            raise document.error((*AT, "params", name, "kind"), message)
