"""The monitored session: what hooks see of a run, when it stops, and when it is saved."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..contracts import Array, RunConfig
from ..environments.batched import BatchedEnvironment
from ..facts import BeginFacts, EndFacts, EpisodeStats, EvaluationFacts, Timings
from ..hooks.hook import Hooks
from .failures import FAILURES
from .interrupts import Interrupts
from .limits import Limits, Schedule
from .loop import Loop, Plan
from .state import TrainingState

logger = logging.getLogger("axonrl")


class Owner(Protocol):
    """What the session asks of its Agent."""

    model_dir: Path
    config: RunConfig

    def _save(self) -> None: ...

    def _save_policy(self, name: str, info: Mapping[str, Any]) -> Path: ...

    def _evaluation_environment(self, env: Any, episodes: int) -> BatchedEnvironment: ...

    def _prepare_eval(self) -> None: ...

    def _evaluate_live(
        self, env: Any, episodes: int, seed: int | None, eval_batches: int
    ) -> tuple[dict[str, float], list[float]]: ...

    def _video_environment(self, env: Any) -> Any: ...

    def _record_live(self, path: Path, env: Any) -> EpisodeStats: ...


class MonitoredSession:
    """Training under observation: counters, hooks, checkpoints, limits. Made by ``Agent.session`` and ``Agent.train``.

    Args:
        owner: the Agent.
        state: what the run's future follows from; changed in place.
        env: the environments.
        hooks: who watches.
        plan: what the traced model asks of the loop.
    """

    def __init__(self, owner: Owner, state: TrainingState, env: BatchedEnvironment, hooks: Hooks, plan: Plan) -> None:
        self.env = env
        self._owner = owner
        self._state = state
        self._hooks = hooks
        self._loop = Loop(state, env, plan, hooks, self)
        self._limits = Limits()
        self._interrupts = Interrupts()
        self._stop_reason: str | None = None
        self._failed = False
        self._checkpoint_asked = False
        self._unsaved = False

    # -- what hooks may use -------------------------------------------------------------------------------------------

    @property
    def global_step(self) -> int:
        """Updates run so far."""
        return self._state.counters.global_step

    @property
    def global_timestep(self) -> int:
        """Actions taken so far, one per environment per step."""
        return self._state.counters.global_timestep

    @property
    def global_episode(self) -> int:
        """Episodes finished so far."""
        return self._state.counters.global_episode

    @property
    def timings(self) -> Timings:
        """Where this session's time went."""
        return self._loop.timings

    @property
    def model_dir(self) -> Path:
        """The run's directory."""
        return self._owner.model_dir

    @property
    def config(self) -> RunConfig:
        """The run's configuration, with its seed and spaces."""
        return self._owner.config

    @property
    def exploration(self) -> float:
        """The behaviour policy's level now (epsilon, standard deviation); NaN if it has none."""
        level = getattr(self._state.exploration, "level", None)
        return float("nan") if level is None else float(level(self.global_timestep))

    @property
    def stop_reason(self) -> str | None:
        """Why the run is about to stop: a request, or a limit that is reached; None if it is not."""
        return self._stop_reason or self._limits.reached(self._state.counters)

    def weights(self) -> Mapping[str, Array]:
        """Every variable by name, copied: network, target network, optimizer."""
        return self._state.executor.get_weights()

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep. The first reason given is kept."""
        self._stop_reason = self._stop_reason or reason or "a hook asked for it"

    def save_checkpoint(self) -> None:
        """Write a checkpoint: at once between timesteps, from within an event at the end of the timestep.

        After an error there is nothing that could be saved: then a warning says that none is written.
        """
        if self._failed:
            logger.warning("no checkpoint is written: the run has failed")
        elif self._interrupts.held:
            self._checkpoint_asked = True
        else:
            self._interrupts.hold()
            try:
                self._save()
            finally:
                self._interrupts.release()

    def prepare_evaluation(self, env: Any = None, episodes: int = 10, eval_batches: int = 0) -> None:
        """Open the environments that ``evaluate`` will use, and trace EVAL, so that what is wrong shows at once."""
        self._owner._evaluation_environment(env, episodes)
        if eval_batches:
            self._owner._prepare_eval()

    def evaluate(
        self, env: Any = None, episodes: int = 10, seed: int | None = None, eval_batches: int = 0
    ) -> Mapping[str, float]:
        """Greedy episodes in an environment of their own, and EVAL on batches of the memory; disturbs nothing."""
        results, returns = self._owner._evaluate_live(env, episodes, seed, eval_batches)
        if self._hooks.after_evaluation:
            facts = EvaluationFacts(results, tuple(returns))
            for call in self._hooks.after_evaluation:
                call(self, facts)
        return results

    def prepare_video(self, env: Any = None) -> None:
        """Open the environment that ``record_video`` will use, so that what is wrong with it shows at once."""
        self._owner._video_environment(env)

    def record_video(self, path: Path, env: Any = None) -> EpisodeStats:
        """A greedy episode in an environment of its own, as an mp4; no evaluation, and training is not disturbed."""
        return self._owner._record_live(path, env)

    def save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        """Write PREDICT's weights as ``<model_dir>/<name>.safetensors``, atomically, with ``info`` inside."""
        return self._owner._save_policy(name, info)

    # -- running ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def monitored(self, limits: Limits) -> Iterator[None]:
        """Hooks' ``begin``; then the caller's timesteps; then a checkpoint and every hook's ``end``."""
        self._limits = limits
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            with self._interrupts:
                facts = BeginFacts(self.env.num_envs, self.global_timestep > 0, limits.given())
                for call in self._hooks.begin:
                    call(self, facts)
                yield
                self._refuse_torn()
                self._save_if_changed()
        except KeyboardInterrupt as caught:
            error = caught
            if self._interrupts.held:
                logger.warning("interrupted in the middle of a timestep: what came after the last checkpoint is lost")
            else:
                self._save_if_changed()
                logger.warning("interrupted at timestep %d; saved in %s", self.global_timestep, self.model_dir)
            raise
        except BaseException as caught:
            error = caught
            raise
        finally:
            self._failed = error is not None
            seconds, stopped = time.perf_counter() - began, self._stop_reason is not None
            try:
                self._hooks.end(self, EndFacts(self._reason(error), error, seconds, stopped))
            finally:
                if error is None:
                    self._save_if_changed()  # what hooks learned in their end, though that of another failed

    def run(self, schedule: Schedule) -> None:
        """Timesteps until a limit is reached or a hook asks to stop."""
        counters, reached = self._state.counters, self._limits.reached
        while self._stop_reason is None and reached(counters) is None:
            self._timestep(schedule)

    def run_episode(self, schedule: Schedule) -> EpisodeStats:
        """Timesteps until an episode has finished."""
        while not (finished := self._timestep(schedule)):
            pass
        return finished[0]

    def _timestep(self, schedule: Schedule) -> list[EpisodeStats]:
        """One timestep, for whose end Ctrl-C and checkpoints wait; returns the episodes that finished."""
        interrupts = self._interrupts
        if interrupts.held:
            self._refuse_torn()
        interrupts.hold()
        self._unsaved = True
        try:
            finished = self._loop.timestep(schedule, self._limits)
        except (KeyboardInterrupt, *FAILURES) as error:
            if self._loop.untouched and (interrupts.noted or isinstance(error, KeyboardInterrupt)):
                interrupts.held = interrupts.noted = False
                raise KeyboardInterrupt from error
            raise
        if self._checkpoint_asked:
            self._save()
        interrupts.release()
        return finished

    # -- keeping ------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._state.hooks = self._hooks.state_dict()
        self._owner._save()
        self._checkpoint_asked = self._unsaved = False

    def _save_if_changed(self) -> None:
        if self._unsaved or not _same(self._hooks.state_dict(), self._state.hooks):
            self.save_checkpoint()

    def _refuse_torn(self) -> None:
        if self._interrupts.held:
            raise ValueError("a timestep of this session has failed or is under way: it cannot go on; open another one")

    def _reason(self, error: BaseException | None) -> str:
        if error is not None:
            text = ""
            with contextlib.suppress(Exception):  # a user's error may fail to say what it is
                text = str(error)
            return f"{type(error).__name__}: {text}".removesuffix(": ")  # KeyboardInterrupt has no message
        return self.stop_reason or "the session was closed"


def _same(a: Any, b: Any) -> bool:
    """Are these two states equal, arrays included?"""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else bool(a == b)
