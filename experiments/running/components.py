"""The components that an experiment names: model function, memory, hooks and environment."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ...core import registry
from ...core.errors import ArgumentError
from ...core.protocols import Memory, ModelFn
from ...core.yaml_text import Keys, item
from ...hooks.progress import ProgressHook
from ...models.blocks.params import parameters_of
from ..config.files import Document
from ..config.schema import AgentSection, Environment, ExperimentFile, attempt
from ..config.sections import Named, Section, as_list, validate
from ..config.trackers import Tracker
from ..errors import Findings
from ..tracking.journal import RunGroup


@dataclasses.dataclass(frozen=True)
class Parts:
    """The objects that an experiment names; nothing has run yet."""

    model_fn: ModelFn | None
    memory: Memory
    hooks: tuple[Any, ...]
    compiled: Path | None = None
    """The compiled program that takes the place of the model function."""


@dataclasses.dataclass(frozen=True)
class Member:
    """One of many runs: the compiled program, if there is one, and the group that tracks them.

    Progress, learning curves and tracking are handled for all of them together.
    """

    compiled: Path | None
    group: RunGroup
    name: str
    """The name of the run in trackers."""


def build(experiment: ExperimentFile, document: Document, member: Member | None = None) -> Parts:
    """Create what the experiment names.

    With a compiled program, the model function is not looked up, as that may load TensorFlow.

    Raises:
        ExperimentError: a name is unknown, an argument is unknown, missing or invalid, or the data to learn from do not
            exist; all errors at once.
    """
    agent, findings, hooks = experiment.agent, Findings(), []
    compiled = None if member is None else member.compiled
    model_fn: ModelFn | None = None
    with findings.collecting():
        if compiled is None:
            model_fn = _find("model_fn", agent.model_fn, ("agent", "model_fn"), document)
            _check_params(model_fn, agent.params, document)
    with findings.collecting():
        if agent.memory is None:
            raise document.error(("agent", "memory"), "this key is required for training")
        memory = _make("memory", agent.memory, ("agent", "memory"), document)
        _check_spread(experiment, memory, document)
    with findings.collecting():
        if experiment.learn is not None and not Path(experiment.learn.data).exists():
            message = f"{experiment.learn.data} does not exist in {Path.cwd()}; `axonrl record` writes such files"
            raise document.error(("learn", "data"), message)
    for index, hook in enumerate(experiment.hooks):
        with findings.collecting():
            hooks.append(_make("hook", hook, ("hooks", index), document))
    # Trackers are only looked up: another process creates them.
    for index, tracker in enumerate(experiment.tracker):
        with findings.collecting():
            _factory("tracker", tracker, ("tracker", index), document)
    findings.raise_all()
    if member is not None:
        hooks = [hook for hook in hooks if not isinstance(hook, ProgressHook)]
    return Parts(model_fn, memory, tuple(hooks), compiled)


@contextlib.contextmanager
def opened(experiment: ExperimentFile, document: Document, member: Member | None = None) -> Iterator[tuple[Parts, Any]]:
    """Open the experiment's parts and environment; all errors at once.

    Errors about the memory that are raised within the context become errors of the document.
    """
    findings = Findings()
    with contextlib.ExitStack() as stack:
        with findings.collecting():
            parts = build(experiment, document, member)
        wanted = experiment.environment
        for index, wrapper in enumerate(wanted.wrappers):
            with findings.collecting():
                _check_wrapper(wrapper, ("environment", "wrappers", index), document)
        if findings:  # the id and its arguments can be checked without wrappers
            wanted = wanted.model_copy(update={"wrappers": [], "num_envs": 1})
        with findings.collecting():
            env = stack.enter_context(environment_of(wanted, wanted.num_envs, document))
        findings.raise_all()
        with _memory_by_key(experiment, document):
            yield parts, env


@contextlib.contextmanager
def _memory_by_key(experiment: ExperimentFile, document: Document) -> Iterator[None]:
    """Turn errors about an argument of the memory, raised when it is built, into errors with its key."""
    try:
        yield
    except ArgumentError as error:
        memory = experiment.agent.memory
        if memory is None or error.argument not in memory.kwargs or memory.kwargs[error.argument] != error.value:
            raise
        raise document.error(("agent", "memory", error.argument), str(error)) from error


def _check_spread(experiment: ExperimentFile, memory: Any, document: Document) -> None:
    """Refuse a memory that a cluster's actors cannot fill, as the training itself would."""
    if experiment.distributed is None:
        return
    from ...distributed.learner_memory import make_learner_memory
    from ...distributed.settings import Settings

    try:
        make_learner_memory(Settings(**experiment.distributed), memory)
    except ArgumentError as error:
        section, _, name = error.argument.rpartition(".")
        at: Keys = ("distributed", name) if section else ("agent", "memory")
        raise document.error(at, str(error)) from error


def check_parts(raw: Mapping[str, Any], document: Document, findings: Findings) -> None:
    """Check what an invalid file names, without TensorFlow, as :data:`axonrl.experiments.config.schema.CheckParts`."""
    for kind, section, at, values, arguments in _parts(raw):
        sound = not findings.has_within(document.error((*at, *arguments), "").key)
        with findings.collecting():
            check_part(kind, validate(section, values, at, document), at, document, sound)


def _parts(raw: Any) -> Iterator[tuple[str, type[Section], Keys, Any, Keys]]:
    """Parts of a possibly invalid file: kind, section, keys, values, and the keys of the arguments in them."""
    both: tuple[tuple[str, type[Section], tuple[str, ...]], ...] = (
        ("environment", Environment, ("id", "kwargs", "vectorization")),
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
        given = as_list(functools.reduce(item, at, raw))
        for index, one in enumerate(given if isinstance(given, list) else ()):
            yield kind, section, (*at, index), one, ()


def check_part(kind: str, part: Any, at: Keys, document: Document, sound: bool = True) -> None:
    """Check a section by its kind: environment, agent, memory, hook, wrapper or tracker.

    Args:
        kind: the kind of the section.
        part: the section.
        at: its keys, for errors.
        document: for the lines of errors.
        sound: False if a value in it is known to be wrong, so that only names can be checked.
    """
    match kind:
        case "environment":
            if sound:  # this may need the arguments
                with environment_of(part, 1, document):
                    pass
        case "agent" if part.model_fn in registry.BUILT_IN["model_fn"]:
            Findings(document.unknown_key_errors(_PARAMS, part.params, parameters_of(part.model_fn))).raise_all()
        case "agent":
            model_fn = _find("model_fn", part.model_fn, ("agent", "model_fn"), document)
            _check_params(model_fn, part.params, document, sound)
        case "wrapper":
            _check_wrapper(part, at, document)
        case "memory" | "hook" if sound:
            _make(kind, part, at, document)
        case _:
            _factory(kind, part, at, document)


def _check_wrapper(wrapper: Named, at: Keys, document: Document) -> None:
    """Check the name of a wrapper and the names of its arguments."""
    from ...environments.wrapping import WrapperError, Wrapping

    try:
        Wrapping([wrapper.model_dump()])
    except WrapperError as error:
        raise document.error((*at, *(() if error.key is None else (error.key,))), str(error)) from error


def recipe_for(wanted: Environment) -> Any:
    """The recipe from which a cluster's actors make the environment."""
    from ...distributed.environment_recipes import EnvironmentRecipe

    wrappers = [one.model_dump() for one in wanted.wrappers]
    return EnvironmentRecipe(wanted.id, wanted.kwargs, wrappers, wanted.vectorization)


@contextlib.contextmanager
def environment_of(wanted: Environment, copies: int, document: Document | None = None) -> Iterator[Any]:
    """Open copies of the environment; errors name the document's line, if there is a document."""
    from ...environments import WrapperError, make

    wrappers = [one.model_dump() for one in wanted.wrappers]
    kind = wanted.vectorization
    try:
        number = None if copies == 1 and kind == "sync" else copies
        env: Any = make(wanted.id, number, vectorization=kind, wrappers=wrappers, **wanted.kwargs)
    except (TypeError, ValueError) as error:
        if document is None:
            raise
        about = error.argument if isinstance(error, ArgumentError) else ""
        about_kwargs = isinstance(error, TypeError) or isinstance(error.__cause__, TypeError) or about == "kwargs"
        name = "pettingzoo" if ("environment", "pettingzoo") in document.places else "id"
        key = "kwargs" if about_kwargs and wanted.kwargs else name
        at: Keys = ("environment", about if about in ("num_envs", "vectorization", "wrappers") else key)
        if isinstance(error, WrapperError):
            at = ("environment", "wrappers", error.index, *(() if error.key is None else (error.key,)))
        raise document.error(at, str(error)) from error
    try:
        yield env
    finally:
        env.close()


def _find(kind: str, name: str, at: Keys, document: Document) -> Any:
    try:
        return registry.find(kind, name)
    except ValueError as error:
        raise document.error(at, str(error)) from error


def _make(kind: str, named: Named, at: Keys, document: Document) -> Any:
    """Make a memory or a hook from its name and keyword arguments."""
    return attempt(_factory(kind, named, at, document), at, named.kwargs, document)


def _factory(kind: str, named: Named, at: Keys, document: Document) -> Any:
    """Find the class or function of a memory, a hook or a tracker, and check the names of its arguments."""
    factory = _find(kind, named.kind, (*at, "kind"), document)
    signature = inspect.signature(factory).parameters.values()
    takes = {parameter.name: parameter for parameter in signature if parameter.kind in (_KEYWORD, _EITHER)}
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature)
    given = () if takes_any else named.kwargs
    unknown = document.unknown_key_errors(at, given, takes, f"{named.kind} has no such argument")
    findings, misspelt = Findings(unknown), [error.nearest for error in unknown]
    for name, parameter in takes.items():
        if parameter.default is inspect.Parameter.empty and name not in [*named.kwargs, *misspelt]:
            findings.add(document.error(at, f"{named.kind} requires the argument {name!r}"))
    findings.raise_all()
    return factory


_PARAMS: Final[Keys] = ("agent", "params")
_KEYWORD, _EITHER = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def _check_params(model_fn: ModelFn, params: Mapping[str, Any], document: Document, sound: bool = True) -> None:
    """Check params, or only their names, by the function's annotation, ``params: Mapping[str, Any] | DQNParams``."""
    try:
        annotation = typing.get_type_hints(model_fn).get("params")
    except Exception:  # a user's annotations may not resolve at run time
        return
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            known = [field.name for field in dataclasses.fields(kind)]
            if sound:
                attempt(kind, _PARAMS, params, document, known)
            else:
                Findings(document.unknown_key_errors(_PARAMS, params, known)).raise_all()
            return
