"""The loop of :class:`Runner.run`: which lane acts when, what is counted, and when it is over."""

from __future__ import annotations

import dataclasses
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ..spaces.errors import flag, integer, number, refuse
from .parallel_episode import ParallelEpisode, Phase

BEST: Final = "best-model"
"""The file name of the best agent."""


_LISTS: Final = ("rewards", "timesteps", "seconds", "agent_seconds", "env_seconds")
"""Values kept of each episode."""


class Record:
    """Results of a run so far."""

    episode_rewards: list[float]
    episode_timesteps: list[int]
    episode_seconds: list[float]
    episode_agent_seconds: list[float]
    episode_env_seconds: list[float]
    evaluation_rewards: list[float]
    evaluation_timesteps: list[int]
    evaluation_seconds: list[float]
    evaluation_agent_seconds: list[float]
    evaluation_env_seconds: list[float]

    def __init__(self) -> None:
        self.clear(separate=False)

    def clear(self, *, separate: bool) -> None:
        """Forget everything; ``separate``: evaluation has lists of its own."""
        self.timesteps = self.episodes = self.updates = 0
        for name in _LISTS:
            kept: list[float] = []
            setattr(self, f"episode_{name}", kept)
            setattr(self, f"evaluation_{name}", [] if separate else kept)

    def add(self, lane: ParallelEpisode) -> None:
        """Count an episode that has ended."""
        self.episodes += lane.counted
        values = lane.reward, lane.timestep, lane.seconds, lane.agent_seconds, lane.env_seconds
        for name, value in zip(_LISTS, values, strict=True):
            getattr(self, f"{'episode' if lane.counted else 'evaluation'}_{name}").append(value)


@dataclasses.dataclass
class Settings:
    """The arguments of ``Runner.run``, in its order, checked; limits that were not given are infinite.

    Raises:
        TensorforceError: an argument is invalid.
    """

    num_episodes: Any = None
    num_timesteps: Any = None
    num_updates: Any = None
    batch_agent_calls: bool = False
    sync_timesteps: bool = False
    sync_episodes: bool = False
    num_sleep_secs: float = 0.001
    callback: Any = None
    callback_episode_frequency: Any = None
    callback_timestep_frequency: Any = None
    use_tqdm: bool = True
    mean_horizon: int = 1
    evaluation: bool = False
    save_best_agent: str | None = None
    evaluation_callback: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        for name in ("num_episodes", "num_timesteps", "num_updates"):
            value = getattr(self, name)
            setattr(self, name, math.inf if value is None else integer(_place(name), value, at_least=1))
        for name in ("batch_agent_calls", "sync_timesteps", "sync_episodes", "use_tqdm", "evaluation"):
            flag(_place(name), getattr(self, name))
        number(_place("num_sleep_secs"), self.num_sleep_secs, at_least=0)
        self.mean_horizon = integer(_place("mean_horizon"), self.mean_horizon, at_least=1)
        self._check_callbacks()
        best, score = self.save_best_agent, self.evaluation_callback
        if best is not None and not isinstance(best, str | os.PathLike):
            refuse(_place("save_best_agent"), f"must be a path, got {best!r}", best)
        if score is not None and not callable(score):
            refuse(_place("evaluation_callback"), f"must be a function, got {score!r}", None)

    def _check_callbacks(self) -> None:
        given, by_timestep = self.callback, _place("callback_timestep_frequency")
        self.callback = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
        for one in self.callback:
            if not callable(one):
                refuse(_place("callback"), f"must be a function, or a list of functions; got {one!r}", one)
        if self.callback_timestep_frequency is None:
            every = 1 if self.callback_episode_frequency is None else self.callback_episode_frequency
            self.callback_episode_frequency = integer(_place("callback_episode_frequency"), every, at_least=1)
            return
        if self.callback_episode_frequency is not None:
            refuse(by_timestep, "and callback_episode_frequency exclude each other", self.callback_timestep_frequency)
        integer(by_timestep, self.callback_timestep_frequency, at_least=1)

    def call(self, runner: Record, parallel: int) -> bool:
        """Call back; False if one of the functions returned that."""
        answers = [function(runner, parallel) for function in self.callback]
        return not any(isinstance(answer, bool | np.bool_) and not answer for answer in answers)

    def score(self, runner: Record) -> Any:
        """Result of the callback for evaluations, else the mean of the last ones."""
        last = runner.evaluation_rewards[-self.mean_horizon :]
        return sum(last) / len(last) if self.evaluation_callback is None else self.evaluation_callback(runner)


def _place(argument: str) -> str:
    return f"Runner.run: {argument}"


class Loop:
    """One run.

    Args:
        agent: acts, observes, and is reset first and last.
        lanes: those that train first.
        settings: of the run.
        runner: the Runner, where it is counted; callbacks are called with it.
        show: draws the progress, after each timestep.
    """

    def __init__(
        self,
        agent: Any,
        lanes: Sequence[ParallelEpisode],
        settings: Settings,
        runner: Record,
        show: Callable[[], None],
    ) -> None:
        self._agent, self._lanes, self._show = agent, lanes, show
        self._settings, self._record = settings, runner
        self._counted = [lane for lane in lanes if lane.counted]
        self._best = -math.inf
        self._stopped = False
        self._limited = settings.num_timesteps < math.inf
        self._evaluated = [lane for lane in lanes if lane.evaluated]
        self._scored = self._evaluated or list(lanes)
        self._together = settings.batch_agent_calls or settings.sync_timesteps

    def run(self) -> None:
        """Run episodes until a limit is reached or a callback returns False."""
        self._agent.reset()
        self._start()
        while not self._is_over():
            ready = self._ready()
            if not ready:
                time.sleep(self._settings.num_sleep_secs)
            for lanes in [ready] if self._settings.batch_agent_calls else [[lane] for lane in ready]:
                if lanes and not self._stopped:
                    self._turn(lanes)
        for lane in self._lanes:
            if not lane.counted:
                self._finish(lane)
        if any(lane.phase is not Phase.IDLE and not lane.evaluated for lane in self._lanes):
            self._agent.reset()  # unfinished episodes are dropped

    def _finish(self, lane: ParallelEpisode) -> None:
        """Let an evaluation beside training come to its end: the agent learns nothing from it."""
        while lane.phase is not Phase.IDLE:
            if lane.phase is Phase.ACTING:
                self._act(lane)
            elif lane.receive():
                self._observe(lane)

    def _is_over(self) -> bool:
        return self._stopped or (self._left() <= 0 and all(lane.phase is Phase.IDLE for lane in self._counted))

    def _start(self) -> None:
        """Begin new episodes in idle lanes."""
        if self._stopped:
            return
        if self._settings.sync_episodes and any(lane.phase is not Phase.IDLE for lane in self._lanes):
            return
        for lane in self._lanes:
            if lane.phase is Phase.IDLE and (not lane.counted or self._owed() < self._left()):
                lane.start(self._agent.initial_internals(**self._independent(lane)) if lane.evaluated else None)

    def _owed(self) -> int:
        """How many lanes need another act before their episodes can end."""
        return sum(lane.owes for lane in self._counted)

    def _left(self) -> float:
        """Timesteps until the limit; never fewer than are owed."""
        left: float = self._settings.num_timesteps - self._record.timesteps
        return left

    def _ready(self) -> list[ParallelEpisode]:
        """Lanes whose environment has answered; all or none if they go together."""
        busy = [lane for lane in self._lanes if lane.phase is not Phase.IDLE]
        ready = [lane for lane in busy if lane.ready()]
        return [] if self._together and len(ready) < len(busy) else ready

    def _turn(self, ready: Sequence[ParallelEpisode]) -> None:
        """Lanes whose environment has answered observe, then act; in a batch with those that begin."""
        executed = [lane for lane in ready if lane.receive()]
        training = [lane for lane in executed if not lane.evaluated]
        near = self._record.updates + len(training) > self._settings.num_updates
        if len(training) > 1 and not near:
            self._observe_together(self._within_episodes(training))
            executed = [lane for lane in executed if lane.evaluated]
        for lane in executed:
            if not (self._stopped and lane.counted):
                self._cut_off(lane)
                self._observe(lane)
        if self._stopped:
            return
        self._start()
        lanes = self._lanes if self._settings.batch_agent_calls else ready
        for lane in lanes:  # of new episodes, if their first states are there already
            if lane.phase is Phase.STARTING and lane.ready():
                lane.receive()
        acting = [lane for lane in lanes if lane.phase is Phase.ACTING]
        training = [lane for lane in acting if not lane.evaluated]
        if len(training) > 1:
            began = time.perf_counter()
            states, indices = [lane.states for lane in training], [lane.index for lane in training]
            self._execute(training, self._agent.act(states=states, parallel=indices), began)
            acting = [lane for lane in acting if lane.evaluated]
        for lane in acting:
            self._act(lane)

    def _within_episodes(self, lanes: Sequence[ParallelEpisode]) -> list[ParallelEpisode]:
        """The lanes up to the one whose episode is the last of the run."""
        left, within = self._settings.num_episodes - self._record.episodes, []
        for lane in lanes:
            self._cut_off(lane)
            within.append(lane)
            # As if observed, for the lanes that follow: this one goes on or has ended.
            lane.observed()
            left -= lane.terminal != 0
            if left <= 0:
                break
        return within

    def _cut_off(self, lane: ParallelEpisode) -> None:
        """End the episode if all timesteps that are left are needed to end the others."""
        if lane.counted and lane.terminal == 0 and self._limited and self._left() <= self._owed():
            lane.terminal = 2

    def _act(self, lane: ParallelEpisode) -> None:
        began = time.perf_counter()
        if lane.evaluated:
            actions, lane.internals = self._agent.act(
                states=lane.states, internals=lane.internals, evaluation=True, **self._independent(lane)
            )
        else:
            actions = self._agent.act(states=lane.states, parallel=lane.index)
        self._execute([lane], [actions], began)

    def _independent(self, lane: ParallelEpisode) -> dict[str, int]:
        """The index that tells a lane's independent acts from those of other lanes, where several evaluate."""
        return {"parallel": self._evaluated.index(lane)} if len(self._evaluated) > 1 else {}

    def _execute(self, lanes: Sequence[ParallelEpisode], actions: Any, began: float) -> None:
        seconds = (time.perf_counter() - began) / len(lanes)
        for lane, chosen in zip(lanes, actions, strict=True):
            lane.agent_seconds += seconds
            self._record.timesteps += lane.counted
            lane.execute(chosen)

    def _observe(self, lane: ParallelEpisode) -> None:
        if not lane.evaluated:
            began = time.perf_counter()
            after = {"next_states": lane.states} if lane.terminal == 2 else {}
            reward, terminal = lane.last_reward, lane.terminal
            self._record.updates += int(
                self._agent.observe(reward=reward, terminal=terminal, parallel=lane.index, **after)
            )
            lane.agent_seconds += time.perf_counter() - began
        lane.observed()
        self._after(lane)

    def _observe_together(self, lanes: Sequence[ParallelEpisode]) -> None:
        began = time.perf_counter()
        terminals = [lane.terminal for lane in lanes]
        after = {"next_states": [lane.states if lane.terminal == 2 else None for lane in lanes]}
        self._record.updates += int(
            self._agent.observe(
                reward=[lane.last_reward for lane in lanes],
                terminal=terminals,
                parallel=[lane.index for lane in lanes],
                **(after if 2 in terminals else {}),
            )
        )
        seconds = (time.perf_counter() - began) / len(lanes)
        for lane in lanes:
            lane.agent_seconds += seconds
            self._after(lane)

    def _after(self, lane: ParallelEpisode) -> None:
        """Count a timestep that is over."""
        record, settings = self._record, self._settings
        if lane.terminal:
            record.add(lane)
            if lane in self._scored and settings.save_best_agent is not None:
                self._save_if_best(settings.save_best_agent)
            elif lane.evaluated and settings.evaluation_callback is not None:
                settings.score(record)
        if lane.counted:
            self._after_counted(lane)
        if lane.terminal:
            lane.clear()

    def _after_counted(self, lane: ParallelEpisode) -> None:
        record, settings = self._record, self._settings
        self._show()
        every = settings.callback_timestep_frequency
        due = every is not None and lane.timestep % every == 0
        if settings.callback_episode_frequency is not None and lane.terminal:
            due = record.episodes % settings.callback_episode_frequency == 0
        if due and not settings.call(record, lane.index):
            self._stopped = True
        if record.episodes >= settings.num_episodes or record.updates >= settings.num_updates:
            self._stopped = True

    def _save_if_best(self, directory: str) -> None:
        score = self._settings.score(self._record)
        try:
            number = float(score)
        except (TypeError, ValueError):
            refuse("Runner.run: evaluation_callback", f"must return a number, got {shortened(score)}", score)
        if number > self._best:
            self._best = number
            self._agent.save(directory=directory, filename=BEST, append=None)
