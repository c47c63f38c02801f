"""What is measured of a cluster, for hooks."""

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
"""Whose mean is ``return_mean_least_exploring``."""


class Measures:
    """The numbers under ``distributed/``, of the unrolls since they were asked for last.

    ================================  ==============================================================================
    name                              what
    ================================  ==============================================================================
    ``lag_min``, ``_mean``, ``_max``  updates from the weights that acted to the use of an unroll
    ``weights_version``               of the newest weights that acted: ``global_step`` when they were published
    ``actors_alive``, ``in_flight``   actors that are ready; unrolls that were asked for and have not come
    ``unrolls_accepted``, ...       in this session: ``_stale`` too old, ``_dead`` of actors that were given up,
                                      ``_damaged`` with NaN, or arrays of another shape or dtype
    ``unrolls_lost``                asked for in vain
    ``timesteps_lost``                of these
    ``restarts``                      of actors
    ``actor_wait_share``              of the actors' time, without a request; near 1: the learner is the limit
    ``learner_wait_share``            of the learner's time, for unrolls; near 1: the actors are the limit
    ``actor_timesteps_per_second``    of an actor, while it works
    ``bytes_per_second``              of unrolls
    ``return_mean_least_exploring``   with a ladder of epsilons: of the newest 100 episodes of the third of the
                                      environments that explore least
    ================================  ==============================================================================

    With replay shards there are, too:

    ================================  ==============================================================================
    name                              what
    ================================  ==============================================================================
    ``replay_size``                   timesteps in all shards
    ``inserts_per_second``            timesteps counted, which shards have
    ``samples_per_second``            transitions drawn
    ``samples_per_insert``            transitions drawn for each timestep counted, in this session
    ``priority_updates_ignored``      of transitions that were forgotten meanwhile, as far as shards have told
    ================================  ==============================================================================

    Args:
        planner: what it counts.
        timesteps: of an unroll, T * N.
        replay: the learner's view of replay shards; None where unrolls come to the driver.
        epsilons: of the environments of each actor, [actors, N], where they are on a ladder.
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
        """An unroll was learned from, or counted, so many updates after its weights."""
        self._heads.append(head)
        self._lags.append(lag)
        if self._epsilons is not None:
            rungs = self._epsilons[head.id.actor % len(self._epsilons)]
            low = (head.exploration == rungs) & (rungs <= self._least)  # others explore by another measure
            self._returns += [one.episode_return for one in head.episodes if low[one.environment]]

    def passed(self, waited: float, worked: float) -> None:
        """Seconds in which the learner waited, and in which it did not."""
        self._waited += waited
        self._worked += worked

    def read(self) -> Mapping[str, float]:
        """The numbers; they begin anew. Empty where no unroll was used."""
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
