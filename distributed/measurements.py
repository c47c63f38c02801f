"""Measurements of a cluster, for hooks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import numpy as np

from ..core.protocols import Array
from .planner import READY, Planner
from .replay import ShardedReplay
from .unrolls import Head

_COUNTED: Final = ("accepted", "stale", "dead", "damaged", "lost")
_EPISODES: Final = 100
"""Number of episodes in ``return_mean_least_exploring``."""


class Measures:
    """The numbers under ``distributed/``, for the unrolls since they were last read.

    ================================  ==============================================================================
    name                              what
    ================================  ==============================================================================
    ``lag_min``, ``_mean``, ``_max``  updates between an unroll's weights and its use
    ``weights_version``               newest weights that acted: ``global_step`` when they were published
    ``actors_alive``, ``in_flight``   actors that are ready; unrolls requested and not received
    ``unrolls_accepted``, ...         in this session: ``_stale`` too old, ``_dead`` of replaced actors,
                                      ``_damaged`` with NaN, or arrays of a wrong shape or dtype
    ``unrolls_lost``                  requested and never received
    ``timesteps_lost``                timesteps of these
    ``restarts``                      restarts of actors
    ``actor_wait_share``              share of the actors' time without a request; near 1: the learner is the limit
    ``learner_wait_share``            share of the learner's time without unrolls; near 1: the actors are the limit
    ``actor_timesteps_per_second``    of one actor, while it works
    ``bytes_per_second``              bytes of unrolls received
    ``return_mean_least_exploring``   with a ladder of epsilons: mean of the newest 100 episodes of the third of the
                                      environments that explore least
    ================================  ==============================================================================

    With replay shards, also:

    ================================  ==============================================================================
    name                              what
    ================================  ==============================================================================
    ``replay_size``                   timesteps in all shards
    ``inserts_per_second``            timesteps stored in shards and counted
    ``samples_per_second``            transitions drawn
    ``samples_per_insert``            transitions drawn per timestep counted, in this session
    ``priority_updates_ignored``      for transitions overwritten meanwhile, as far as reported
    ================================  ==============================================================================

    Args:
        planner: provides the counts.
        timesteps: T * N, timesteps of an unroll.
        replay: the learner's view of replay shards; None if unrolls go to the driver.
        epsilons: of the environments of each actor, [actors, N], if they form a ladder.
    """

    def __init__(
        self, planner: Planner, timesteps: int, replay: ShardedReplay | None = None, epsilons: Array | None = None
    ) -> None:
        self._planner, self._timesteps, self._replay = planner, timesteps, replay
        self._epsilons = epsilons
        self._least = None if epsilons is None else np.sort(epsilons, axis=None)[-(-epsilons.size // 3) - 1]
        self._lags: list[int] = []
        self._heads: list[Head] = []
        self._waited = self._worked = 0.0
        self._returns: deque[float] = deque(maxlen=_EPISODES)
        self._inserted = self._drawn = 0

    def used(self, head: Head, lag: int) -> None:
        """Record an unroll learned from, or counted, ``lag`` updates after its weights."""
        self._heads.append(head)
        self._lags.append(lag)
        if self._epsilons is not None:
            rungs = self._epsilons[head.id.actor % len(self._epsilons)]
            low = (head.exploration == rungs) & (rungs <= self._least)  # excludes environments without the ladder
            self._returns += [one.episode_return for one in head.episodes if low[one.environment]]

    def dropped(self, number: int) -> None:
        """Record unrolls that were too old."""
        self._planner.counts["stale"] += number

    def passed(self, waited: float, worked: float) -> None:
        """Record seconds the learner waited and worked."""
        self._waited += waited
        self._worked += worked

    def read(self) -> Mapping[str, float]:
        """Return the numbers and start over. Empty if no unroll was used."""
        if not self._heads:
            return {}
        heads, lags, planner = self._heads, self._lags, self._planner
        acting, stepping, waiting = (sum(parts) for parts in zip(*(head.seconds for head in heads), strict=True))
        busy, passed = acting + stepping, self._waited + self._worked
        numbers = {
            "lag_min": min(lags),
            "lag_mean": sum(lags) / len(lags),
            "lag_max": max(lags),
            "weights_version": max(head.version for head in heads),
            "actors_alive": sum(actor.status == READY for actor in planner.actors),
            "in_flight": planner.in_flight(),
            **{f"unrolls_{name}": planner.counts[name] for name in _COUNTED},
            "timesteps_lost": planner.counts["lost"] * self._timesteps,
            "restarts": planner.counts["restarts"],
            "actor_wait_share": waiting / (busy + waiting) if busy + waiting else 0.0,
            "learner_wait_share": self._waited / passed if passed else 0.0,
            "actor_timesteps_per_second": sum(head.timesteps for head in heads) / busy if busy else 0.0,
            "bytes_per_second": sum(head.nbytes for head in heads) / passed if passed else 0.0,
        }
        if self._returns:
            numbers["return_mean_least_exploring"] = sum(self._returns) / len(self._returns)
        if self._replay is not None:
            numbers |= self._of(self._replay, sum(head.timesteps for head in heads), passed)
        self._lags, self._heads, self._waited, self._worked = [], [], 0.0, 0.0
        return numbers

    def _of(self, replay: ShardedReplay, inserted: int, passed: float) -> dict[str, float]:
        drawn, self._drawn = replay.drawn - self._drawn, replay.drawn
        self._inserted += inserted
        return {
            "replay_size": len(replay),
            "inserts_per_second": inserted / passed if passed else 0.0,
            "samples_per_second": drawn / passed if passed else 0.0,
            "samples_per_insert": replay.drawn / self._inserted if self._inserted else 0.0,
            "priority_updates_ignored": replay.ignored,
        }
