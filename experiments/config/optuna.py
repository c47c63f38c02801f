"""The keys of a ``matrix`` of the kind ``optuna`` that none of Polyaxon's kinds has."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from .sections import Count, Named, Section, as_list

OPTUNA: Final = "optuna"
"""The kind of matrix."""
SAMPLERS: Final = {
    "tpe": "TPESampler",
    "gp": "GPSampler",
    "cmaes": "CmaEsSampler",
    "qmc": "QMCSampler",
    "nsgaii": "NSGAIISampler",
}
"""Names of samplers to Optuna's classes."""
PRUNERS: Final = {
    "median": "MedianPruner",
    "hyperband": "HyperbandPruner",
    "successive_halving": "SuccessiveHalvingPruner",
}
"""Names of pruners to Optuna's classes."""


class Sampler(Named):
    """A sampler, with the arguments of Optuna's class except its seed."""

    kind: Literal["tpe", "gp", "cmaes", "qmc", "nsgaii"]
    """The source of the points."""


class Pruner(Named):
    """A pruner, with the arguments of Optuna's class; a step is one value of the metric."""

    kind: Literal["median", "hyperband", "successive_halving"]
    """The rule that stops trials."""


class Objective(Section):
    """An objective: a metric to compare."""

    name: str
    """The name of a result or of a metric."""
    optimization: Literal["maximize", "minimize"] = "maximize"
    """Whether higher or lower values are better."""


class OptunaKeys(Section):
    """Additional keys; the others are those of the kind ``random``."""

    sampler: Sampler = Sampler(kind="tpe")
    """A name, or a mapping with arguments."""
    pruner: Pruner | None = None
    """A name, or a mapping with arguments; default: none."""
    metric: Annotated[list[Objective], BeforeValidator(as_list), Field(min_length=1)]
    """One objective, or a list of them."""
    batchSize: Count = 1  # noqa: N815 - as the other keys of a matrix
    """The number of points that are chosen together, without knowing each other's results."""
