"""The monitored session: hooks' view of a run, stopping, and saving."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..core.protocols import Array
from ..core.trees import equal
from ..environments.batched import BatchedEnvironment
from ..environments.spaces import both_of
from ..hooks.events import BeginFacts, EndFacts, EpisodeStats
from ..hooks.hook import Hooks
from .failures import FAILURES, error_summary
from .interrupts import CLOSED, IDLE, RUNNING, SAVING, UNDONE, WAITING
from .limits import Goal, Limits
from .live_evaluation import LiveEvaluations
from .loop import Loop
from .run import Run
from .state import TrainingState
from .update_schedule import why_no_update

logger = logging.getLogger("axonrl")
_T = TypeVar("_T")


class MonitoredSession:
    """Training with counters, hooks, checkpoints and limits. Made by ``Agent.session`` and ``Agent.train``.

    Args:
        run: the run to save.
        state: everything the run's future depends on; changed in place.
        env: the environments; None if the caller owns the loop, or actors have them.
        hooks: the hooks.
        evaluations: evaluates and records videos for hooks.
        offline: updates only, without timesteps?
        cuts: do checkpoints cut episodes, because a caller runs them?
    """

    activity = "training"

    def __init__(
        self,
        run: Run,
        state: TrainingState,
        env: BatchedEnvironment | None,
        hooks: Hooks,
        evaluations: LiveEvaluations,
        *,
        offline: bool = False,
        cuts: bool = False,
    ) -> None:
        self.env = env
        self.loop = Loop(state, None if offline else env, hooks, self)
        self.timings, self.weights, self.num_envs = self.loop.timings, state.stepper.weights, state.stepper.lanes
        self.model_dir, self.config = run.model_dir, run.config
        self.spaces = both_of(run.config)
        """Observation and action space of one environment."""
        self._run = run
        self._state = state
        self._stepper = state.stepper
        self._hooks = hooks
        self._evaluations = evaluations
        self._offline = offline
        self._cuts = cuts
        self._interrupts = self.loop.interrupts
        self._stop_reason: str | None = None
        self._failed = False
        self._unsaved = False
        self.saves = 0
        """Checkpoints saved in this session."""
        self.cluster_exploration: float | None = None
        """Mean exploration level of a cluster's actors, if it differs from the model's."""
        self._kept: set[str] = set()  # names of policies kept by hooks

    # -- what hooks may use -------------------------------------------------------------------------------------------

    @property
    def global_step(self) -> int:
        """Updates run so far."""
        return self._stepper.counters.global_step

    @property
    def global_timestep(self) -> int:
        """Actions taken so far, one per environment per step."""
        return self._stepper.counters.global_timestep

    @property
    def global_episode(self) -> int:
        """Episodes finished so far."""
        return self._stepper.counters.global_episode

    @property
    def position(self) -> int:
        """``global_timestep``, plus updates without timesteps (``Agent.learn``): the horizontal axis of curves."""
        return self._state.position

    @property
    def exploration(self) -> float:
        """The behaviour policy's current level (epsilon, standard deviation); NaN if it has none."""
        return self._stepper.level() if self.cluster_exploration is None else self.cluster_exploration

    @property
    def stop_reason(self) -> str | None:
        """Why the run will stop, a request or a reached limit; None if it will not."""
        return self._stop_reason or self._stepper.limits.reached_limit(self._stepper.counters)

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep. The first reason is kept."""
        self._stop_reason = self._stop_reason or reason or "a hook asked for it"

    def set_difficulty(self, environment: int, level: Any) -> None:
        """Call ``env.unwrapped.set_difficulty(level)`` of one environment, before an episode begins there."""
        if self.env is None:
            raise ValueError("set_difficulty needs a training in an environment of this process")
        self.env.set_difficulty(environment, level)

    def save_checkpoint(self) -> None:
        """Write a checkpoint: at once between timesteps; within an event, at the end of the timestep.

        After an error there is nothing to save, and a warning is logged.
        """
        if self._failed:
            logger.warning("no checkpoint is saved: the run has failed")
        elif self._interrupts.phase == CLOSED:
            self._refuse_torn()
        elif self._interrupts.phase != IDLE:
            self._interrupts.phase = max(self._interrupts.phase, SAVING)
        else:
            self._interrupts.phase = RUNNING
            try:
                self._save()
            except Exception:  # after Ctrl-C, the session would save again
                self._interrupts.release()
                raise
            self._interrupts.release()

    def prepare_evaluation(self, env: Any = None, episodes: int = 10, eval_batches: int = 0) -> None:
        """Open the environments for ``evaluate``, and trace EVAL, so that errors show at once."""
        self._evaluations.prepare(env, episodes, eval_batches)

    def evaluate(
        self, env: Any = None, episodes: int = 10, seed: int | None = None, eval_batches: int = 0, explore: bool = False
    ) -> Mapping[str, float]:
        """Run episodes in separate environments, and EVAL on the memory, without influence on training."""
        facts = self._evaluations.evaluate(env, episodes, seed, eval_batches, explore)
        for call in self._hooks.after_evaluation:
            call(self, facts)
        self._keep_evaluated()
        return facts.results

    def _keep_evaluated(self) -> None:
        """Request a checkpoint of the evaluated policy; the remaining updates of this timestep wait for it."""
        if not self.config.save_checkpoints_at_evaluations or self._cuts or self._failed:
            return
        if self._interrupts.phase != IDLE:
            self._interrupts.phase = max(self._interrupts.phase, SAVING if self._offline else WAITING)
        elif self._unsaved:
            self.save_checkpoint()

    def prepare_video(self, env: Any = None) -> None:
        """Open the environment for ``record_video``, so that errors show at once."""
        self._evaluations.prepare_video(env)

    def record_video(self, path: Path, env: Any = None) -> EpisodeStats:
        """Record a greedy episode in a separate environment as an mp4, without influence on training."""
        facts = self._evaluations.record_video(path, env)
        for call in self._hooks.after_video:
            call(self, facts)
        return facts.stats

    def prepare_policy(self, name: str) -> None:
        """Reserve a policy's name for one hook; ``ValueError`` if another hook uses it."""
        if name in self._kept:
            raise ValueError(
                f"two EvaluationHooks keep a policy {name!r}: give one of them another name=, or keep_best=False"
            )
        self._kept.add(name)

    def save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        """Write the policy to ``<model_dir>/<name>.safetensors``, atomically, with ``info`` and the counters inside."""
        return self._run.policies.keep(self._state.snapshot(name), info)

    # -- running ------------------------------------------------------------------------------------------------------

    def limits_of(self, goal: Goal) -> Limits | None:
        """The totals at which the goal is reached; None, with a log message, if nothing is left to do.

        Even at a limit, updates may be pending from a run that was killed at an evaluation's checkpoint.
        """
        limits = goal.limits(self._stepper.counters)
        reason = limits.reached_limit(self._stepper.counters)
        if reason is None or (not self._offline and self._stepper.has_pending_updates(limits)):
            return limits
        logger.info("nothing to %s: %s", "learn" if self._offline else "train", reason)
        return None

    @contextlib.contextmanager
    def monitored(self, limits: Limits) -> Iterator[None]:
        """Call hooks' ``begin``, run the context, save a checkpoint, and call every hook's ``end``."""
        self._stepper.limits = limits
        self._run.record_limits(limits.of_the_run())
        self._warn_of_no_update(limits)
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            with self._interrupts:
                resumed = self.position > 0
                settings = self._run.settings(None if self.env is None else self.env.name)
                facts = BeginFacts(self.num_envs, resumed, limits.by_kind(), settings)
                for call in self._hooks.begin:
                    call(self, facts)
                yield
                self._refuse_torn()
                self._stepper.warn_unchanged()
                self._save_if_changed()
        except KeyboardInterrupt as caught:
            error = caught
            if self._interrupts.phase != IDLE:
                what = "interrupted in the middle of a timestep or a save: progress since the last checkpoint is lost"
            else:
                self._save_if_changed()
                what = f"interrupted at timestep {self.global_timestep}; saved in {self.model_dir}"
            logger.warning("%s. Continue with %s", what, limits.call("learn" if self._offline else "train"))
            raise
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._failed = error is not None
            seconds, stopped = time.perf_counter() - began, self._stop_reason is not None
            try:
                reason = error_summary(error) if error else self.stop_reason or "the session was closed"
                self._hooks.end(self, EndFacts(reason, error, seconds, stopped))
            finally:
                if error is None:
                    self._save_if_changed()  # includes state changed in a hook's `end`, even if another failed

    def _warn_of_no_update(self, limits: Limits) -> None:
        stepper = self._stepper
        if self.env is None or limits.timesteps is None or stepper.pending_updates:
            return
        end = -(-limits.timesteps // self.num_envs) * self.num_envs
        if (why := why_no_update(stepper.schedule, stepper.memory, stepper.counters.global_timestep, end)) is not None:
            logger.warning(why)

    def run(self) -> None:
        """Run timesteps, or offline updates, until a limit is reached or a hook stops the run."""
        timestep = self.loop.learn_offline if self._offline else self._timesteps()
        stepper, counters, limits = self._stepper, self._stepper.counters, self._stepper.limits
        while self._stop_reason is None and (
            limits.reached_limit(counters) is None or (not self._offline and stepper.has_pending_updates(limits))
        ):
            self.run_guarded(timestep)

    def reach(self, goal: Goal) -> None:
        """Run until the goal is reached, unless it already is."""
        if not goal.is_given:
            what = "learning" if self._offline else "training"
            logger.warning("no limit given: %s continues until Ctrl-C, or until a hook stops it", what)
        if (limits := self.limits_of(goal)) is not None:
            with self.monitored(limits):
                self.run()

    def check_episode(self) -> None:
        """Raise ``ValueError`` if :meth:`run_episode` cannot run in this session, or no longer."""
        if self.num_envs != 1:
            raise ValueError(f"run_episode is for one environment; this session has {self.num_envs}")
        if self.stop_reason is not None:
            raise ValueError(f"this session was asked to stop ({self.stop_reason}): check session.stop_reason")

    def run_episode(self) -> EpisodeStats:
        """Run timesteps until an episode has finished."""
        timestep = self._timesteps()
        finished: Sequence[EpisodeStats] = ()
        while not finished:
            finished = self.run_guarded(timestep)
        return finished[0]

    def _timesteps(self) -> Callable[[], Sequence[EpisodeStats]]:
        if self.env is None:
            raise ValueError("this session has no environment: its caller owns the loop")
        return self.loop.timestep

    def run_guarded(self, timestep: Callable[[], _T], learn: Callable[[], None] | None = None) -> _T:
        """Run a timestep, and defer Ctrl-C and checkpoints to its end; returns its result.

        ``learn`` runs the updates that had to wait for an evaluation's checkpoint; None for those of the loop.
        """
        interrupts = self._interrupts
        if interrupts.phase != IDLE:
            self._refuse_torn()
        interrupts.phase = RUNNING
        self._unsaved = True
        try:
            finished = timestep()
        except (KeyboardInterrupt, *FAILURES) as error:
            if interrupts.phase == UNDONE and (interrupts.noted or isinstance(error, KeyboardInterrupt)):
                interrupts.phase, interrupts.noted = IDLE, False
                raise KeyboardInterrupt from error
            raise
        while (asked := interrupts.phase) >= SAVING:
            self._save()
            interrupts.phase = RUNNING
            if asked == WAITING:  # the policy that was evaluated is saved
                self._unsaved = self._stepper.has_pending_updates(self._stepper.limits)
                (learn or self.loop.learn)()
        interrupts.phase = IDLE
        if interrupts.noted:
            interrupts.release()
        return finished

    # -- keeping ------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._state.hooks = self._hooks.state_dict()
        if self._cuts:
            self._state.cut()  # a caller's running episodes cannot be replayed
        self._run.save(self._state.content())
        self._unsaved = False
        self.saves += 1

    def _save_if_changed(self) -> None:
        if self._unsaved or not equal(self._hooks.state_dict(), self._state.hooks):
            self.save_checkpoint()

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Replace weights in training; the next checkpoint has them, at the latest that of the session's end."""
        self._stepper.set_weights(weights)
        self._unsaved = True

    def close(self) -> None:
        """Refuse further timesteps and checkpoints: another session may have continued the run."""
        self._interrupts.phase = CLOSED

    def _refuse_torn(self) -> None:
        if self._interrupts.phase == CLOSED:
            raise ValueError("this session is closed: open a new one to continue the run")
        if self._interrupts.phase != IDLE:
            raise ValueError("a timestep of this session failed or is in progress: open a new session")
