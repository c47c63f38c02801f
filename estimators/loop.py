"""The run loop: act, store, learn; hooks are told of each."""

from __future__ import annotations

import copy
import dataclasses
import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv

from ..contracts import Array, ArrayTree
from ..environments.batched import BatchedEnvironment, Step
from ..environments.single import Single, SingleStep
from ..facts import EpisodeFacts, EpisodeStats, Session, TimestepFacts, Timings, UpdateFacts
from ..hooks.hook import LOOK_SECS, Event, Hooks
from ..noise import Request
from .failures import FAILURES, EnvironmentFailure, located, refuse_unchanged
from .limits import Limits, Schedule
from .state import TrainingState

logger = logging.getLogger("axonrl")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the traced model asks of the loop: what to record, what its scalars mean, what noise to draw."""

    record: tuple[str, ...]
    metrics: tuple[str, ...]
    noise: tuple[Request, ...]
    acting_noise: tuple[Request, ...] = ()


class Loop:
    """One timestep after the other, of every environment together.

    Args:
        state: what the run's future follows from; changed in place.
        env: the environments.
        plan: what the traced model asks for.
        hooks: who is told.
        session: what they are handed.
    """

    def __init__(
        self, state: TrainingState, env: BatchedEnvironment, plan: Plan, hooks: Hooks, session: Session
    ) -> None:
        self.timings = Timings()
        self._state = state
        self._env = env
        self._plan = plan
        self._hooks = hooks
        self._session = session
        self._single = env if isinstance(env, Single) else None
        self._row: ArrayTree | None = None  # of a single environment: the very object that the memory was handed last
        self._look_at = 0.0  # when the hooks that go by the clock are called next
        self._nowhere = np.zeros(env.num_envs, np.bool_).tobytes()
        self._all_running = False  # as far as this loop knows
        self._said_cannot_sample = False
        # Ctrl-C reaches the environments' own processes too, in the middle of a timestep: this one is undone then.
        self._in_processes = isinstance(getattr(env.env, "unwrapped", None), AsyncVectorEnv)
        self.untouched = False
        """Is the state as it was before the timestep that failed?"""
        self._reset_exploration = getattr(state.exploration, "reset", None)

    def timestep(self, schedule: Schedule, limits: Limits) -> list[EpisodeStats]:
        """One action in every environment, the updates that are due, and the ends of episodes.

        Updates that a limit on steps left over from the last timestep come first, and by themselves: the next action
        is chosen with the weights that it would have been chosen with in one run.

        Returns:
            The episodes that finished.
        """
        if self._state.owed:
            self._learn(limits.steps)
            return []
        if not self._all_running:
            self._begin_episodes()
        if self._single is not None:
            one = self._act_single(self._single, schedule)
            self._learn(limits.steps)
            if not (one.terminated or one.truncated):
                return []
            return self._finish_episodes(one.batched(), limits.episodes)
        step = self._act(schedule)
        self._learn(limits.steps)
        # Bytes are compared many times as fast as operations on arrays of a few truth values take.
        if step.terminated.tobytes() == step.truncated.tobytes() == self._nowhere:
            return []
        return self._finish_episodes(step, limits.episodes)

    def _begin_episodes(self) -> None:
        state, episodes = self._state, self._state.episodes
        mask = ~episodes.running
        self._all_running = True
        if not mask.any():
            return
        began = time.perf_counter()
        seeds = episodes.begin(mask)
        try:
            state.observation = self._env.reset(None if mask.all() else mask, seeds)
        except FAILURES as error:
            raise self._located(error) from error
        self._row = None
        self._forget(mask)
        self.timings.environment += time.perf_counter() - began
        for i in np.flatnonzero(mask).tolist() if self._hooks.before_episode else ():
            facts = EpisodeFacts(i, int(episodes.index[i]) - 1, seeds[i])
            for call in self._hooks.before_episode:
                call(self._session, facts)

    def _act(self, schedule: Schedule) -> Step:
        """Choose the actions, take them, store what came of them, and count."""
        state, observation = self._state, self._state.observation
        t0 = time.perf_counter()
        before = _drawn_from(state) if self._in_processes else None
        action, recorded = self._choose()
        t1 = time.perf_counter()
        try:
            step = self._env.step(action)
        except (*FAILURES, KeyboardInterrupt) as error:
            if before is not None:
                _put_back(state, before)
                self.untouched = True
            if isinstance(error, KeyboardInterrupt):
                raise
            raise self._located(error) from error
        t2 = time.perf_counter()
        state.memory.extend(
            *(() if step.acted is None else (step.acted,)),
            observation=observation,
            action=action,
            reward=step.reward if step.normalized_reward is None else step.normalized_reward,
            terminated=step.terminated,
            truncated=step.truncated,
            next_observation=step.observation,
            **recorded,
        )
        state.observation = step.observation
        state.episodes.record(action, step.reward, step.acted)
        self._count(step.acted, schedule)
        if calls := self._account(t0, t1, t2):
            self._tell(calls, observation, action, step)
        return step

    def _act_single(self, env: Single, schedule: Schedule) -> SingleStep:
        """As :meth:`_act`, for one environment: numbers where that has arrays, which take most of the time."""
        state, observation = self._state, self._state.observation
        t0 = time.perf_counter()
        action, recorded = self._choose()
        t1 = time.perf_counter()
        try:
            step = env.step_single(action)
        except FAILURES as error:
            raise self._located(error) from error
        t2 = time.perf_counter()
        # The memory knows the row that it was handed last: it need not compare contents.
        row = first_row(observation) if self._row is None else self._row
        self._row = next_row = first_row(step.observation)
        state.memory.step(
            observation=row,
            action=action[0],
            reward=step.reward,
            terminated=step.terminated,
            truncated=step.truncated,
            next_observation=next_row,
            **(first_row(recorded) if recorded else recorded),
        )
        state.observation = step.observation
        state.episodes.record_single(action, step.reward)
        self._count(None, schedule)
        if calls := self._account(t0, t1, t2):
            self._tell(calls, observation, action, step.batched())
        return step

    def _account(self, t0: float, t1: float, t2: float) -> Sequence[Event]:
        """Note where the time of a timestep went, and tell who is to hear of the timestep."""
        t3 = time.perf_counter()
        timings = self.timings
        timings.acting += t1 - t0 + t3 - t2
        timings.environment += t2 - t1
        if t3 < self._look_at:
            return self._hooks.every_timestep
        self._look_at = t3 + LOOK_SECS
        return self._hooks.after_timestep

    def _tell(self, calls: Sequence[Event], observation: ArrayTree, action: Array, step: Step) -> None:
        facts = TimestepFacts(observation, action, step.reward, step.terminated, step.truncated, step.observation)
        for call in calls:
            call(self._session, facts)

    def _choose(self) -> tuple[Array, dict[str, Any]]:
        """The behaviour policy's actions [N, ...], and what is to be stored of how it came to them."""
        state, recurrent = self._state, self._state.recurrent
        features = state.observation if recurrent is None else {"observation": state.observation, "state": recurrent}
        predictions, state.recurrent = state.executor.act(features, self._acting_noise())
        timestep = state.counters.global_timestep
        action, extras = state.exploration(predictions, timestep, state.generators["exploration"])
        recorded: dict[str, Any] = {}
        for name in self._plan.record:
            recorded[name] = extras[name] if name in extras else predictions[name]
        if recurrent is not None:
            recorded["state"] = recurrent
        return action, recorded

    def _acting_noise(self) -> Sequence[Array]:
        """What PREDICT draws, from the exploration's generator and before the exploration does."""
        requests = self._plan.acting_noise
        return [request.draw(self._state.generators["exploration"]) for request in requests] if requests else ()

    def _count(self, acted: Array | None, schedule: Schedule) -> None:
        """Timesteps, and the updates that these make due."""
        state, counters = self._state, self._state.counters
        before = counters.global_timestep
        if acted is None:
            counters.global_timestep += self._env.num_envs
        else:
            counters.global_timestep += int(np.count_nonzero(acted))
            self._forget(~acted)  # these were reset: their episodes begin with the observations they have now
        if state.memory.fills_and_empties:
            state.owed = int(state.memory.can_sample())
        else:
            state.owed += schedule.due_between(before, counters.global_timestep)

    def _learn(self, limit: int | None) -> None:
        """The updates that are due, as far as a limit on steps allows; the rest stays owed."""
        state = self._state
        if not state.owed:
            return
        began = time.perf_counter()
        while state.owed and state.counters.global_step != limit:
            if state.memory.can_sample():
                self._update()
                state.owed -= 1
            else:
                self._skip_updates()
        self.timings.learning += time.perf_counter() - began

    def _update(self) -> None:
        state, counters = self._state, self._state.counters
        first = counters.global_step == 0
        before = state.executor.get_predict_weights() if first else {}
        batch, requests = state.memory.sample(), self._plan.noise
        draws = [request.draw(state.generators["noise"]) for request in requests] if requests else []
        numbers = {"global_step": counters.global_step, "global_timestep": counters.global_timestep}
        result = state.executor.train(batch, numbers, draws)
        if first:
            refuse_unchanged(before, state.executor.get_predict_weights())
        counters.global_step += 1
        if result.td_error is not None:
            state.memory.update_priorities(result.td_error)
        if state.memory.fills_and_empties:
            state.memory.clear()
        loss, *metrics = result.scalars.tolist()
        state.episodes.add_loss(loss)
        if self._hooks.after_update:
            facts = UpdateFacts(loss, dict(zip(self._plan.metrics, metrics)))  # noqa: B905 (strict takes half as long again)
            for call in self._hooks.after_update:
                call(self._session, facts)

    def _skip_updates(self) -> None:
        self._state.owed = 0
        if not self._said_cannot_sample:
            logger.warning("updates are due, but the memory cannot fill a batch yet; they are skipped")
            self._said_cannot_sample = True

    def _finish_episodes(self, step: Step, limit: int | None) -> list[EpisodeStats]:
        self._all_running = False
        counters, finished = self._state.counters, []
        for i in np.flatnonzero(step.terminated | step.truncated).tolist():
            terminated, truncated = bool(step.terminated[i]), bool(step.truncated[i])
            stats = self._state.episodes.finish(i, terminated, truncated, self._session.exploration)
            if counters.global_episode == limit:
                continue  # surplus: cut, not counted
            counters.global_episode += 1
            finished.append(stats)
            for call in self._hooks.after_episode:
                call(self._session, stats)
        return finished

    def _forget(self, mask: Array) -> None:
        """What is carried from timestep to timestep ends where episodes begin."""
        self._state.reset_recurrent(mask)
        if self._reset_exploration is not None:
            self._reset_exploration(mask)

    def _located(self, error: EnvironmentFailure) -> EnvironmentFailure:
        episodes = self._state.episodes
        when = f"global_timestep {self._state.counters.global_timestep}"
        return located(error, episodes.seeds, episodes.index - 1, episodes.lengths, when)


def _drawn_from(state: TrainingState) -> tuple[Any, ...]:
    """What choosing actions changes."""
    exploration = state.exploration
    carried = copy.deepcopy(exploration.state_dict()) if hasattr(exploration, "state_dict") else None
    return state.recurrent, carried, state.generators["exploration"].bit_generator.state


def _put_back(state: TrainingState, before: tuple[Any, ...]) -> None:
    state.recurrent, carried, state.generators["exploration"].bit_generator.state = before
    if carried is not None and hasattr(state.exploration, "load_state_dict"):
        state.exploration.load_state_dict(carried)


def first_row(values: Any) -> Any:
    """The values of the only environment, without a batch axis: of an array, or of dictionaries of them."""
    return {name: first_row(value) for name, value in values.items()} if isinstance(values, dict) else values[0]
