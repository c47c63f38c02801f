"""Running an experiment: its objects from their names, training, evaluation, and the report."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import logging
import re
import tempfile
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import registry
from ...contracts import Memory, ModelFn, RunConfig
from ...errors import ArgumentError, CheckpointError, NotCompilableError
from ...hooks.evaluation import EvaluationHook
from ...hooks.history import HistoryHook
from ...hooks.progress import ProgressHook
from ...runs.checkpoints import BEGINNING, CheckpointStore
from ...runs.learning_curve import learning_curve
from ...runs.starts import add_start
from ..errors import ExperimentError, Findings, RunFolderError
from ..language.files import Document, Keys
from ..language.schema import Environment, Evaluate, Experiment, Named
from ..tracking.journal import Group
from ..tracking.recording import Tracking, tracked
from . import folder as records
from .explain import early_ends, explanation
from .report import Result

logger = logging.getLogger("axonrl")


@dataclasses.dataclass(frozen=True)
class Parts:
    """The objects that an experiment names; nothing has run yet."""

    model_fn: ModelFn | None
    memory: Memory
    hooks: tuple[Any, ...]
    compiled: Path | None = None
    """Where the program is that takes the place of the model function."""


@dataclasses.dataclass(frozen=True)
class Member:
    """What one of many runs is given: the compiled program, where there is one, and what they are tracked as.

    What shows them together shows their progress, draws their learning curves and tells trackers how they go.
    """

    compiled: Path | None
    group: Group


def build(experiment: Experiment, document: Document, member: Member | None = None) -> Parts:
    """Create what the experiment names.

    Where there is a compiled program, the model function is not looked up: that may load TensorFlow.

    Raises:
        ExperimentError: a name is unknown, or an argument is unknown, missing or invalid; all errors at once.
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


def check(experiment: Experiment, document: Document, folder: Path) -> dict[str, Any]:
    """Check everything that a run checks before its first timestep, in a temporary folder.

    Args:
        experiment: what to check.
        document: where it came from, for errors that name a line.
        folder: the run folder that a run would have; it is not touched.

    Returns:
        What a run would do: see :func:`axonrl.experiments.running.explain.explanation`.

    Raises:
        ExperimentError: the file is invalid; with the line.
        ValueError, RuntimeError: from ``Agent.check``.
    """
    train = experiment.train
    with opened(experiment, document) as (parts, env), tempfile.TemporaryDirectory() as passing:
        agent = agent_of(experiment, parts, Path(passing))
        summary = agent.check(env, train.first_update, train.update_frequency, parts.hooks)
    return explanation(experiment, agent.memory, summary, folder)


def compile_experiment(experiment: Experiment, document: Document, directory: Path, seeds: Sequence[int]) -> Path:
    """Write an experiment's training program, with initial weights for some seeds.

    Args:
        experiment: what to compile.
        document: where it came from, for errors that name a line.
        directory: where to.
        seeds: of runs.

    Returns:
        The directory.

    Raises:
        ExperimentError: the file is invalid; with the line.
        ValueError, CheckpointError: from ``Agent.compile``; a hook of the experiment needs TensorFlow.
    """
    with opened(experiment, document) as (parts, env), tempfile.TemporaryDirectory() as passing:
        if any(isinstance(hook, EvaluationHook) and hook.runs_eval for hook in parts.hooks):
            raise NotCompilableError(
                f"{experiment.name} cannot be compiled: eval_batches of its evaluation hook need TensorFlow"
            )
        agent = agent_of(experiment.model_copy(update={"seed": seeds[0]}), parts, Path(passing))
        compiled: Path = agent.compile(directory, env, seeds=seeds)
    return compiled


def run(
    experiment: Experiment,
    document: Document,
    folder: Path,
    *,
    resume: bool = False,
    command: Sequence[str] = (),
    hooks: Sequence[Any] = (),
    stopped: Callable[[], str] = lambda: "",
    member: Member | None = None,
) -> Result:
    """Train, evaluate, and draw the learning curve in the run folder.

    Args:
        experiment: what to run.
        document: where it came from, for errors that name a line.
        folder: the run folder.
        resume: continue the existing run.
        command: the command line, for the record.
        hooks: further hooks, called before those of the experiment.
        stopped: asked after training for the reason, if it was stopped from outside. Then nothing is evaluated.
        member: of a run that is one of many.

    Returns:
        The results.

    Raises:
        ExperimentError: the experiment or the folder is not usable.
        ValueError, RuntimeError, ArithmeticError, OSError: from ``Agent.train``.
    """
    with opened(experiment, document, member) as (parts, env):
        with _only_writer(folder) if resume else contextlib.nullcontext():
            experiment = records.prepare(folder, experiment, resume=resume)
            add_start(folder, experiment.seed, command, Path(document.file))
        history = HistoryHook()
        try:
            with tracked(folder, experiment, None if member is None else member.group) as tracking:
                result = _run(experiment, parts, env, folder, history, [*tracking.hooks, *hooks], tracking, stopped)
                if not result.stopped and member is None:
                    draw(folder, experiment, result.evaluation)
                return result
        except BaseException as error:
            # Nothing was learned: the corrected run may start here, unless another process has started one meanwhile.
            learned = history.global_timestep > 0 or _holds_training(folder)
            if not (resume or learned or isinstance(error, CheckpointError)):
                records.discard(folder)
            raise


def _holds_training(folder: Path) -> bool:
    """Is there a checkpoint after the first timestep? True also where checkpoints cannot be read."""
    try:
        return (CheckpointStore(folder).newest() or 0) > BEGINNING
    except CheckpointError:
        return True


@contextlib.contextmanager
def _only_writer(folder: Path) -> Iterator[None]:
    """Refuse to resume a run that another process trains, before anything is written."""
    if not (folder / records.EXPERIMENT).is_file():
        yield  # prepare() refuses a missing run
        return
    with records.only_writer(folder, f"Run folder {folder} cannot be resumed now"):
        yield


def _run(
    experiment: Experiment,
    parts: Parts,
    env: Any,
    folder: Path,
    history: HistoryHook,
    hooks: Sequence[Any],
    tracking: Tracking,
    stopped: Callable[[], str],
) -> Result:
    """Train, evaluate and draw, in a prepared folder."""
    for end in early_ends(experiment, parts.memory):
        logger.warning("warning: %s", end)
    agent = agent_of(experiment, parts, folder)
    timesteps_before = agent.global_timestep
    agent.train(env, hooks=[history, *hooks, *parts.hooks], **experiment.train.model_dump())
    trained = agent.global_timestep - timesteps_before
    result = Result(
        name=experiment.name,
        folder=folder,
        episodes=agent.global_episode,
        timesteps=agent.global_timestep,
        updates=agent.global_step,
        seconds=history.seconds,
        timesteps_per_second=trained / history.seconds if history.seconds else 0.0,
    )
    result = dataclasses.replace(result, stopped=stopped() or tracking.stop_reason)
    tracking.stopped = bool(result.stopped)
    if not result.stopped and experiment.evaluate is not None:
        result = dataclasses.replace(result, evaluation=_evaluate(agent, experiment, experiment.evaluate))
    tracking.outputs(result.as_outputs())
    return result


def draw(folder: Path, experiment: Experiment, evaluation: Mapping[str, float] | None) -> None:
    """Draw the learning curve of a run that was evaluated so; errors as for ``learning_curve``."""
    learning_curve(folder, evaluation, "last" if experiment.evaluate is None else experiment.evaluate.policy)


def evaluate(folder: Path, episodes: int | None = None, policy: str | None = None) -> dict[str, float]:
    """Evaluate the agent in a run folder, in its experiment's environment.

    Args:
        folder: the run folder.
        episodes: how many; None for the experiment's number.
        policy: ``"best"`` or ``"last"``; None for the experiment's.

    Returns:
        The results of ``Agent.evaluate``.

    Raises:
        ExperimentError: the folder is not a run folder, or has no checkpoint.
        ValueError, RuntimeError, ArithmeticError, OSError: from ``Agent.evaluate``.
    """
    experiment, agent = trained(folder)
    given = {"episodes": episodes, "policy": policy}
    wanted = (experiment.evaluate or Evaluate()).model_copy(
        update={name: value for name, value in given.items() if value is not None}
    )
    return _evaluate(agent, experiment, wanted)


def trained(folder: Path) -> tuple[Experiment, Any]:
    """The experiment and the Agent of a run folder.

    Raises:
        ExperimentError: the folder is not a run folder, or has no checkpoint.
        ValueError, RuntimeError: from ``Agent``.
    """
    from ...estimators.agent import Agent

    experiment = records.read_experiment(folder)
    if CheckpointStore(folder).newest() is None:
        message = f"Run folder {folder} has no checkpoint. Continue the run with axonrl run --resume."
        raise RunFolderError(folder, message)
    return experiment, Agent(None, model_dir=folder)


def export(folder: Path, directory: Path, policy: str | None = None) -> Path:
    """Export the agent in a run folder.

    Args:
        folder: the run folder.
        directory: where to.
        policy: ``"best"`` or ``"last"``; None for the one that the experiment evaluates.

    Returns:
        The directory.

    Raises:
        ExperimentError: the folder has no checkpoint.
        ValueError, CheckpointError: from ``Agent.export``.
    """
    experiment, agent = trained(folder)
    exported: Path = agent.export(directory, policy=policy or (experiment.evaluate or Evaluate()).policy)
    return exported


def agent_of(experiment: Experiment, parts: Parts, folder: Path) -> Any:
    """The Agent of an experiment's run in this folder; errors as for ``Agent``."""
    from ...estimators.agent import Agent
    from ...estimators.warm_start import WarmStart

    config = RunConfig(seed=experiment.seed, **experiment.config)
    start = experiment.agent.warm_start
    warm = None if start is None else WarmStart(start.run, start.variables, start.policy)
    params = experiment.agent.params or None
    return Agent(parts.model_fn, parts.memory, folder, config, params, warm_start=warm, compiled=parts.compiled)


def _evaluate(agent: Any, experiment: Experiment, wanted: Evaluate) -> dict[str, float]:
    from ...estimators.evaluation import COPIES

    with _environment(experiment.environment, min(COPIES, wanted.episodes)) as env:
        results: dict[str, float] = agent.evaluate(env, episodes=wanted.episodes, policy=wanted.policy)
    return results


@contextlib.contextmanager
def opened(experiment: Experiment, document: Document, member: Member | None = None) -> Iterator[tuple[Parts, Any]]:
    """What the experiment names, and its environment; their errors at once."""
    findings = Findings()
    with contextlib.ExitStack() as stack:
        with findings.collecting():
            parts = build(experiment, document, member)
        wanted = experiment.environment
        for index, wrapper in enumerate(wanted.wrappers):
            with findings.collecting():
                _check_wrapper(wrapper, ("environment", "wrappers", index), document)
        if findings:  # the id and its arguments can be judged without wrappers
            wanted = wanted.model_copy(update={"wrappers": [], "num_envs": 1})
        with findings.collecting():
            env = stack.enter_context(_environment(wanted, wanted.num_envs, document))
        findings.raise_all()
        yield parts, env


def check_named(kind: str, named: Named, at: Keys, document: Document) -> None:
    """Check a memory, a hook or a wrapper, as :data:`axonrl.experiments.language.schema.CheckNamed` has it."""
    if kind == "wrapper":
        _check_wrapper(named, at, document)
    else:
        _make(kind, named, at, document)


def _check_wrapper(wrapper: Named, at: Keys, document: Document) -> None:
    """Check the name of a wrapper and those of its arguments."""
    from ...environments.wrapping import WrapperError, Wrapping

    try:
        Wrapping([wrapper.model_dump()])
    except WrapperError as error:
        raise document.error((*at, *(() if error.key is None else (error.key,))), str(error)) from error


@contextlib.contextmanager
def _environment(wanted: Environment, copies: int, document: Document | None = None) -> Iterator[Any]:
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
        key = "kwargs" if about_kwargs and wanted.kwargs else "id"
        at: Keys = ("environment", about if about in ("vectorization", "wrappers") else key)
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
    """An instance of a memory or a hook, from its name and keyword arguments."""
    return _attempt(_factory(kind, named, at, document), at, named.kwargs, document)


def _factory(kind: str, named: Named, at: Keys, document: Document) -> Any:
    """The class or function of a memory, a hook or a tracker, with the names of its arguments checked."""
    factory = _find(kind, named.kind, (*at, "kind"), document)
    signature = inspect.signature(factory).parameters.values()
    takes = {parameter.name: parameter for parameter in signature if parameter.kind in (_KEYWORD, _EITHER)}
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in signature)
    findings, misspelt = Findings(), []
    for name in named.kwargs:
        if name not in takes and not takes_any:
            error = document.error((*at, name), f"{named.kind} has no such argument", name=name, choices=takes)
            findings.add(error)
            misspelt.append(error.nearest)
    for name, parameter in takes.items():
        if parameter.default is inspect.Parameter.empty and name not in [*named.kwargs, *misspelt]:
            findings.add(document.error(at, f"{named.kind} requires the argument {name!r}"))
    findings.raise_all()
    return factory


_KEYWORD, _EITHER = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD


def _check_params(model_fn: ModelFn, params: Mapping[str, Any], document: Document) -> None:
    """Check params against the dataclass in the function's annotation, ``params: Mapping[str, Any] | DQNParams``."""
    at = ("agent", "params")
    try:
        annotation = typing.get_type_hints(model_fn).get("params")
    except Exception:  # a user's annotations may not resolve at run time
        return
    for kind in (annotation, *typing.get_args(annotation)):
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            known, findings = [field.name for field in dataclasses.fields(kind)], Findings()
            for name in params:
                if name not in known:
                    findings.add(document.error((*at, name), "unknown key", name=name, choices=known))
            with findings.collecting():
                _attempt(kind, at, {name: params[name] for name in params if name in known}, document)
            findings.raise_all()
            return


def _attempt(make: Callable[..., Any], at: Keys, arguments: Mapping[str, Any], document: Document) -> Any:
    """Call it; an error about an argument becomes one with the argument's line.

    After such an error the others are tried without that argument, so that all errors are found.
    """
    findings, left, made = Findings(), dict(arguments), None
    while True:
        try:
            made = make(**left)
            break
        except ExperimentError:
            raise
        except (TypeError, ValueError) as error:
            # "size", "RunConfig.seed" or "VideoHook(fps)"
            argument = re.findall(r"[A-Za-z_]\w*", error.argument)[-1] if isinstance(error, ArgumentError) else ""
            if argument not in left and findings:  # it may follow from the argument that is missing now
                break
            found = document.error((*at, argument) if argument in left else at, str(error))
            found.__cause__ = error
            findings.add(found)
            if argument not in left:
                break
            del left[argument]
    findings.raise_all()
    return made
