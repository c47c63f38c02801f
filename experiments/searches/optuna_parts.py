"""Optuna's distributions, sampler and pruner for a matrix, with errors that name the line."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import warnings
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, Final, Literal

from ...core.yaml_text import show
from ..config.optuna import PRUNERS, SAMPLERS
from ..errors import Findings
from ..polyaxon import metrics
from ..polyaxon.metrics import AT
from .space import Space

NEEDS: Final = {"gp": ("scipy", "torch"), "cmaes": ("cmaes",), "qmc": ("scipy",)}
"""The packages that samplers need besides Optuna."""


def check(space: Space) -> None:
    """Check everything that Optuna would refuse; ``ExperimentError``."""
    keys, error = space.optuna, space.document.error
    if keys is None:
        return
    if importlib.util.find_spec("optuna") is None:
        message = "needs Optuna, which is not installed. Install it with: pip install 'axonrl[optuna]'"
        raise error((*AT, "kind"), f"{message}, or use a kind of Polyaxon's, such as tpe")
    sampler = keys.sampler.kind
    for package in NEEDS.get(sampler, ()):
        if importlib.util.find_spec(package) is None:
            install = "torch" if package == "torch" else "'axonrl[optuna]'"
            message = f"{sampler} needs {package}, which is not installed. Install it with: pip install {install}"
            raise error((*AT, "sampler"), f"{message}, or use the sampler tpe")
    if sampler == "cmaes":
        _check_cmaes(space)
    if keys.pruner is not None:
        _check_pruner(space, keys.pruner.kind, keys.metric[0].name)
    make_part("sampler", space)
    make_part("pruner", space)
    distributions(space)


def _check_cmaes(space: Space) -> None:
    params, error = space.config.params, space.document.error
    for name, param in params.items():
        if param.kind == "choice":
            message = "cmaes varies numbers only, got choice; use range or uniform, or the sampler tpe"
            raise error((*AT, "params", name, "kind"), message)
    if len(params) < 2:
        raise error((*AT, "sampler"), f"cmaes needs at least 2 params, got {len(params)}; use the sampler tpe")
    if len(space.objectives) > 1:
        message = f"cmaes takes one objective, and 'metric' has {len(space.objectives)}; use the sampler nsgaii or tpe"
        raise error((*AT, "sampler"), message)


def _check_pruner(space: Space, kind: str, name: str) -> None:
    """Refuse a pruner that would have no values to judge by, or several."""
    at, number = (*AT, "pruner"), len(space.objectives)
    if number > 1:
        message = f"{kind} judges one metric, and 'metric' has {number}; leave out the pruner, or the other metrics"
        raise space.document.error(at, message)
    if space.experiment.seeds is not None:
        message = f"{kind} judges one trial per point, but 'seeds' gives several; leave out the pruner, or 'seeds'"
        raise space.document.error(at, message)
    watched = metrics.while_training(name)
    evaluates = any(one.startswith("eval/") for one in metrics.names(space.experiment))
    if not watched or (watched.startswith("eval/") and not evaluates):
        message = (
            f"{kind} judges trials while they train, but {name!r} is known only at their end; add"
            " hooks: [{kind: evaluation, every_timesteps: ...}] with a metric of the return, or compare"
            " rollout/return_mean"
        )
        raise space.document.error(at, message)


def make_part(what: Literal["sampler", "pruner"], space: Space, number: int = 0) -> Any:
    """Make the sampler for a point, or the pruner; None if there is none.

    Raises:
        ExperimentError: an argument is refused.
    """
    import optuna

    keys = space.optuna
    given = None if keys is None else getattr(keys, what)
    if given is None:
        return None
    room, names = (optuna.samplers, SAMPLERS) if what == "sampler" else (optuna.pruners, PRUNERS)
    made_by = getattr(room, names[given.kind])
    known = [name for name in inspect.signature(made_by).parameters if name != "seed"]
    message = f"unknown argument of {names[given.kind]}; the seed is the matrix's: {', '.join(known)}"
    Findings(space.document.unknown_key_errors((*AT, what), given.kwargs, known, message)).raise_all()
    # A single sequence: its points are numbered, and the seed is the same for all of them.
    own = {} if what == "pruner" else {"seed": space.salted_seed(0 if given.kind == "qmc" else number)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some are experimental
        try:
            return made_by(**given.kwargs, **own)
        except (TypeError, ValueError, AssertionError) as error:
            message = f"{names[given.kind]} refuses {show(given.kwargs)}: {error}"
            raise space.document.error((*AT, what), message) from error


def distributions(space: Space) -> dict[str, Any]:
    """Optuna's distribution of each param; ``ExperimentError`` if no number is within its bounds."""
    import optuna.distributions as kinds

    found, listed = dict[str, Any](), space.listed_values()
    unit: Any
    for name, param in space.config.params.items():
        if param.kind == "choice":
            found[name] = kinds.CategoricalDistribution(list(dict.fromkeys(value for _, value in listed[name])))
            continue
        numbers, is_whole = param.value.to_dict(), space.is_whole(name)
        if param.kind == "range":
            low, step = numbers["start"], numbers["step"]
            high = float(Decimal(str(low)) + (len(listed[name]) - 1) * Decimal(str(step)))
        else:
            low, high = numbers["low"], numbers["high"]
            step = numbers.get("q")
        if param.kind == "loguniform":
            low, high = math.exp(low), math.exp(high)
        unit = step or (1 if is_whole else None)
        if param.kind == "quniform" or (unit and param.kind != "range"):
            least, most, exact = (Decimal(str(number)) for number in (low, high, unit))
            low = float((least / exact).to_integral_value(ROUND_CEILING) * exact)
            high = float((most / exact).to_integral_value(ROUND_FLOOR) * exact)
        if low > high or (is_whole and unit != int(unit)):
            at = (*AT, "params", name, "value")
            raise space.document.error(at, f"gives no {'whole ' * is_whole}number, got {show(numbers)}")
        log = param.kind == "loguniform"
        if is_whole:
            found[name] = kinds.IntDistribution(int(low), int(high), log=log, step=int(unit))
        else:
            found[name] = kinds.FloatDistribution(low, high, log=log, step=step)
    return found


def random_point(space: Space) -> dict[str, Any]:
    """A random point."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.RandomSampler(seed=space.salted_seed(0))
    params: dict[str, Any] = optuna.create_study(sampler=sampler).ask(distributions(space)).params
    return params
