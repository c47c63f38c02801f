"""Measurements shared by hooks: rates, shares of time, the mean of recent returns."""

from __future__ import annotations

import collections
import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from ..contracts import State
from ..facts import Session

Clock: TypeAlias = "Callable[[], float]"
"""Monotonic seconds; only differences count."""


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
    """The returns of the last ``size`` episodes."""

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


def tagged(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with prefixed names: ``update/loss``."""
    return {f"{group}/{name}": value for name, value in values.items()}


def known(values: Mapping[str, float]) -> dict[str, float]:
    """Without NaN, for values where that means unknown: no exploration, no time passed. Not for losses."""
    return {name: value for name, value in values.items() if not math.isnan(value)}
