"""The loop of :class:`Runner.run`: the order of environments, the counters, and the end."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ....core.checks import shortened
from ..spaces.errors import flag, integer, number, refuse
from .lane import VALUES, Lane, Phase

BEST: Final = "best-model"
"""The file name of the best agent."""


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
        """Clear everything; ``separate``: evaluation gets its own lists."""
        self.timesteps = self.episodes = self.updates = 0
        for name in VALUES:
            kept: list[float] = []
            setattr(self, f"episode_{name}", kept)
            setattr(self, f"evaluation_{name}", [] if separate else kept)

    def add(self, lane: Lane) -> None:
        """Count a finished episode."""
        self.episodes += lane.counted
        for name, value in zip(VALUES, lane.values, strict=True):
            getattr(self, f"{'episode' if lane.counted else 'evaluation'}_{name}").append(value)


# -- settings ---------------------------------------------------------------------------------------------------------


def _limit(place: str, value: Any) -> float:
    return math.inf if value is None else integer(place, value, at_least=1)


def _functions(place: str, value: Any) -> list[Any]:
    functions = [] if value is None else list(value) if isinstance(value, list | tuple) else [value]
    for one in functions:
        if not callable(one):
            refuse(place, f"must be a function, or a list of functions; got {one!r}", one)
    return functions


def _path(place: str, value: Any) -> Any:
    if value is not None and not isinstance(value, str | os.PathLike):
        refuse(place, f"must be a path, got {value!r}", value)
    return value


def _function(place: str, value: Any) -> Any:
    if value is not None and not callable(value):
        refuse(place, f"must be a function, got {value!r}", None)
    return value


_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    **dict.fromkeys(("num_episodes", "num_timesteps", "num_updates"), _limit),
    **dict.fromkeys(("batch_agent_calls", "sync_timesteps", "sync_episodes", "use_tqdm", "evaluation"), flag),
    "num_sleep_secs": functools.partial(number, at_least=0),
    "callback": _functions,
    "callback_episode_frequency": _limit,
    "callback_timestep_frequency": _limit,
    "mean_horizon": functools.partial(integer, at_least=1),
    "save_best_agent": _path,
    "evaluation_callback": _function,
}


class Settings:
    """The checked arguments of ``Runner.run``; limits and frequencies not given are infinite.

    Raises:
        TensorforceError: an argument is invalid.
    """

    def __init__(self, **given: Any) -> None:
        episodes, timesteps = (given[f"callback_{unit}_frequency"] for unit in ("episode", "timestep"))
        if episodes is not None and timesteps is not None:
            where = "Runner.run: callback_timestep_frequency"
            refuse(where, "and callback_episode_frequency exclude each other", timesteps)
        if timesteps is None and episodes is None:
            given["callback_episode_frequency"] = 1
        for name, check in _CHECKS.items():
            setattr(self, name, check(f"Runner.run: {name}", given[name]))

    def __getattr__(self, name: str) -> Any:  # for the type checker: all are set
        raise AttributeError(name)

    def call(self, runner: Record, parallel: int) -> bool:
        """Call the callbacks; returns False if one of them did."""
        answers = [function(runner, parallel) for function in self.callback]
        return not any(isinstance(answer, bool | np.bool_) and not answer for answer in answers)

    def score(self, runner: Record) -> Any:
        """Result of ``evaluation_callback``; without one, or for None, the mean of the last evaluations."""
        last = runner.evaluation_rewards[-self.mean_horizon :]
        score = None if self.evaluation_callback is None else self.evaluation_callback(runner)
        return sum(last) / len(last) if score is None else score


# -- the run ----------------------------------------------------------------------------------------------------------


class Loop:
    """One run.

    Args:
        agent: the agent; it is reset at the beginning and the end.
        lanes: all lanes, those that train first.
        settings: settings of the run.
        runner: the Runner, which holds the counters; passed to callbacks.
        show: draws the progress, called after each timestep.
    """

    def __init__(
        self, agent: Any, lanes: Sequence[Lane], settings: Settings, runner: Record, show: Callable[[], None]
    ) -> None:
        self._agent, self._lanes, self._show = agent, lanes, show
        self._settings, self._record = settings, runner
        self._counted = [lane for lane in lanes if lane.counted]
        self._evaluated = [lane for lane in lanes if lane.evaluated]
        self._scored = self._evaluated or list(lanes)
        self._best, self._stopped = -math.inf, False

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
            while not lane.counted and lane.phase is not Phase.IDLE:  # is completed beside the others
                if lane.phase is Phase.ACTING:
                    self._act([lane])
                elif lane.receive():
                    self._observe([lane])
        if any(lane.phase is not Phase.IDLE and not lane.evaluated for lane in self._lanes):
            self._agent.reset()  # unfinished episodes are dropped

    def _is_over(self) -> bool:
        return self._stopped or (
            self._timesteps_left() <= 0 and all(lane.phase is Phase.IDLE for lane in self._counted)
        )

    def _start(self) -> None:
        """Begin new episodes in idle lanes."""
        waits = self._settings.sync_episodes and any(lane.phase is not Phase.IDLE for lane in self._lanes)
        for lane in [] if waits or self._stopped else self._lanes:
            if lane.phase is Phase.IDLE and (not lane.counted or self._lanes_owing() < self._timesteps_left()):
                lane.start(self._agent.initial_internals(**self._independent(lane)) if lane.evaluated else None)

    def _lanes_owing(self) -> int:
        """Number of episodes that need another act before they can end."""
        return sum(lane.owes for lane in self._counted)

    def _timesteps_left(self) -> float:
        """Timesteps until the limit; at least those that running episodes need."""
        left: float = self._settings.num_timesteps - self._record.timesteps
        return left

    def _ready(self) -> list[Lane]:
        """Lanes whose environment has answered; all or none if they are synchronised."""
        busy = [lane for lane in self._lanes if lane.phase is not Phase.IDLE]
        ready = [lane for lane in busy if lane.ready()]
        together = self._settings.batch_agent_calls or self._settings.sync_timesteps
        return [] if together and len(ready) < len(busy) else ready

    def _turn(self, ready: Sequence[Lane]) -> None:
        """Observe, then act, in lanes whose environment has answered; new episodes act in the same batch."""
        executed = [lane for lane in ready if lane.receive()]
        training = [lane for lane in executed if not lane.evaluated]
        if len(training) > 1 and self._record.updates + len(training) <= self._settings.num_updates:
            self._observe(self._within_episodes(training))
            executed = [lane for lane in executed if lane.evaluated]
        for lane in executed:
            if not (self._stopped and lane.counted):
                self._cut_off(lane)
                self._observe([lane])
        if self._stopped:
            return
        self._start()
        lanes = self._lanes if self._settings.batch_agent_calls else ready
        for lane in lanes:  # new episodes, if their first states have arrived
            if lane.phase is Phase.STARTING and lane.ready():
                lane.receive()
        acting = [lane for lane in lanes if lane.phase is Phase.ACTING]
        training = [lane for lane in acting if not lane.evaluated]
        for some in [training, *([lane] for lane in acting if lane.evaluated)]:
            if some:
                self._act(some)

    def _within_episodes(self, lanes: Sequence[Lane]) -> list[Lane]:
        """The lanes up to the one that ends the run's last episode."""
        left, within = self._settings.num_episodes - self._record.episodes, []
        for lane in lanes:
            self._cut_off(lane)
            within.append(lane)
            lane.observed()  # assumed for the following lanes: this episode continues or has ended
            left -= lane.terminal != 0
            if left <= 0:
                break
        return within

    def _cut_off(self, lane: Lane) -> None:
        """End the episode if all remaining timesteps are needed to end the other episodes."""
        if lane.counted and lane.terminal == 0 and self._timesteps_left() <= self._lanes_owing():
            lane.terminal = 2

    def _independent(self, lane: Lane) -> dict[str, int]:
        """The parallel index of a lane's independent acts, which separates lanes that evaluate."""
        return {"parallel": self._evaluated.index(lane)} if len(self._evaluated) > 1 else {}

    def _act(self, lanes: Sequence[Lane]) -> None:
        """Act in one lane, or in several training lanes."""
        began, lane = time.perf_counter(), lanes[0]
        if lane.evaluated:
            given = {"states": lane.states, "internals": lane.internals, "evaluation": True}
            actions, lane.internals = self._agent.act(**given, **self._independent(lane))
        elif len(lanes) == 1:
            actions = self._agent.act(states=lane.states, parallel=lane.index)
        else:
            actions = self._agent.act(states=[one.states for one in lanes], parallel=[one.index for one in lanes])
        seconds = (time.perf_counter() - began) / len(lanes)
        for one, chosen in zip(lanes, [actions] if len(lanes) == 1 else actions, strict=True):
            one.agent_seconds += seconds
            self._record.timesteps += one.counted
            one.execute(chosen)

    def _observe(self, lanes: Sequence[Lane]) -> None:
        """Observe in one lane, or in several training lanes, and count the completed timesteps."""
        if not lanes[0].evaluated:
            began = time.perf_counter()
            given: dict[str, list[Any]] = {
                "reward": [lane.last_reward for lane in lanes],
                "terminal": [lane.terminal for lane in lanes],
                "parallel": [lane.index for lane in lanes],
            }
            if 2 in given["terminal"]:
                given["next_states"] = [lane.states if lane.terminal == 2 else None for lane in lanes]
            one: dict[str, Any] = {name: values[0] for name, values in given.items()}
            self._record.updates += int(self._agent.observe(**(one if len(lanes) == 1 else given)))
            seconds = (time.perf_counter() - began) / len(lanes)
            for lane in lanes:
                lane.agent_seconds += seconds
        for lane in lanes:
            lane.observed()
            self._after(lane)

    def _after(self, lane: Lane) -> None:
        """Count a completed timestep."""
        record, settings = self._record, self._settings
        if lane.terminal:
            record.add(lane)
            if lane in self._scored and settings.save_best_agent is not None:
                self._save_if_best(settings.save_best_agent)
            elif lane.evaluated and settings.evaluation_callback is not None:
                settings.score(record)
        if lane.counted:
            self._show()
            due = lane.timestep % settings.callback_timestep_frequency == 0
            if lane.terminal:
                due = due or record.episodes % settings.callback_episode_frequency == 0
            is_last = record.episodes >= settings.num_episodes or record.updates >= settings.num_updates
            if (due and not settings.call(record, lane.index)) or is_last:
                self._stopped = True
        if lane.terminal:
            lane.clear()

    def _save_if_best(self, directory: str) -> None:
        score = self._settings.score(self._record)
        try:
            number = float(score)
        except (TypeError, ValueError):
            refuse("Runner.run: evaluation_callback", f"must return a number, got {shortened(score)}", score)
        if number > self._best:
            self._best = number
            self._agent.save(directory=directory, filename=BEST, append=None)
