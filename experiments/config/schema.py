"""The schema of experiment files, and how the command line's options change them.

:func:`load` reads the file, applies ``--set``, gives the declared params their values (``-P``), replaces ``${name}``
and checks the result. Nothing heavy is imported: the runner looks up the names of models, memories and hooks.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from ...core import registry
from ...core.errors import ArgumentError
from ...core.protocols import RunConfig
from ...core.yaml_text import Keys, texts
from ...distributed.settings import Settings
from ...estimators.limits import Plan
from ..errors import ExperimentError, Findings
from . import secrets
from .declared import Param, declared_params
from .files import Document, read
from .includes import KEY as INCLUDE
from .includes import with_includes
from .sections import Count, Named, Section, Short, as_list, number_of, validate
from .seeds import Seeds, seed_ranges
from .submission import Submit
from .trackers import Tracker, trackers_of
from .values import override, replace

CONFIG_FIELDS: Final = tuple(
    field.name
    for field in dataclasses.fields(RunConfig)
    if field.name not in ("seed", "observation_space", "action_space")
)
CLUSTER_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Settings))
PLAN_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Plan))
_OWNERS: Final[Mapping[str, tuple[Callable[..., Any], Sequence[str]]]] = {
    "config": (RunConfig, CONFIG_FIELDS),
    "distributed": (Settings, CLUSTER_FIELDS),
    "train": (Plan, PLAN_FIELDS),
}
"""Sections whose keys are the arguments of a class, which checks them."""


class Environment(Section):
    """The environment: its Gymnasium id, the number of copies, its arguments and wrappers."""

    id: str
    """An id of Gymnasium, MinAtar or the Arcade Learning Environment; or your own class, ``package.module:Class``."""
    num_envs: Count = 1
    """Number of parallel copies."""
    vectorization: Literal["sync", "native", "envpool", "pettingzoo"] = "sync"
    """How copies are stepped: sync, one by one; native, as arrays (classic control); envpool, in EnvPool's threads;
    pettingzoo, worlds with several agents; ``pettingzoo: package.module:parallel_env`` is short for this and the id."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the environment."""
    wrappers: list[Named] = Field(default_factory=list)
    """Wrappers of each copy, innermost first."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, value: Any) -> Any:
        if isinstance(value, dict) and "pettingzoo" in value:
            if twice := sorted({"id", "vectorization"} & value.keys()):
                raise ValueError(f"pettingzoo stands for id and vectorization; omit {' and '.join(twice)}")
            value = {"vectorization": "pettingzoo", **value}
            value["id"] = value.pop("pettingzoo")
        return value


class WarmStart(Short):
    """The source of a new run's initial weights; the short form is the run folder or file alone."""

    run: str
    """A run folder, or a file that holds a policy."""
    variables: str = ".*"
    """A regular expression for the names of the variables to take over."""
    policy: str = "last"
    """The policy in a run folder: last, or the name of a kept one (best)."""


class AgentSection(Section):
    """The agent: its model function with params, its memory, and the source of its initial weights."""

    model_fn: str
    """The model function: a name that ``axonrl list`` lists, or ``package.module:function``."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The params of the model function."""
    memory: Named | None = None
    """The memory of transitions."""
    warm_start: WarmStart | None = None
    """The run from which initial weights are taken; default: they are drawn from the seed."""


class Learn(Section):
    """The arguments of ``Agent.learn``, which comes before ``Agent.train``: updates from stored episodes."""

    data: str
    """A file or a folder of episodes, relative to the folder where the run began; see ``axonrl record``."""
    max_steps: Count
    """Total number of updates."""


class Evaluate(Section):
    """The episodes after training."""

    episodes: Count = 100
    """The number of episodes."""
    explore: bool = False
    """Whether the behaviour policy acts, as in training, instead of the greedy one."""
    policy: Literal["best", "last"] = "last"
    """The best policy, kept by an evaluation hook (the default with such a hook), or the last one."""


class ExperimentFile(Section):
    """A whole experiment file, with every ``${name}`` replaced."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)]
    """The name of the run and of its folder; default: the file's name. At most 128 characters."""
    description: str = ""
    """A sentence about the experiment, for ``axonrl list``."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """The seed of all randomness; default: drawn and recorded."""
    seeds: Seeds | None = None
    """Run with many seeds: their number, beginning at ``seed`` or at 0; or a list of seeds."""
    params: dict[str, Param] = Field(default_factory=dict)
    """Named values: ``${name}`` stands for them elsewhere, and ``-P name=value`` changes them."""
    environment: Environment
    agent: AgentSection
    config: dict[str, Any] = Field(default_factory=dict)
    """The arguments of ``RunConfig`` except the seed."""
    learn: Learn | None = None
    """Learning from stored episodes; the environment is then used for training only with a section ``train``."""
    train: Annotated[Plan | None, BeforeValidator(lambda one: Plan(**one) if isinstance(one, dict) else one)] = Plan()
    """The arguments of ``Agent.train``: the schedule of updates, and the totals at which training ends."""
    distributed: dict[str, Any] | None = None
    """The arguments of ``Cluster``, for training on several processes or machines; default: only in this process."""
    evaluate: Evaluate | None = Evaluate()
    hooks: list[Named] = Field(default_factory=list)
    """Hooks: names, or names with arguments."""
    tracker: Annotated[list[Tracker], BeforeValidator(as_list)] = Field(default_factory=list)
    """Trackers that show the run: a name, a mapping, or a list of these."""
    submit: Submit | None = None
    matrix: dict[str, Any] | None = None
    """A search: which declared params vary, and how, as in Polyaxon's section of this name, or with Optuna."""


CheckParts: TypeAlias = "Callable[[Mapping[str, Any], Document, Findings], None]"
"""Checks the parts that a file names, given its values, and adds errors to the findings."""


def load(
    path: Path,
    params: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
    check_parts: CheckParts | None = None,
) -> tuple[ExperimentFile, Document]:
    """Read and check an experiment file.

    Args:
        path: the file.
        params: ``-P``: names of declared params to their new values, as text.
        sets: ``--set``: dotted paths to new values, as YAML.
        check_parts: called for an invalid file, so that errors in its valid sections are shown too.

    Returns:
        The experiment, and the document with the line of each value, for errors found later.

    Raises:
        ExperimentError: the file or an option is invalid. All errors that can be found are reported together.
    """
    findings, params = Findings(), params or {}
    document = _read(path, sets or {}, findings)
    secrets.refuse(document, document.values, findings, params)
    if INCLUDE in document.values:
        message = "cannot be set on the command line; write a file that includes both"
        findings.add(document.error((INCLUDE,), message))
    raw = {"name": path.stem, **_resolve_params(document, params, findings)}
    secrets.refuse(document, raw, findings, {})
    if isinstance(train := raw.get("train"), dict):
        raw["train"] = {name: number_of(one) if isinstance(one, str) else one for name, one in train.items()}
    for key, (owner, names) in _OWNERS.items():
        if isinstance(given := raw.get(key), dict):
            made = None
            with findings.collecting():
                made = attempt(owner, (key,), given, document, names)
            if key == "train":
                raw[key] = made or Plan()
    trackers = trackers_of(raw.get("tracker"), document, findings)
    with findings.collecting():
        experiment = _with_defaults(validate(ExperimentFile, raw, (), document))
        experiment = experiment.model_copy(update={"tracker": trackers})
        _check_together(experiment, document, sets or {})
    if findings and check_parts is not None:
        check_parts(raw, document, findings)
    findings.raise_all()
    return experiment, document


def _read(path: Path, sets: Mapping[str, str], findings: Findings) -> Document:
    """The file with its includes and ``--set``; ``ExperimentError``, with the findings, if it cannot be read."""
    try:
        document = read(path, findings)
        if INCLUDE in document.values:
            document = with_includes(document, findings)
        return override(document, sets, findings) if sets else document
    except ExperimentError as error:
        findings.add(error)
        findings.raise_all()
        raise


def _resolve_params(document: Document, params: Mapping[str, str], findings: Findings) -> dict[str, Any]:
    """The values of a document with every ``${name}`` replaced."""
    declared = declared_params(document, params, findings)
    section = document.values.get("params")
    values = dict.fromkeys(section) if isinstance(section, dict) else {}
    values |= {name: param.default for name, param in declared.items()}
    found = {
        key: replace(value, (key,), values, document, findings)
        if any("${" in one for _, one in texts(value))
        else value
        for key, value in document.values.items()
        if key not in ("params", INCLUDE)
    }
    return {**found, "params": {name: param.model_dump() for name, param in declared.items()}}


def _check_together(experiment: ExperimentFile, document: Document, sets: Mapping[str, str]) -> None:
    """Refuse values that contradict each other; ``ExperimentError``."""
    if experiment.evaluate and experiment.evaluate.policy == "best" and not _keeps_best(experiment):
        message = "'best' needs an evaluation hook, which keeps the best policy; add one, or use 'last'"
        raise document.error(("evaluate", "policy"), message)
    if experiment.train is None and experiment.learn is None:
        message = "must be a mapping, got null, which is allowed only with a section 'learn'"
        raise document.error(("train",), message)
    if experiment.distributed is not None and experiment.environment.vectorization == "pettingzoo":
        message = "several agents train in one process: leave out the section 'distributed'"
        raise document.error(("environment", "pettingzoo"), message)
    if experiment.distributed is not None and experiment.environment.num_envs > 1:
        message = (
            f"applies to a single process, got {experiment.environment.num_envs}; with 'distributed' set envs_per_actor"
        )
        raise document.error(("environment", "num_envs"), message)
    if "seed" in sets and isinstance(experiment.seeds, list):
        listed = seed_ranges(experiment.seeds)
        message = f"is the first of a number of seeds, but 'seeds' lists them: {listed}; leave it out"
        raise document.error(("seed",), message)


def _with_defaults(experiment: ExperimentFile) -> ExperimentFile:
    """The experiment with defaults that depend on other keys: what is trained, and the evaluated policy."""
    update: dict[str, Any] = {}
    if experiment.learn is not None and "train" not in experiment.model_fields_set:
        update["train"] = None
    evaluate = experiment.evaluate
    if evaluate is not None and "policy" not in evaluate.model_fields_set:
        kept = any(_keeps(hook.model_dump()) for hook in experiment.hooks)
        update["evaluate"] = evaluate.model_copy(update={"policy": "best" if kept else "last"})
    return experiment.model_copy(update=update)


def _keeps(hook: Mapping[str, Any]) -> bool:
    """Does a hook of that kind with these arguments keep the policy ``best``?"""
    return (hook.get("kind"), hook.get("keep_best", True), hook.get("name", "best")) == ("evaluation", True, "best")


def _keeps_best(experiment: ExperimentFile) -> bool:
    """Does a hook keep the policy ``best``? A user's own hook may do so."""
    own = registry.BUILT_IN["hook"]
    return any(_keeps(hook.model_dump()) or hook.kind not in own for hook in experiment.hooks)


def attempt(
    make: Callable[..., Any],
    at: Keys,
    arguments: Mapping[str, Any],
    document: Document,
    names: Collection[str] | None = None,
) -> Any:
    """Call a function; an error about an argument becomes one with the argument's line.

    After such an error the other arguments are tried without it, so that all errors are found.

    Args:
        make: raises ``ArgumentError``, ``TypeError`` or ``ValueError``.
        at: the keys of the section.
        arguments: what is in it.
        document: for the lines of errors.
        names: the names of existing arguments; None if the names are already checked.
    """
    known, made = arguments if names is None else names, None
    findings = Findings(document.unknown_key_errors(at, arguments, known))
    left = {name: value for name, value in arguments.items() if name in known}
    while True:
        try:
            made = make(**left)
            break
        except ExperimentError:
            raise
        except (TypeError, ValueError) as error:
            # "size", "RunConfig.seed" or "VideoHook(fps)"
            argument = re.findall(r"[A-Za-z_]\w*", error.argument)[-1] if isinstance(error, ArgumentError) else ""
            if argument not in left and findings:  # it may result from the argument that was removed
                break
            message = str(error).removeprefix(f"{argument} ")
            found = document.error((*at, argument) if argument in left else at, message)
            found.__cause__ = error
            findings.add(found)
            if argument not in left:
                break
            del left[argument]
    findings.raise_all()
    return made
