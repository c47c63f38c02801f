"""Measurements shared by hooks: named numbers of a run, rates, shares of time, means over recent episodes."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ..core.protocols import State
from .events import EpisodeStats, EvaluationFacts, Session, UpdateFacts

Clock: TypeAlias = "Callable[[], float]"
"""Monotonic seconds; only differences count."""
WINDOW = 100
"""Number of recent episodes for mean, minimum and maximum."""
TIMESTEPS_PER_UPDATE = 10
"""Default of ``Agent.train``. If an update takes many timesteps, training values are also due by timesteps."""
ROLLOUT: Final = ("return", "length", "return_mean", "return_min", "return_max", "length_mean", "exploration_rate")
"""Names of the group ``rollout`` of :class:`Scalars`."""


@dataclasses.dataclass(frozen=True)
class Rates:
    """Rates per second, and the share (0 to 1) of time in each part of the loop; NaN if no time passed."""

    timesteps_per_sec: float
    steps_per_sec: float
    episodes_per_sec: float
    environment_share: float
    acting_share: float
    learning_share: float


class Meter:
    """Measures :class:`Rates` between readings."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._last: tuple[float, ...] = ()

    def start(self, session: Session) -> None:
        """Start measuring."""
        self._last = self._snapshot(session)

    def read(self, session: Session) -> Rates:
        """The rates since the previous reading, or since ``start``."""
        now = self._snapshot(session)
        seconds, *amounts = (after - before for before, after in zip(self._last, now, strict=True))
        self._last = now
        return Rates(*(amount / seconds if seconds > 0 else math.nan for amount in amounts))

    def _snapshot(self, session: Session) -> tuple[float, ...]:
        """The clock, then one total per field of Rates, in order."""
        spent = session.timings
        return (
            self._clock(),
            session.global_timestep,
            session.global_step,
            session.global_episode,
            spent.environment,
            spent.acting,
            spent.learning,
        )


class ReturnWindow:
    """The returns, or the lengths, of the last ``size`` episodes."""

    def __init__(self, size: int) -> None:
        self._returns: collections.deque[float] = collections.deque(maxlen=size)

    @property
    def full(self) -> bool:
        """Whether ``size`` returns are known."""
        return len(self._returns) == self._returns.maxlen

    @property
    def mean(self) -> float:
        """The mean; NaN without returns."""
        return math.fsum(self._returns) / len(self._returns) if self._returns else math.nan

    @property
    def low(self) -> float:
        """The smallest; NaN without returns."""
        return min(self._returns, default=math.nan)

    @property
    def high(self) -> float:
        """The largest; NaN without returns."""
        return max(self._returns, default=math.nan)

    def push(self, episode_return: float) -> None:
        """Add a return; drops the oldest if full."""
        self._returns.append(episode_return)

    def state_dict(self) -> State:
        """The returns [n], oldest first."""
        return {"returns": np.array(self._returns, np.float64)}

    def load_state_dict(self, state: State) -> None:
        """Restore ``state_dict``; keeps the latest if there are too many."""
        self._returns.clear()
        self._returns.extend(np.asarray(state["returns"], np.float64).tolist())


class Scalars:
    """Named numbers of a run, for TensorBoard and trackers; over ``global_timestep``.

    With updates without timesteps (``Agent.learn``), over the session's ``position``.

    ====================================  ===================  =========================================================
    name                                  when                 what
    ====================================  ===================  =========================================================
    ``rollout/return``                    every episode        its return
    ``rollout/length``                    every episode        its length
    ``rollout/return_mean``, ...          every episode        for the last 100 episodes: also ``return_min``,
                                                               ``return_max``
    ``rollout/length_mean``               every episode        mean of the last 100 episodes
    ``rollout/exploration_rate``          every episode        level of the behaviour policy, if known:
                                                               epsilon, or a standard deviation
    ``train/loss``, ``train/<metric>``    see ``every_steps``  loss and metrics of the spec
    ``train/updates``                     see ``every_steps``  ``global_step``
    ``time/timesteps_per_second``         see ``every_steps``  since the previous values, like the following
    ``time/updates_per_second``           see ``every_steps``
    ``time/environment_share``, ...       see ``every_steps``  share of time: also ``acting`` and ``learning``
    ``time/episodes``                     see ``every_steps``  ``global_episode``
    ``distributed/...``                   see ``every_steps``  for a cluster: see :class:`axonrl.distributed.Cluster`
    ``eval/return_mean``, ...             every evaluation     ``return_std``, ``return_min``, ``return_max``,
                                                               ``length_mean``
    ``eval/loss``, ``eval/<metric>``      every evaluation     values of the model_fn's EVAL, if requested
    ====================================  ===================  =========================================================

    Args:
        every_steps: updates between values of ``train`` and ``time``; fewer if ten times as many timesteps have passed,
            as one update may use a whole rollout.
        clock: returns seconds; for tests.
    """

    def __init__(self, every_steps: int, clock: Clock = time.monotonic) -> None:
        self._every = every_steps
        self._meter = Meter(clock)
        self._returns, self._lengths = ReturnWindow(WINDOW), ReturnWindow(WINDOW)
        self._measured_at: int | None = None
        """Timestep of the last values of an update, or of the first update."""

    def start(self, session: Session) -> None:
        """Start measuring the speed."""
        self._meter.start(session)

    def of_update(self, session: Session, facts: UpdateFacts) -> dict[str, float]:
        """Values of an update; empty if not due."""
        now = session.global_timestep
        if self._measured_at is None:
            self._measured_at = now
        if session.global_step % self._every and now - self._measured_at < TIMESTEPS_PER_UPDATE * self._every:
            return {}
        self._measured_at = now
        rates = self._meter.read(session)
        speed = {
            "timesteps_per_second": rates.timesteps_per_sec,
            "updates_per_second": rates.steps_per_sec,
            "environment_share": rates.environment_share,
            "acting_share": rates.acting_share,
            "learning_share": rates.learning_share,
            "episodes": session.global_episode,
        }
        return {
            **training_values(facts),
            "train/updates": session.global_step,
            **add_prefix("time", without_nan(speed)),
            **add_prefix("distributed", without_nan(session.timings.distributed)),
        }

    def of_episode(self, facts: EpisodeStats) -> dict[str, float]:
        """Add an episode to the window, and return its values."""
        self._returns.push(facts.episode_return)
        self._lengths.push(facts.length)
        values = {
            "rollout/return": facts.episode_return,
            "rollout/length": facts.length,
            "rollout/return_mean": self._returns.mean,
            "rollout/return_min": self._returns.low,
            "rollout/return_max": self._returns.high,
            "rollout/length_mean": self._lengths.mean,
        }
        if not math.isnan(facts.exploration):
            values["rollout/exploration_rate"] = facts.exploration
        return values

    def state_dict(self) -> State:
        """The window of episodes, and the time of the last values."""
        windows = {"returns": self._returns.state_dict(), "lengths": self._lengths.state_dict()}
        return {**windows, "measured_at": self._measured_at}

    def load_state_dict(self, state: State) -> None:
        """Restore the saved state."""
        self._returns.load_state_dict(state["returns"])
        self._lengths.load_state_dict(state["lengths"])
        self._measured_at = state["measured_at"]


def training_values(facts: UpdateFacts) -> dict[str, float]:
    """Loss and metrics of an update, named as in :class:`Scalars`."""
    return add_prefix("train", {"loss": facts.loss, **facts.metrics})


def evaluation_values(facts: EvaluationFacts) -> dict[str, float]:
    """Results of an evaluation, named as in :class:`Scalars`; without the number of episodes, a constant.

    ``episode_return_mean`` becomes ``eval/return_mean``, and EVAL's ``eval_loss`` becomes ``eval/loss``.
    """
    results = {name: value for name, value in facts.results.items() if name != "episodes"}
    return add_prefix("eval", {re.sub("^(episode_|eval[_/])", "", name): value for name, value in results.items()})


def multiple_after(timestep: int, every: int) -> int:
    """The first multiple of ``every`` after a timestep."""
    return (timestep // every + 1) * every


def add_prefix(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Prefix the names: ``train/loss``."""
    return {f"{group}/{name}": value for name, value in values.items()}


def without_nan(values: Mapping[str, float]) -> dict[str, float]:
    """Drop NaN from values where it means unknown: no exploration, no time passed. Not for losses."""
    return {name: value for name, value in values.items() if not math.isnan(value)}
