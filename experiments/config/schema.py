"""The schema of experiment files, and how the command line's options change them.

:func:`load` reads the file, applies ``--set``, gives the declared params their values (``-P``), replaces ``${name}``
and checks the result. Nothing heavy is imported: names of models, memories and hooks are looked up by the runner.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from ...core import registry
from ...core.errors import ArgumentError
from ...core.protocols import RunConfig
from ...distributed.settings import Settings
from ..errors import ExperimentError, Findings
from . import secrets
from .declared import Param, declared_params
from .files import Document, Keys, item
from .includes import KEY as INCLUDE
from .includes import read_with_includes
from .sections import Count, Section, validate
from .seeds import Seeds, seed_ranges
from .submission import Submit
from .values import override, replace

CONFIG_FIELDS: Final = tuple(
    field.name
    for field in dataclasses.fields(RunConfig)
    if field.name not in ("seed", "observation_space", "action_space")
)
CLUSTER_FIELDS: Final = tuple(field.name for field in dataclasses.fields(Settings))
DEFAULT_TRACKER: Final = "polyaxon"
"""The kind of a tracker that names none. Every run has exactly one tracker of this kind."""


class Named(Section):
    """Something found by name: its kind, and keyword arguments beside it."""

    model_config = ConfigDict(extra="allow")

    kind: str
    """A name that ``axonrl list`` lists, or ``package.module:name``."""

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return dict(self.model_extra or {})


class Environment(Section):
    """The environment: its Gymnasium id, the number of copies, its arguments and wrappers."""

    id: str
    """An id of Gymnasium, MinAtar or the Arcade Learning Environment; of your own class, ``package.module:Class``."""
    num_envs: Count = 1
    """Number of parallel copies."""
    vectorization: Literal["sync", "native", "envpool"] = "sync"
    """How copies are stepped: sync, one by one; native, as arrays (classic control); envpool, by threads of EnvPool."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """Keyword arguments of the environment."""
    wrappers: list[Named] = Field(default_factory=list)
    """Wrappers of each copy, innermost first."""


class WarmStart(Section):
    """Where the initial weights of a new run come from; the short form is the run alone."""

    run: str
    """A run folder, or a file that holds a policy."""
    variables: str = ".*"
    """A regular expression: the variables to take over, by their names."""
    policy: str = "last"
    """Of a run folder: last, or the name of a kept policy (best)."""


class AgentSection(Section):
    """The agent: its model function, with params, its memory, and where its weights start from."""

    model_fn: str
    """The model function: a name that ``axonrl list`` lists, or ``package.module:function``."""
    params: dict[str, Any] = Field(default_factory=dict)
    """The params of the model function."""
    memory: Named | None = None
    """The memory of transitions."""
    warm_start: WarmStart | None = None
    """The run from which initial weights are taken; default: they follow from the seed."""


class Learn(Section):
    """The arguments of ``Agent.learn``, which comes before ``Agent.train``: updates from stored episodes."""

    data: str
    """A file or a folder of episodes, below the folder where the run began: see ``axonrl record``."""
    max_steps: Count
    """Updates after which it ends."""


class Train(Section):
    """The arguments of ``Agent.train``: the schedule of updates, and the totals at which training ends."""

    first_update: Count | None = None
    """The timestep of the first update; default: 35, or when the memory can fill a batch."""
    update_frequency: Count | None = None
    """Timesteps from one update to the next; default: 10."""
    max_steps: Count | None = None
    """Updates after which training ends."""
    max_episodes: Count | None = None
    """Episodes after which training ends."""
    max_timesteps: Count | None = None
    """Timesteps, counted over all copies of the environment, after which training ends."""

    @property
    def schedule(self) -> dict[str, int]:
        """When updates are due, as far as the file says so: arguments of ``Agent.train``."""
        given = {"first_update": self.first_update, "update_frequency": self.update_frequency}
        return {name: value for name, value in given.items() if value is not None}


class Evaluate(Section):
    """The greedy episodes after training."""

    episodes: Count = 100
    """How many."""
    policy: Literal["best", "last"] = "last"
    """The best policy, kept by an evaluation hook (the default with such a hook), or the last one."""


class Tracker(Named):
    """A tracker, which shows the run while it trains: a server, for example. Its settings stand beside its kind.

    Tokens belong in environment variables, never in the file.
    """

    kind: str = DEFAULT_TRACKER
    """A name that ``axonrl list`` lists, or ``package.module:name``."""

    @property
    def kwargs(self) -> dict[str, Any]:
        """The settings; null stands for a default."""
        return {name: value for name, value in super().kwargs.items() if value is not None}


class ExperimentFile(Section):
    """A whole experiment file, with every ``${name}`` replaced."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=128)]
    """The name of the run and of its folder; default: the file's name. At most 128 characters."""
    description: str = ""
    """One sentence about the experiment, for ``axonrl list``."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """The seed of all randomness; default: drawn and recorded."""
    seeds: Seeds | None = None
    """Run it with many seeds: how many, beginning at ``seed`` or at 0; or a list of seeds."""
    params: dict[str, Param] = Field(default_factory=dict)
    """Named values: ``${name}`` stands for them elsewhere, and ``-P name=value`` changes them."""
    environment: Environment
    agent: AgentSection
    config: dict[str, Any] = Field(default_factory=dict)
    """The arguments of ``RunConfig`` except the seed."""
    learn: Learn | None = None
    """Learning from stored episodes; then nothing is trained in the environment without a section ``train``."""
    train: Train | None = Train()
    distributed: dict[str, Any] | None = None
    """The arguments of ``Cluster``: training by several processes or machines; default: by this process alone."""
    evaluate: Evaluate | None = Evaluate()
    hooks: list[Named] = Field(default_factory=list)
    """Hooks: names, or names with arguments."""
    tracker: list[Tracker] = Field(default_factory=list)
    """Trackers that show the run: a name, a mapping, or a list of these."""
    submit: Submit | None = None
    matrix: dict[str, Any] | None = None
    """A search: which declared params are varied, and how, as in Polyaxon's section of this name."""


CheckPart: TypeAlias = "Callable[[str, Any, Keys, Document, bool], object]"
"""Checks a section by its kind (environment, agent, memory, hook, wrapper, tracker); its keys and the document are for
errors. Where the last argument is False, a value in it is known to be wrong, and only names can be judged."""


def load(
    path: Path,
    params: Mapping[str, str] | None = None,
    sets: Mapping[str, str] | None = None,
    check_part: CheckPart | None = None,
) -> tuple[ExperimentFile, Document]:
    """Read and check an experiment file.

    Args:
        path: the file.
        params: ``-P``: names of declared params to their new values, as text.
        sets: ``--set``: dotted paths to new values, as YAML.
        check_part: called in an invalid file for what is valid in itself, so that its errors are shown too.

    Returns:
        The experiment, and the document with the line of each value, for errors found later.

    Raises:
        ExperimentError: the file or an option is invalid. What can be judged is, and told at once.
    """
    findings, given = Findings(), params or {}
    try:
        document = override(read_with_includes(path, findings), sets or {}, findings)
    except ExperimentError as error:
        findings.add(error)
        findings.raise_all()
        raise
    secrets.refuse(document, document.values, findings, given)
    if INCLUDE in document.values:
        message = "cannot be set on the command line; write a file that includes both"
        findings.add(document.error((INCLUDE,), message))
    declared = declared_params(document, given, findings)
    section = document.values.get("params")
    values = dict.fromkeys(section) if isinstance(section, dict) else {}
    values |= {name: param.default for name, param in declared.items()}
    raw: dict[str, Any] = {
        key: replace(value, (key,), values, document, findings)
        for key, value in document.values.items()
        if key not in ("params", INCLUDE)
    }
    raw["params"] = {name: param.model_dump() for name, param in declared.items()}
    raw.setdefault("name", path.stem)
    _expand(raw)
    secrets.refuse(document, raw, findings, {})
    _check_config(raw.get("config"), document, findings)
    _check_cluster(raw.get("distributed"), document, findings)
    trackers = _trackers(raw.get("tracker"), document, findings)
    with findings.collecting():
        experiment = validate(ExperimentFile, raw, (), document)
        experiment = experiment.model_copy(update={"tracker": trackers})
        if experiment.evaluate and experiment.evaluate.policy == "best" and not _keeps_best(experiment):
            message = "'best' needs an evaluation hook, which keeps the best policy; add one, or use 'last'"
            raise document.error(("evaluate", "policy"), message)
        if experiment.train is None and experiment.learn is None:
            message = "must be a mapping, got null, which is for experiments with a section 'learn' alone"
            raise document.error(("train",), message)
        if experiment.distributed is not None and experiment.environment.num_envs > 1:
            message = (
                f"is for one process, got {experiment.environment.num_envs}; with 'distributed' set envs_per_actor"
            )
            raise document.error(("environment", "num_envs"), message)
        if "seed" in (sets or {}) and isinstance(experiment.seeds, list):
            listed = seed_ranges(experiment.seeds)
            message = f"is where a number of seeds begins, and these are listed: {listed}; leave it out"
            raise document.error(("seed",), message)
    if findings and check_part is not None:
        for kind, section, at, values, arguments in _parts(raw):
            sound = not findings.within(document.error((*at, *arguments), "").key)
            with findings.collecting():
                check_part(kind, validate(section, values, at, document), at, document, sound)
    findings.raise_all()
    return experiment, document


def _parts(raw: Any) -> Iterator[tuple[str, type[Section], Keys, Any, Keys]]:
    """What a file names that may be invalid: kind, section, keys and values, and the keys of its arguments therein."""
    both: tuple[tuple[str, type[Section], tuple[str, str]], ...] = (
        ("environment", Environment, ("id", "kwargs")),
        ("agent", AgentSection, ("model_fn", "params")),
    )
    for kind, section, names in both:
        if functools.reduce(item, (kind, names[0]), raw) is not None:
            yield kind, section, (kind,), {name: raw[kind][name] for name in names if name in raw[kind]}, names[1:]
    if (memory := functools.reduce(item, ("agent", "memory"), raw)) is not None:
        yield "memory", Named, ("agent", "memory"), memory, ()
    lists: tuple[tuple[str, type[Section], Keys], ...] = (
        ("hook", Named, ("hooks",)),
        ("wrapper", Named, ("environment", "wrappers")),
        ("tracker", Tracker, ("tracker",)),
    )
    for kind, section, at in lists:
        given = functools.reduce(item, at, raw)
        for index, one in enumerate(given if isinstance(given, list) else ()):
            yield kind, section, (*at, index), one, ()


def _expand(raw: dict[str, Any]) -> None:
    """Expand the short forms of hooks, wrappers, trackers and memory; set the evaluated policy, and what is trained."""
    if raw.get("learn") is not None:
        raw.setdefault("train", None)
    hooks, agent, evaluate = raw.get("hooks", []), raw.get("agent"), raw.get("evaluate", {})
    if isinstance(hooks, list):
        hooks = raw["hooks"] = _by_kind(hooks)
    environment = raw.get("environment")
    if isinstance(environment, dict) and isinstance(environment.get("wrappers"), list):
        environment["wrappers"] = _by_kind(environment["wrappers"])
    if isinstance(agent, dict) and isinstance(agent.get("memory"), str):
        agent["memory"] = {"kind": agent["memory"]}
    if isinstance(agent, dict) and isinstance(agent.get("warm_start"), str):
        agent["warm_start"] = {"run": agent["warm_start"]}
    if "tracker" in raw:
        given = raw["tracker"]
        raw["tracker"] = _by_kind(given if isinstance(given, list) else [given])
    if isinstance(evaluate, dict) and isinstance(hooks, list):
        kept = any(isinstance(hook, dict) and _keeps(hook) for hook in hooks)
        raw["evaluate"] = {"policy": "best" if kept else "last", **evaluate}


def _by_kind(items: list[Any]) -> list[Any]:
    return [{"kind": item} if isinstance(item, str) else item for item in items]


def _keeps(hook: Mapping[str, Any]) -> bool:
    """Does the hook of that kind and with these arguments keep the policy ``best``?"""
    return (hook.get("kind"), hook.get("keep_best", True), hook.get("name", "best")) == ("evaluation", True, "best")


def _keeps_best(experiment: ExperimentFile) -> bool:
    """A user's hook may keep the best policy too."""
    own = registry.BUILT_IN["hook"]
    return any(_keeps(hook.model_dump()) or hook.kind not in own for hook in experiment.hooks)


def _check_config(config: Any, document: Document, findings: Findings) -> None:
    for name, value in config.items() if isinstance(config, dict) else ():
        with findings.collecting():
            _check_setting(name, value, document)


def _check_setting(name: str, value: Any, document: Document) -> None:
    at = ("config", name)
    if name == "seed":
        raise document.error(at, "the seed belongs to the top level of the file: seed: 1")
    if name not in CONFIG_FIELDS:
        raise document.error(at, "unknown key", name=name, choices=CONFIG_FIELDS)
    try:
        RunConfig(**{name: value})
    except (TypeError, ValueError) as error:
        raise document.error(at, str(error)) from None


def _check_cluster(given: Any, document: Document, findings: Findings) -> None:
    for name, value in given.items() if isinstance(given, dict) else ():
        with findings.collecting():
            if name not in CLUSTER_FIELDS:
                raise document.error(("distributed", name), "unknown key", name=name, choices=CLUSTER_FIELDS)
            _attempt_settings({name: value}, document)
    if isinstance(given, dict) and not findings.within("distributed"):
        with findings.collecting():
            _attempt_settings(given, document)


def _attempt_settings(values: Mapping[str, Any], document: Document) -> None:
    alone = {"actors": values["min_actors"]} if [*values] == ["min_actors"] else {}  # it is compared later
    try:
        Settings(**alone, **values)
    except ArgumentError as error:
        at = error.argument.removeprefix("Cluster.")
        raise document.error(("distributed", at), str(error)) from None


def _trackers(given: Any, document: Document, findings: Findings) -> list[Tracker]:
    """The trackers; the settings of built-in ones are checked and in their final form."""
    trackers: list[Tracker] = []
    for index, one in enumerate(given or ()):
        at = ("tracker", index)
        with findings.collecting():
            tracker = validate(Tracker, one, at, document)
            if tracker.kind == DEFAULT_TRACKER and any(other.kind == DEFAULT_TRACKER for other in trackers):
                raise document.error(at, f"duplicate tracker {tracker.kind!r}: a run has one of this kind")
            if (settings := tracker_settings(tracker.kind)) is not None:
                values = validate(settings, tracker.kwargs, at, document)
                tracker = Tracker(kind=tracker.kind, **values.model_dump(exclude_none=True))
            trackers.append(tracker)
    return trackers


def tracker_settings(kind: str) -> type[Section] | None:
    """The section of a built-in tracker's settings, which its class declares as ``settings``, if it does."""
    if kind not in registry.BUILT_IN["tracker"]:
        return None
    settings: type[Section] | None = getattr(registry.find("tracker", kind), "settings", None)
    return settings
