"""The metrics of runs: which names a matrix can use, and the names by which a server looks them up.

Most names are known before the first trial. Names of some families depend on the model function or on a hook: whether
such a metric exists is known once a trial has other metrics of that family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ...core import registry
from ...core.yaml_text import Keys
from ...hooks.measures import ROLLOUT
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..config.sections import Named
from ..errors import Findings

RETURN: Final = "return"
"""The default metric: the mean return of the final evaluation, or else of the last 100 episodes."""
FINAL: Final = "final_episode_"
RESULTS: Final = ("episodes", "timesteps", "updates", "seconds", "timesteps_per_second")
RULE: Final = "metric_early_stopping"
"""The kind of early stopping rule that has a metric."""
AT: Final[Keys] = ("matrix",)
"""The section of a search."""
_EVALUATED: Final = ("return_mean", "return_std", "return_min", "return_max", "length_mean")
_TIME: Final = (
    *("timesteps_per_second", "updates_per_second", "environment_share", "acting_share", "learning_share"),
    "episodes",
)


def compared_metric(matrix: Mapping[str, Any]) -> str:
    """The name of the metric that a valid matrix compares; the first one of several."""
    metric = matrix.get("metric")
    first = metric[0] if isinstance(metric, list) else metric
    return str(first["name"]) if first else RETURN


def while_training(metric: str) -> str:
    """The metric during training that is closest to this one; empty if there is none."""
    if metric == RETURN or metric.startswith(FINAL):
        return f"eval/{'return_mean' if metric == RETURN else metric.removeprefix(FINAL)}"
    return metric if "/" in metric else ""


def named_metrics(matrix: Mapping[str, Any]) -> list[tuple[Keys, str]]:
    """The metrics that a valid matrix names, with their keys."""
    rules = matrix.get("earlyStopping") or []
    found: list[tuple[Keys, str]] = [
        ((*AT, "earlyStopping", index, "metric"), str(rule["metric"]))
        for index, rule in enumerate(rules)
        if rule["kind"] == RULE
    ]
    metric = matrix.get("metric")
    if isinstance(metric, list):
        return [*(((*AT, "metric", index, "name"), str(one["name"])) for index, one in enumerate(metric)), *found]
    return [((*AT, "metric", "name"), str(metric["name"])), *found] if metric else found


def check(matrix: Mapping[str, Any], experiment: ExperimentFile, document: Document) -> None:
    """Refuse a metric that no run of a valid matrix will have; ``ExperimentError``."""
    findings = Findings()
    for at, name in named_metrics(matrix):
        known = [one for one in names(experiment) if one != RETURN or at[1] == "metric"]
        if name not in known and not any(name.startswith(family) for family in families(experiment)):
            kinds = " and ".join(f"{family}..." for family in families(experiment))
            message = f"no trial has a metric {name!r}: there are {', '.join(known)}, and {kinds} of the model function"
            findings.add(document.error(at, message, name=name, choices=known))
    findings.raise_all()


def names(experiment: ExperimentFile) -> list[str]:
    """The metrics whose names are known before the first trial."""
    acts = experiment.train is not None
    final = [] if experiment.evaluate is None else [f"{FINAL}{name}" for name in _EVALUATED]
    evaluates = any(hook.kind == "evaluation" or _is_own(hook) for hook in experiment.hooks)
    evaluated = [f"eval/{name}" for name in _EVALUATED if evaluates]
    rollout, time = [f"rollout/{name}" for name in ROLLOUT if acts], [f"time/{name}" for name in _TIME]
    has_return = [RETURN] if acts or final else []
    return [*has_return, *final, *rollout, *evaluated, "train/loss", "train/updates", *RESULTS, *time]


def families(experiment: ExperimentFile) -> list[str]:
    """Prefixes of names that are known only from a trial."""
    evaluates = any(hook.kwargs.get("eval_batches") or _is_own(hook) for hook in experiment.hooks)
    cluster = experiment.distributed is not None
    return ["train/", *(["eval/"] if evaluates else []), *(["distributed/"] if cluster else [])]


def _is_own(hook: Named) -> bool:
    """Is it a user's own hook, which may evaluate?"""
    return hook.kind not in registry.BUILT_IN["hook"]


def output_key(name: str) -> str:
    """The name among a run's outputs by which a server finds a metric's last value.

    A server's queries allow neither ``/``, ``.`` nor ``:``, and use ``__`` for the path to a nested value.
    """
    return re.sub("[^A-Za-z0-9]+", "_", name).strip("_")


def on_server(matrix: Mapping[str, Any], experiment: ExperimentFile, document: Document) -> dict[str, Any]:
    """A valid matrix with metrics named as in the outputs of a server's runs.

    Raises:
        ExperimentError: it names a metric, but each point has several runs, one for each seed.
    """
    found = named_metrics(matrix)
    if found and experiment.seeds is not None:
        at, name = found[0]
        message = (
            f"a server cannot look up {name!r}: with 'seeds' each seed is a separate run, and the points' runs have no"
            " metrics. Leave 'seeds' out to submit it"
        )
        raise document.error(at, message)
    made = dict(matrix)
    if matrix.get("metric"):
        name = compared_metric(matrix)
        if name == RETURN:
            name = "rollout/return_mean" if experiment.evaluate is None else f"{FINAL}return_mean"
        made["metric"] = {**matrix["metric"], "name": output_key(name)}
    if rules := matrix.get("earlyStopping"):
        made["earlyStopping"] = [
            {**rule, "metric": output_key(rule["metric"])} if rule["kind"] == RULE else rule for rule in rules
        ]
    return made
