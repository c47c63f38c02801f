"""Makes the environment harder during training."""

from __future__ import annotations

import bisect
import itertools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.checks import count, number
from ..core.errors import ArgumentError
from ..core.protocols import State
from .events import EpisodeStats, TrainingSession
from .hook import Hook
from .measures import ReturnWindow

_log = logging.getLogger(__name__)


class CurriculumHook(Hook):
    """Makes the environment harder at a mean return or at given timesteps, by ``env.unwrapped.set_difficulty(level)``.

    Each environment changes to a new level between its episodes. Checkpoints record the level of each running episode,
    so that a resumed run is exact. Evaluations during training use newly made copies of the environment, with their
    initial difficulty.

    Args:
        levels: at least two difficulties in order, of any type that ``set_difficulty`` takes.
        at_return: the next level begins when the mean return at the current one reaches this; a number, or one for each
            level but the last.
        at_timesteps: timesteps at which the levels after the first begin, increasing; instead of ``at_return``.
        episodes: number of episodes in the mean; a level lasts at least this many.
    """

    def __init__(
        self,
        levels: Sequence[Any],
        at_return: float | Sequence[float] | None = None,
        at_timesteps: Sequence[int] | None = None,
        episodes: int = 20,
    ) -> None:
        if isinstance(levels, str) or not isinstance(levels, Sequence) or len(levels) < 2:
            message = f"CurriculumHook(levels) must be a list of at least two difficulties, got {levels!r}"
            raise ArgumentError(message, "CurriculumHook(levels)", levels)
        if (at_return is None) == (at_timesteps is None):
            message = f"CurriculumHook needs either at_return or at_timesteps; got {at_return!r} and {at_timesteps!r}"
            raise ArgumentError(message, "CurriculumHook(at_return)", at_return)
        times: Any = at_timesteps
        if times is not None and (isinstance(times, str) or not isinstance(times, Sequence)):
            message = f"CurriculumHook(at_timesteps) must be a list of timesteps, got {times!r}"
            raise ArgumentError(message, "CurriculumHook(at_timesteps)", at_timesteps)
        changes = len(levels) - 1
        self._levels = tuple(levels)
        name = "CurriculumHook(at_return)"
        is_list = isinstance(at_return, Sequence) and not isinstance(at_return, str)
        at_returns: Any = at_return if is_list else [at_return] * changes
        self._at_returns = [] if at_return is None else [number(name, one) for one in at_returns]
        name = "CurriculumHook(at_timesteps)"
        self._at_timesteps = [count(name, one) for one in at_timesteps or ()]
        given = self._at_returns or self._at_timesteps
        if len(given) != changes or any(b <= a for a, b in itertools.pairwise(self._at_timesteps)):
            name = name if at_return is None else "CurriculumHook(at_return)"
            value = at_timesteps if at_return is None else at_return
            order = ", increasing" if at_return is None else ""
            message = f"{name} must have {changes} values for {len(levels)} levels{order}, got {value!r}"
            raise ArgumentError(message, name, value)
        self._returns = ReturnWindow(count("CurriculumHook(episodes)", episodes))
        self._current = 0
        self._of_lanes: list[int] = []  # index of the level of each environment's running or next episode

    def prepare(self, session: TrainingSession) -> None:
        """Set the levels of running episodes before they are restored; all other environments get the current level."""
        if len(self._of_lanes) != session.num_envs:  # all begin new episodes
            if self._at_timesteps:
                self._current = bisect.bisect_right(self._at_timesteps, session.global_timestep)
            self._of_lanes = [self._current] * session.num_envs
        if self._current >= len(self._levels):
            message = f"the run has reached level {self._current + 1}, but CurriculumHook(levels) has {self._levels}"
            raise ArgumentError(message, "CurriculumHook(levels)", self._levels)
        for lane, index in enumerate(self._of_lanes):
            session.set_difficulty(lane, self._levels[index])

    def after_episode(self, session: TrainingSession, facts: EpisodeStats) -> None:
        """Choose the level of the environment's next episode."""
        lane = facts.environment
        before = self._current
        if self._at_timesteps:
            self._current = bisect.bisect_right(self._at_timesteps, session.global_timestep)
        elif self._of_lanes[lane] == before < len(self._at_returns):
            self._returns.push(facts.episode_return)
            if self._returns.full and self._returns.mean >= self._at_returns[before]:
                self._current = before + 1
                self._returns.load_state_dict({"returns": []})
        if self._current != before:
            level = self._levels[self._current]
            _log.info("difficulty %s from timestep %s", level, f"{session.global_timestep:,}")
        if self._of_lanes[lane] != self._current:
            self._of_lanes[lane] = self._current
            session.set_difficulty(lane, self._levels[self._current])

    def state_dict(self) -> State:
        """The current level, the levels of the environments, and the returns at the current level."""
        lanes = np.array(self._of_lanes, np.int64)
        return {"current": self._current, "of_lanes": lanes, **self._returns.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore them."""
        self._current, self._of_lanes = int(state["current"]), np.asarray(state["of_lanes"], np.int64).tolist()
        self._returns.load_state_dict(state)
