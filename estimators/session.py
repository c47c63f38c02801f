"""The monitored session: the loop of acting, storing and learning, and everything that watches it."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import numpy as np

from ..contracts import (
    Array,
    ArrayTree,
    BeginFacts,
    BrokenEnvironmentError,
    EndFacts,
    EpisodeFacts,
    EpisodeStats,
    EvaluationFacts,
    NonFiniteError,
    RunConfig,
    TimestepFacts,
    Timings,
    UpdateFacts,
)
from ..environments.batched import BatchedEnvironment, Step
from ..hooks.hook import Hooks
from .limits import Limits, Schedule
from .state import TrainingState

logger = logging.getLogger("axonrl")


class Owner(Protocol):
    """What the session asks of its Agent."""

    model_dir: Path
    config: RunConfig

    def _save(self) -> None: ...

    def _save_policy(self, name: str, info: Mapping[str, Any]) -> Path: ...

    def _evaluate_live(self, env: Any, episodes: int, seed: int | None) -> tuple[dict[str, float], list[float]]: ...


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the loop looks up at every timestep, worked out once."""

    record: tuple[str, ...]
    metrics: tuple[str, ...]
    action_shape: tuple[int, ...]
    noise: tuple[Any, ...]
    num_predict: int


class MonitoredSession:
    """Training under observation: counters, hooks, checkpoints, limits. Made by ``Agent.session`` and ``Agent.train``.

    Args:
        owner: the Agent.
        state: what the run's future follows from; changed in place.
        env: the environments.
        hooks: who watches.
        plan: what the traced model asks of the loop.
        resumed: whether the state came from a checkpoint.
    """

    def __init__(
        self, owner: Owner, state: TrainingState, env: BatchedEnvironment, hooks: Hooks, plan: Plan, resumed: bool
    ) -> None:
        self.env = env
        self.hooks = hooks
        self.timings = Timings()
        self.limits = Limits()
        self._owner = owner
        self._state = state
        self._plan = plan
        self._resumed = resumed
        self._stop_reason: str | None = None
        self._inside = False  # a timestep is under way: a checkpoint must wait for its end
        self._checkpoint_asked = False
        self._unsaved = False
        self._interrupted = False
        self._said_cannot_sample = False
        self._row: ArrayTree | None = None  # of a single environment: the very object that the memory stored last
        self._batch_action_shape = (env.num_envs, *plan.action_shape)

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
        return float(level(self.global_timestep)) if level is not None else float("nan")

    @property
    def stop_reason(self) -> str | None:
        """Why the run is about to stop, or None."""
        return self._stop_reason

    def weights(self) -> Mapping[str, Array]:
        """Every variable by name, copied: network, target network, optimizer."""
        return self._state.executor.get_weights()

    def request_stop(self, reason: str) -> None:
        """Stop after this timestep. The first reason given is kept."""
        if self._stop_reason is None:
            self._stop_reason = reason

    def save_checkpoint(self) -> None:
        """Write a checkpoint: at once between timesteps, from within an event at the end of the timestep."""
        if self._inside:
            self._checkpoint_asked = True
        else:
            self._save()

    def evaluate(self, env: Any = None, episodes: int = 10, seed: int | None = None) -> Mapping[str, float]:
        """Greedy episodes in an environment of their own; training is not disturbed."""
        results, returns = self._owner._evaluate_live(env, episodes, seed)
        if self.hooks.after_evaluation:
            facts = EvaluationFacts(results, tuple(returns))
            for call in self.hooks.after_evaluation:
                call(self, facts)
        return results

    def save_policy(self, name: str, info: Mapping[str, Any]) -> Path:
        """Write PREDICT's weights as ``<model_dir>/<name>.safetensors``, atomically, with ``info`` inside."""
        return self._owner._save_policy(name, info)

    # -- running ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def monitored(self, limits: Limits) -> Iterator[MonitoredSession]:
        """Hooks' ``begin``; then the caller's timesteps; then a checkpoint and every hook's ``end``."""
        self.limits = limits
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            with _interrupts_deferred(self._interrupt):
                facts = BeginFacts(self.env.num_envs, self._resumed, limits.given())
                for call in self.hooks.begin:
                    call(self, facts)
                yield self
                self._save_if_changed()
                if self._interrupted:
                    raise KeyboardInterrupt
        except KeyboardInterrupt as caught:
            error = caught
            if not self._inside:
                self._save_if_changed()
                logger.warning("interrupted at timestep %d; saved in %s", self.global_timestep, self.model_dir)
            raise
        except BaseException as caught:
            error = caught
            raise
        finally:
            reason = self._why(error)
            self.hooks.end(self, EndFacts(reason, error, time.perf_counter() - began))
            if error is None:
                self._save_if_changed()

    def run(self, schedule: Schedule) -> None:
        """Timesteps until a limit is reached or a hook asks to stop."""
        while self.reason_to_stop() is None:
            self.advance(schedule)

    def run_episode(self, schedule: Schedule) -> EpisodeStats | None:
        """Timesteps until an episode has finished; None if the session had to stop before."""
        finished: list[EpisodeStats] = []
        while not finished and self.reason_to_stop() is None:
            finished = self.advance(schedule)
        return finished[0] if finished else None

    def reason_to_stop(self) -> str | None:
        """Why no further timestep should be taken: a request or a limit; None if there is no reason."""
        if self._stop_reason is not None:
            return self._stop_reason
        counters = self._state.counters
        return self.limits.reached(counters.global_step, counters.global_episode, counters.global_timestep)

    def advance(self, schedule: Schedule) -> list[EpisodeStats]:
        """One timestep of every environment, the updates that are due, and the ends of episodes.

        Returns:
            The episodes that finished.
        """
        self._inside = self._unsaved = True
        self._begin_episodes()
        step = self._act(schedule)
        self._learn()
        finished = self._finish_episodes(step)
        self._inside = False
        if self._checkpoint_asked:
            self._save()
        if self._interrupted:
            raise KeyboardInterrupt
        return finished

    def _begin_episodes(self) -> None:
        episodes = self._state.episodes
        if episodes.running.all():
            return
        mask = ~episodes.running
        seeds = episodes.begin(mask)
        try:
            observation = self.env.reset(None if mask.all() else mask, seeds)
        except (BrokenEnvironmentError, NonFiniteError) as error:
            raise self._located(error) from error
        self._state.observation, self._row = observation, None
        self._state.reset_recurrent(mask)
        if hasattr(self._state.exploration, "reset"):
            self._state.exploration.reset(mask)
        for i in np.flatnonzero(mask).tolist() if self.hooks.before_episode else ():
            facts = EpisodeFacts(i, int(episodes.index[i]) - 1, seeds[i])
            for call in self.hooks.before_episode:
                call(self, facts)

    def _act(self, schedule: Schedule) -> Step:
        state, counters, timings = self._state, self._state.counters, self.timings
        observation, recurrent = state.observation, state.recurrent
        t0 = time.perf_counter()
        features = observation if recurrent is None else {"observation": observation, "state": recurrent}
        predictions, state.recurrent = state.executor.act(features)
        action, extras = state.exploration(predictions, counters.global_timestep, state.generators["exploration"])
        if action.shape != self._batch_action_shape:
            raise ValueError(f"the exploration chose actions of shape {action.shape}, not {self._batch_action_shape}")
        t1 = time.perf_counter()
        try:
            step = self.env.step(action)
        except (BrokenEnvironmentError, NonFiniteError) as error:
            raise self._located(error) from error
        t2 = time.perf_counter()

        transition = {
            "observation": observation,
            "action": action,
            "reward": step.reward,
            "terminated": step.terminated,
            "truncated": step.truncated,
            "next_observation": step.observation,
        }
        if recurrent is not None:
            transition["state"] = recurrent
        for name in self._plan.record:
            transition[name] = extras[name] if name in extras else predictions[name]
        self._store(transition, step)
        state.episodes.record(action, step.reward, step.acted)
        state.observation = step.observation

        before = counters.global_timestep
        counters.global_timestep += self.env.num_envs if step.acted is None else int(np.count_nonzero(step.acted))
        if state.memory.fills_and_empties:
            state.owed = int(state.memory.can_sample())
        else:
            state.owed += schedule.due(counters.global_timestep) - schedule.due(before)
        timings.acting += t1 - t0 + time.perf_counter() - t2
        timings.environment += t2 - t1
        if self.hooks.after_timestep:
            facts = TimestepFacts(observation, action, step.reward, step.terminated, step.truncated, step.observation)
            for call in self.hooks.after_timestep:
                call(self, facts)
        return step

    def _store(self, transition: dict[str, Any], step: Step) -> None:
        memory = self._state.memory
        if self.env.num_envs > 1:
            if step.acted is None:
                memory.extend(**transition)
            else:
                memory.extend(step.acted, **transition)
            return
        row = {key: _first(value) for key, value in transition.items()}
        if self._row is not None:  # the memory knows this object: it need not compare contents
            row["observation"] = self._row
        self._row = row["next_observation"]
        memory.step(**row)

    def _learn(self) -> None:
        state = self._state
        if not state.owed:
            return
        began = time.perf_counter()
        while state.owed and not (self.limits.steps is not None and self.global_step >= self.limits.steps):
            if not state.memory.can_sample():
                if not self._said_cannot_sample:
                    logger.warning("updates are due, but the memory cannot fill a batch yet; they are skipped")
                    self._said_cannot_sample = True
                state.owed = 0
                break
            self._update()
        self.timings.learning += time.perf_counter() - began

    def _update(self) -> None:
        state, counters = self._state, self._state.counters
        batch = state.memory.sample()
        draws = [request.draw(state.generators["noise"]) for request in self._plan.noise]
        numbers = {"global_step": counters.global_step, "global_timestep": counters.global_timestep}
        before = self._predict_weights() if counters.global_step == 0 else None
        result = state.executor.train(batch, numbers, draws)
        if before is not None:
            self._check_first_update(before)
        counters.global_step += 1
        state.owed -= 1
        if result.td_error is not None:
            state.memory.update_priorities(result.td_error)
        if state.memory.fills_and_empties:
            state.memory.clear()
        loss, *metrics = result.scalars.tolist()
        state.episodes.add_loss(loss)
        if self.hooks.after_update:
            facts = UpdateFacts(loss, dict(zip(self._plan.metrics, metrics, strict=True)))
            for call in self.hooks.after_update:
                call(self, facts)

    def _finish_episodes(self, step: Step) -> list[EpisodeStats]:
        ended = step.terminated | step.truncated
        if not ended.any():
            return []
        finished: list[EpisodeStats] = []
        counters, limit = self._state.counters, self.limits.episodes
        for i in np.flatnonzero(ended).tolist():
            stats = self._state.episodes.finish(i, bool(step.terminated[i]), bool(step.truncated[i]), self.exploration)
            if limit is not None and counters.global_episode >= limit:
                continue  # surplus: cut, not counted
            counters.global_episode += 1
            finished.append(stats)
            for call in self.hooks.after_episode:
                call(self, stats)
        return finished

    # -- keeping ------------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        self._inside, self._checkpoint_asked = True, False  # an interrupt waits for the end of the save
        self._state.hooks = self.hooks.state_dict()
        self._owner._save()
        self._inside = self._unsaved = False

    def _save_if_changed(self) -> None:
        if self._unsaved or not _same(self.hooks.state_dict(), self._state.hooks):
            self._save()

    def _interrupt(self) -> None:
        if not self._inside:
            raise KeyboardInterrupt
        self._interrupted = True

    def _why(self, error: BaseException | None) -> str:
        if error is not None:
            return f"{type(error).__name__}: {error}"
        return self.reason_to_stop() or "the session was closed"

    def _predict_weights(self) -> list[Array]:
        return list(self._state.executor.get_weights().values())[: self._plan.num_predict]

    def _check_first_update(self, before: list[Array]) -> None:
        after = self._predict_weights()
        if before and all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True)):
            raise ValueError(
                "the first update changed none of PREDICT's variables: what acts is not what learns. Was the target"
                " network built before the online one, or is the learning rate zero?"
            )

    def _located(self, error: BrokenEnvironmentError | NonFiniteError) -> BaseException:
        """The same error with seed, episode and timestep."""
        episodes = self._state.episodes
        i = getattr(error, "environment", None)
        rows = range(self.env.num_envs) if i is None else [i]
        where = "; ".join(
            f"environment {i}: seed {episodes.seeds[i]}, episode {int(episodes.index[i]) - 1},"
            f" timestep {int(episodes.lengths[i])} of it"
            for i in rows
        )
        message = f"{error} ({where}; global_timestep {self.global_timestep})"
        if isinstance(error, BrokenEnvironmentError):
            return BrokenEnvironmentError(message, i)
        return NonFiniteError(message)


def _same(a: Any, b: Any) -> bool:
    """Are these two states equal, arrays included?"""
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b)) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else bool(a == b)


def _first(value: Any) -> Any:
    return {k: v[0] for k, v in value.items()} if isinstance(value, dict) else value[0]


@contextlib.contextmanager
def _interrupts_deferred(note: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C waits for the end of the timestep, where the state is whole and can be saved; a second one does not.

    Only in the main thread and only in place of Python's own handler: whoever installed another keeps it.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(signum: int, frame: FrameType | None) -> None:
        note()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
