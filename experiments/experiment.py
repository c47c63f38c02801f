"""Experiment: a training with its evaluations, in Python."""

from __future__ import annotations

import csv
import dataclasses
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ..core.checks import count, did_you_mean, number, shortened
from ..core.errors import ArgumentError, CheckpointError
from ..estimators.limits import Goal, Turn, UpdateSchedule
from ..hooks.evaluation import EvaluationHook
from ..hooks.events import EndFacts, Session
from ..hooks.hook import Hooks
from ..run_dir.checkpoints import CheckpointStore
from ..run_dir.files import ends_with_a_line
from .exported_policies import ExportStrategy

EVALUATED: Final = "continuous_eval.csv"
"""File in a run folder: the checkpoints that :meth:`Experiment.continuous_eval` has evaluated."""
_COLUMNS: Final = (
    *("checkpoint", "timestep", "update", "episode_return_mean", "episode_return_std", "episode_return_min"),
    *("episode_return_max", "episode_length_mean", "episodes"),
)


@dataclasses.dataclass(frozen=True)
class Evaluated:
    """A checkpoint's evaluation.

    Args:
        checkpoint: its number.
        timestep: ``global_timestep`` of the policy.
        update: ``global_step`` of the policy.
        results: the results of ``Agent.evaluate``.
        exported: where export strategies put it.
    """

    checkpoint: int
    timestep: int
    update: int
    results: Mapping[str, float]
    exported: tuple[Path, ...] = ()


class Experiment:
    """Trains an Agent and evaluates it: at the end, periodically, or from another process.

    Example::

        experiment = Experiment(agent, "CartPole-v1", max_timesteps=50_000, eval_every=5_000)
        experiment.train_and_evaluate()

        # Meanwhile, in another process:
        for evaluated in Experiment(Agent.load("runs/cartpole"), "CartPole-v1").continuous_eval(timeout=600):
            print(evaluated.timestep, evaluated.results["episode_return_mean"])

    Args:
        agent: an Agent.
        env: the training environment, as for ``Agent.train``.
        eval_env: the environment for evaluations; None for ``env``, or for a copy of it during training.
        eval_every: timesteps between evaluations during training; None for none.
        eval_episodes: episodes of an evaluation.
        train_hooks: a hook of training, or several.
        eval_hooks: a hook, or several, of the evaluations by :meth:`evaluate` and :meth:`continuous_eval`.
        export_strategies: an object, or several, that decide after each of these evaluations whether to export the
            policy.
        **training: further arguments of ``Agent.train``: ``first_update``, ``update_frequency``, limits, ``cluster``.

    Raises:
        ArgumentError: an argument is invalid, or ``Agent.train`` has no argument of that name.
    """

    def __init__(
        self,
        agent: Any,
        env: Any,
        *,
        eval_env: Any = None,
        eval_every: int | None = None,
        eval_episodes: int = 10,
        train_hooks: Any = (),
        eval_hooks: Any = (),
        export_strategies: ExportStrategy | Sequence[ExportStrategy] = (),
        **training: Any,
    ) -> None:
        if isinstance(agent, type) or not all(callable(getattr(agent, name, None)) for name in ("train", "evaluate")):
            raise ArgumentError(f"agent must be an Agent, got {shortened(agent)}", "agent", agent)
        self.agent = agent
        self.env = env
        self.eval_env = env if eval_env is None else eval_env
        self._own_eval_env = eval_env
        self.eval_every = None if eval_every is None else count("eval_every", eval_every)
        self.eval_episodes = count("eval_episodes", eval_episodes)
        self.export_strategies = _strategies(export_strategies)
        self.training = training_of(training)
        self._train_hooks, self._eval_hooks = _hooks("train_hooks", train_hooks), _hooks("eval_hooks", eval_hooks)

    def extend_train_hooks(self, hooks: Any) -> None:
        """Add a hook, or several, to those of training."""
        self._train_hooks += _hooks("hooks", hooks)

    def extend_eval_hooks(self, hooks: Any) -> None:
        """Add a hook, or several, to those of evaluations."""
        self._eval_hooks += _hooks("hooks", hooks)

    def train(self, **limits: Any) -> Any:
        """Train.

        Args:
            **limits: arguments of ``Agent.train`` that replace the experiment's.

        Returns:
            The Agent; errors as for ``Agent.train``.
        """
        self._train(limits)
        return self.agent

    def _train(self, limits: Mapping[str, Any]) -> bool:
        """Train; returns whether a hook asked to stop, rather than a limit being reached."""
        ended = _Ended()
        hooks = [*self._train_hooks, ended]
        if self.eval_every is not None:
            hooks.append(EvaluationHook(self.eval_every, self.eval_episodes, env=self._own_eval_env))
        self.agent.train(self.env, hooks=hooks, **{**self.training, **training_of(limits)})
        return ended.stopped

    def evaluate(self, policy: str | int = "last") -> dict[str, float]:
        """Evaluate a policy, and export it where a strategy says so.

        Args:
            policy: ``"last"``, the name of a kept one (``"best"``), which is not exported since it was when it was
                kept, or a checkpoint's number.

        Returns:
            The results of ``Agent.evaluate``, which raises the same errors.
        """
        timestep = self.agent.global_timestep if policy == "last" else None
        if isinstance(policy, int) and policy in CheckpointStore(self.agent.model_dir).indices():
            timestep = _counters(self.agent.model_dir, policy)["global_timestep"]
        return dict(self._evaluate(policy, timestep)[0])  # raises for unknown numbers

    def train_and_evaluate(self) -> dict[str, float]:
        """Train to the limits, then evaluate the last policy; its results."""
        self.train()
        return self.evaluate()

    def continuous_train_and_eval(self, every: int) -> Iterator[dict[str, float]]:
        """Train and evaluate in turn, until a limit of the experiment is reached or a hook asks to stop.

        The training is identical to one without evaluations.

        Args:
            every: timesteps between evaluations; the last interval may be shorter.

        Yields:
            The results of each evaluation.

        Raises:
            ArgumentError: ``every`` is not an integer of at least 1, or the experiment has no limit.
        """
        every = count("every", every)
        limits = [name for name in self.training if name.startswith("max_") and self.training[name] is not None]
        if not limits:
            message = "continuous_train_and_eval needs a limit: max_timesteps, max_steps or max_episodes"
            raise ArgumentError(message, "max_timesteps")
        total, stopped = self.training.get("max_timesteps"), False
        while not stopped:
            before = self.agent.global_timestep
            target = before + every if total is None else min(before + every, total)
            if target > before:
                stopped = self._train({"max_timesteps": Turn(target, total)})
            if self.agent.global_timestep == before:
                return
            yield self.evaluate()

    def continuous_eval(
        self,
        *,
        timeout: float | None = None,
        poll: float = 5.0,
        until: Callable[[Evaluated], bool] | None = None,
    ) -> Iterator[Evaluated]:
        """Evaluate each new checkpoint of the Agent's run once, while another process trains it.

        The run folder records which checkpoints were evaluated, so that a later process continues from there.
        Checkpoints that the training removes before they are evaluated are skipped: ``keep_checkpoint_max`` says how
        many are kept.

        Args:
            timeout: end after this many seconds without a new checkpoint; None for never.
            poll: seconds between checks of the folder.
            until: end when this function of an evaluation returns true.

        Yields:
            Each evaluation, once it is recorded.

        Raises:
            ArgumentError: a number of seconds is negative.
            CheckpointError: the run folder cannot be written.
        """
        timeout = None if timeout is None else number("timeout", timeout, at_least=0)
        poll = number("poll", poll, at_least=0)
        folder = Path(self.agent.model_dir)
        seen, looked = _evaluated_checkpoints(folder), time.monotonic()
        while True:
            for checkpoint in (one for one in CheckpointStore(folder).indices() if one not in seen):
                seen.add(checkpoint)
                evaluated = self._evaluate_checkpoint(folder, checkpoint)
                if evaluated is None:
                    continue
                yield evaluated
                looked = time.monotonic()
                if until is not None and until(evaluated):
                    return
            if timeout is not None and time.monotonic() - looked >= timeout:
                return
            time.sleep(poll if timeout is None else min(poll, timeout))

    def _evaluate_checkpoint(self, folder: Path, checkpoint: int) -> Evaluated | None:
        """The evaluation of a checkpoint; None if the checkpoint has been removed meanwhile."""
        try:
            counters = _counters(folder, checkpoint)
            results, exported = self._evaluate(checkpoint, counters["global_timestep"])
        except (ArgumentError, CheckpointError):
            if checkpoint in CheckpointStore(folder).indices():
                raise
            return None
        found = Evaluated(checkpoint, counters["global_timestep"], counters["global_step"], results, exported)
        _note(folder, found)
        return found

    def _evaluate(self, policy: str | int, timestep: int | None) -> tuple[Mapping[str, float], tuple[Path, ...]]:
        watching = {"hooks": self._eval_hooks} if self._eval_hooks else {}
        results = self.agent.evaluate(self.eval_env, episodes=self.eval_episodes, policy=policy, **watching)
        strategies = [] if timestep is None else self.export_strategies
        exported = [one.export(self.agent, policy, timestep or 0, results) for one in strategies]
        return results, tuple(path for path in exported if path is not None)


def _strategies(given: Any) -> list[ExportStrategy]:
    """A strategy, or several; ``ArgumentError`` for objects without ``export``."""
    several = given if isinstance(given, Iterable) and not hasattr(given, "export") else [given]
    found: list[ExportStrategy] = list(several)
    for one in found:
        if isinstance(one, type) or not callable(getattr(one, "export", None)):
            message = (
                "export_strategies must be objects with a method export(agent, policy, timestep, results), such as"
                f" BestExport('exported/best'); got {shortened(one)}"
            )
            raise ArgumentError(message, "export_strategies", given)
    return found


def _hooks(argument: str, given: Any) -> list[Any]:
    """A hook or function, or several, as for ``Agent.train``; ``ArgumentError`` for anything else."""
    try:
        return list(Hooks(given))
    except ValueError as error:
        message = f"{argument} must be a hook, a function, or several of them; got {shortened(given)}: {error}"
        raise ArgumentError(message, argument, given) from error


def training_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for ``Agent.train``; ``ArgumentError`` for an unknown name, or a number that it would refuse."""
    schedule, goal = ([field.name for field in dataclasses.fields(kind)] for kind in (UpdateSchedule, Goal))
    names = [*schedule, *goal, "cluster"]
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names)
            message = f"Agent.train has no argument {name!r}{hint}; an Experiment passes on {', '.join(names)}"
            raise ArgumentError(message, name, given[name])
    for name in schedule:
        if name in given:
            count(name, given[name])
    Goal(**{name: given[name] for name in goal if name in given})
    return dict(given)


class _Ended:
    """Notes how a training ends."""

    def __init__(self) -> None:
        self.stopped = False

    def end(self, session: Session, facts: EndFacts) -> None:
        self.stopped = facts.stopped


def _counters(folder: Path, checkpoint: int) -> Mapping[str, int]:
    """The counters of a checkpoint; CheckpointError if it is missing."""
    found: Mapping[str, int] = CheckpointStore(folder).read(checkpoint)["counters"]
    return found


def _evaluated_checkpoints(folder: Path) -> set[int]:
    """The checkpoints that were evaluated before."""
    path = folder / EVALUATED
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return {int(row["checkpoint"]) for row in csv.DictReader(file) if row["episodes"]}
    except FileNotFoundError:
        return set()
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise CheckpointError(f"{path} is damaged ({error!r}): remove it to evaluate all checkpoints again") from error


def _note(folder: Path, evaluated: Evaluated) -> None:
    """Append a row and sync it to disk; a row cut short by a crash does not count."""
    path = folder / EVALUATED
    begins = not path.exists() or path.stat().st_size == 0
    try:
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _COLUMNS, extrasaction="ignore")
            if begins:
                writer.writeheader()
            elif not ends_with_a_line(path):
                file.write("\r\n")
            about = {"checkpoint": evaluated.checkpoint, "timestep": evaluated.timestep, "update": evaluated.update}
            writer.writerow({**evaluated.results, **about})
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise CheckpointError(f"{path}, which says what was evaluated, cannot be written: {error.strerror}") from error
