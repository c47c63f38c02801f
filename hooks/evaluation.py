"""Evaluation during training, which keeps the best policy; optionally with EVAL on batches of the memory."""

from __future__ import annotations

import math
import sys
from typing import Any

from ..core.checks import count, flag, number
from ..core.errors import ArgumentError
from ..core.protocols import State
from .events import BeginFacts, EndFacts, TimestepFacts, TrainingSession, UpdateFacts
from .hook import Hook
from .measures import multiple_after

_LONGEST = 100


class EvaluationHook(Hook):
    """Evaluates the greedy policy periodically, by timesteps or updates, and keeps the best one.

    It evaluates at the first (vector) step that reaches a multiple of ``every_timesteps``, or after each update whose
    number is a multiple of ``every_steps``, and once more at the end of a run that reached its limit. A run that was
    asked to stop ends at once, unless it has no best policy yet. The best policy has the highest mean return; on a tie
    the latest wins, as it has trained longest. It is saved as ``<model_dir>/<name>.safetensors``; its mean return is
    part of every checkpoint.

    With ``eval_batches``, the model_fn's EVAL also runs on that many batches of the training memory. Its means are
    added to the results: ``eval_loss``, and ``eval/<name>`` for each of the ``eval_metric_ops``. Batches are drawn with
    a separate generator, so that training is unaffected. If the memory cannot be sampled at that time, EVAL is skipped,
    with one warning; a BatchMemory can be sampled when it is full, at multiples of its size.

    With ``explore`` the behaviour policy acts instead of the greedy one, and the best policy is chosen accordingly: for
    partially observed tasks, where greedy policies may fail.

    Evaluations do not go through ``Agent.evaluate``: an Agent whose class overrides that method is refused.

    Args:
        every_timesteps: timesteps between evaluations; None if ``every_steps`` is given.
        episodes: episodes per evaluation.
        every_steps: updates between evaluations, instead of ``every_timesteps``; for ``Agent.learn``.
        env: an environment or id to evaluate in; None for a copy of the training environment.
        keep_best: whether to write the best policy.
        name: name of the best policy.
        stop_at: stop the run when an evaluation's mean return reaches this; None for never.
        eval_batches: batches for EVAL; None to skip EVAL.
        explore: whether the behaviour policy acts, at its current timestep, with separate random draws.

    Raises:
        ArgumentError: an argument is out of range.
    """

    def __init__(
        self,
        every_timesteps: int | None = None,
        episodes: int = 10,
        *,
        every_steps: int | None = None,
        env: Any = None,
        keep_best: bool = True,
        name: str = "best",
        stop_at: float | None = None,
        eval_batches: int | None = None,
        explore: bool = False,
    ) -> None:
        if (every_timesteps is None) == (every_steps is None):
            raise ArgumentError(
                f"EvaluationHook needs either every_timesteps or every_steps; got {every_timesteps!r} and"
                f" {every_steps!r}",
                "EvaluationHook(every_timesteps)",
                every_timesteps,
            )
        self._every = None if every_timesteps is None else count("EvaluationHook(every_timesteps)", every_timesteps)
        self._every_steps = None if every_steps is None else count("EvaluationHook(every_steps)", every_steps)
        self._asked: dict[str, Any] = {"episodes": count("EvaluationHook(episodes)", episodes)}
        if eval_batches is not None:
            self._asked["eval_batches"] = count("EvaluationHook(eval_batches)", eval_batches)
        self._acting = {"explore": True} if flag("EvaluationHook(explore)", explore) else {}
        self._env = env
        self._keep_best = flag("EvaluationHook(keep_best)", keep_best)
        if not (isinstance(name, str) and name and not set(name) & set("/\\:\0")):
            message = f"EvaluationHook(name) must be a plain file name, got {name!r}"
            raise ArgumentError(message, "EvaluationHook(name)", name)
        if name in ("last", ".", "..") or len(name) > _LONGEST:
            message = f"EvaluationHook(name) must not be 'last', only dots, or longer than {_LONGEST}; got {name!r}"
            raise ArgumentError(message, "EvaluationHook(name)", name)
        self._name = name
        self._stop_at = None if stop_at is None else number("EvaluationHook(stop_at)", stop_at)
        self._next = sys.maxsize
        self._best: float | None = None
        self._evaluated_at: int | None = None

    @property
    def runs_eval(self) -> bool:
        """Whether it runs the model_fn's EVAL, which needs TensorFlow."""
        return "eval_batches" in self._asked

    @property
    def best(self) -> float | None:
        """The highest mean return so far; None before the first evaluation."""
        return self._best

    def prepare(self, session: TrainingSession) -> None:
        """Check the environment and EVAL, and that no other hook keeps a policy of this name."""
        session.prepare_evaluation(self._env, **self._asked)
        if self._keep_best:
            session.prepare_policy(self._name)

    def begin(self, session: TrainingSession, facts: BeginFacts) -> None:
        """Find the next multiple."""
        if self._every is not None:
            self._next = multiple_after(session.global_timestep, self._every)
        if self._keep_best and not (session.model_dir / f"{self._name}.safetensors").exists():
            self._best = self._evaluated_at = None  # no kept policy to compare with

    def after_timestep(self, session: TrainingSession, facts: TimestepFacts) -> None:
        """Evaluate if a multiple of ``every_timesteps`` is reached."""
        if self._every is None or session.global_timestep < self._next:
            return
        self._next = multiple_after(session.global_timestep, self._every)
        self._evaluate_and_stop(session)

    def after_update(self, session: TrainingSession, facts: UpdateFacts) -> None:
        """Evaluate if this is a multiple of ``every_steps``."""
        if self._every_steps is not None and session.global_step % self._every_steps == 0:
            self._evaluate_and_stop(session)

    def end(self, session: TrainingSession, facts: EndFacts) -> None:
        """Evaluate at the end of a run, unless it failed, was asked to stop, or was evaluated at this timestep.

        Updates of that timestep come after its evaluation, but do not cause another one; updates without timesteps do.
        """
        stopped = facts.stopped and self._best is not None
        if facts.error is None and not stopped and self._evaluated_at != session.position:
            self._evaluate(session)

    def _evaluate_and_stop(self, session: TrainingSession) -> None:
        mean = self._evaluate(session)
        if self._stop_at is not None and mean >= self._stop_at:
            session.request_stop(f"the evaluation's mean return, {mean:.6g}, reached {self._stop_at:g}")

    def _evaluate(self, session: TrainingSession) -> float:
        results = session.evaluate(self._env, **self._asked, **self._acting)
        self._evaluated_at = session.position
        mean = float(results["episode_return_mean"])
        if mean >= (-math.inf if self._best is None else self._best):
            self._best = mean
            if self._keep_best:
                session.save_policy(self._name, results)
        return mean

    def state_dict(self) -> State:
        """The best mean return, its policy's name, and the position of the last evaluation."""
        return {"name": self._name, "best": self._best, "evaluated_at": self._evaluated_at}

    def load_state_dict(self, state: State) -> None:
        """Restore the best mean return, if it belongs to a policy of this name."""
        mine = state["name"] == self._name
        self._best = state["best"] if mine else None
        self._evaluated_at = state["evaluated_at"] if mine else None
