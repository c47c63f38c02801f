"""Running an experiment: checks, compilation, training and evaluation."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import CheckpointError, NotCompilableError
from ...core.protocols import RunConfig
from ...distributed import Cluster
from ...distributed.learner_memory import lanes_in
from ...estimators.experience_sources import training_spaces
from ...estimators.limits import Plan
from ...hooks.evaluation import EvaluationHook
from ...hooks.history import HistoryHook
from ...run_dir.checkpoints import BEGINNING, CheckpointStore
from ...run_dir.starts import add_start
from ..config.files import Document
from ..config.schema import ExperimentFile
from ..tracking.producer import Tracking, tracked
from . import folder as records
from .components import Member, Parts, opened, recipe_for
from .explain import early_ends, explanation
from .report import Result, draw, outputs_of
from .trained_agent import evaluate_agent

logger = logging.getLogger("axonrl")


def check(experiment: ExperimentFile, document: Document, folder: Path) -> dict[str, Any]:
    """Check everything that a run checks before its first timestep, in a temporary folder.

    Args:
        experiment: what to check.
        document: where it came from, for errors that name a line.
        folder: the run folder that a run would use; it is not touched.

    Returns:
        What a run would do: see :func:`axonrl.experiments.running.explain.explanation`.

    Raises:
        ExperimentError: the file is invalid; with the line.
        ValueError, RuntimeError: from ``Agent.check``.
    """
    learn, plan = experiment.learn, experiment.train or Plan()
    with opened(experiment, document) as (parts, env), tempfile.TemporaryDirectory() as passing:
        agent = agent_of(experiment, parts, Path(passing))
        given = {} if learn is None else {"data": learn.data}
        summary = agent.check(env, hooks=parts.hooks, **plan.schedule.non_defaults, **given)
    return explanation(experiment, agent.memory, summary, folder)


def compile_experiment(
    experiment: ExperimentFile, document: Document, directory: Path | None, seeds: Sequence[int]
) -> Path:
    """Write an experiment's training program, with initial weights for some seeds.

    Args:
        experiment: what to compile.
        document: where it came from, for errors that name a line.
        directory: the folder to write; None for the cache, where its runs look for it.
        seeds: seeds of runs.

    Returns:
        The directory.

    Raises:
        ExperimentError: the file is invalid; with the line.
        ValueError, CheckpointError: from ``Agent.compile``; a hook of the experiment needs TensorFlow.
    """
    with opened(experiment, document) as (parts, env), tempfile.TemporaryDirectory() as passing:
        if directory is not None and any(isinstance(hook, EvaluationHook) and hook.runs_eval for hook in parts.hooks):
            raise NotCompilableError(
                f"{experiment.name} cannot be compiled: eval_batches of its evaluation hook need TensorFlow"
            )
        agent = agent_of(experiment.model_copy(update={"seed": seeds[0]}), parts, Path(passing))
        where, lanes = env, 1
        if experiment.distributed is not None:
            single = training_spaces(env, 1)
            where = single.observation_space, single.action_space
            lanes = lanes_in(Cluster(**experiment.distributed), agent.memory)
        compiled: Path = agent.compile(directory, where, lanes=lanes, seeds=seeds)
    return compiled


def run(
    experiment: ExperimentFile,
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
        stopped: called after training; returns the reason if the run was stopped from outside. Then nothing is
            evaluated.
        member: for a run that is one of many.

    Returns:
        The results.

    Raises:
        ExperimentError: the experiment or the folder is not usable.
        ValueError, RuntimeError, ArithmeticError, OSError: from ``Agent.train``.
    """
    with opened(experiment, document, member) as (parts, env):
        there = resume and (folder / records.EXPERIMENT).is_file()  # prepare() refuses a missing run
        refusal = f"Run folder {folder} cannot be resumed now"
        with records.only_writer(folder, refusal) if there else contextlib.nullcontext():
            experiment = records.prepare(folder, experiment, resume=resume)
            add_start(folder, experiment.seed, command, Path(document.file), document.files[1:])
        history = HistoryHook()
        try:
            group, name = (None, "") if member is None else (member.group, member.name)
            with tracked(folder, experiment, group, name) as tracking:
                result = _run(experiment, parts, env, folder, history, [*tracking.hooks, *hooks], tracking, stopped)
                if not result.stopped and member is None:
                    draw(folder, experiment, result.evaluation)
                return result
        except BaseException as error:
            # Nothing was learned: a corrected run may start here, unless another process has started one meanwhile.
            learned = history.global_timestep > 0 or _holds_training(folder)
            if not (resume or learned or isinstance(error, CheckpointError)):
                records.discard(folder)
            raise


def _holds_training(folder: Path) -> bool:
    """Is there a checkpoint after the first timestep? Also True if checkpoints cannot be read."""
    try:
        return (CheckpointStore(folder).newest() or 0) > BEGINNING
    except CheckpointError:
        return True


def _run(
    experiment: ExperimentFile,
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
    timesteps_before, given = agent.global_timestep, [history, *hooks, *parts.hooks]
    if experiment.learn is not None:
        agent.learn(experiment.learn.data, env, max_steps=experiment.learn.max_steps, hooks=given)
    learned, history.seconds = history.seconds, 0.0
    if experiment.train is not None and not (stopped() or tracking.stop_reason):
        cluster = None if experiment.distributed is None else Cluster(**experiment.distributed)
        source = env if cluster is None else recipe_for(experiment.environment)
        schedule, goal = experiment.train.schedule, experiment.train.goal
        agent.train(source, **schedule.non_defaults, **vars(goal), hooks=given, cluster=cluster)
    trained = agent.global_timestep - timesteps_before
    result = Result(
        name=experiment.name,
        folder=folder,
        episodes=agent.global_episode,
        timesteps=agent.global_timestep,
        updates=agent.global_step,
        seconds=learned + history.seconds,
        timesteps_per_second=trained / history.seconds if history.seconds else 0.0,
    )
    result = dataclasses.replace(result, stopped=stopped() or tracking.stop_reason)
    tracking.stopped = bool(result.stopped)
    if not result.stopped and experiment.evaluate is not None:
        wanted = experiment.evaluate
        result = dataclasses.replace(
            result, evaluation=evaluate_agent(agent, experiment, wanted.episodes, wanted.policy, wanted.explore)
        )
    tracking.outputs(outputs_of(result))
    return result


def agent_of(experiment: ExperimentFile, parts: Parts, folder: Path) -> Any:
    """The Agent of an experiment's run in this folder; errors as for ``Agent``."""
    from ...estimators.agent import Agent
    from ...estimators.warm_start import WarmStart

    config = RunConfig(seed=experiment.seed, **experiment.config)
    start = experiment.agent.warm_start
    warm = None if start is None else WarmStart(start.run, start.variables, start.policy)
    params = experiment.agent.params or None
    return Agent(parts.model_fn, parts.memory, folder, config, params, warm_start=warm, compiled=parts.compiled)
