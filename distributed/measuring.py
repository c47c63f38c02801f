"""What is measured of a cluster, for hooks."""

from __future__ import annotations

from collections.abc import Mapping

from .fragments import Head
from .planner import READY, Planner


class Measures:
    """The numbers under ``distributed/``, of the fragments since they were asked for last.

    ================================  ==============================================================================
    name                              what
    ================================  ==============================================================================
    ``lag_min``, ``_mean``, ``_max``  updates from the weights that acted to the use of a fragment
    ``actors_alive``, ``in_flight``   actors that are ready; fragments that were asked for and have not come
    ``fragments_accepted``, ...       in this session: ``_stale`` too old, ``_dead`` of actors that were given up
    ``fragments_lost``                asked for in vain
    ``restarts``                      of actors
    ``actor_wait_share``              of the actors' time, without a request; near 1: the learner is the limit
    ``learner_wait_share``            of the learner's time, for fragments; near 1: the actors are the limit
    ``actor_timesteps_per_second``    of an actor, while it works
    ``bytes_per_second``              of fragments
    ================================  ==============================================================================
    """

    def __init__(self, planner: Planner) -> None:
        self._planner = planner
        self._lags: list[int] = []
        self._heads: list[Head] = []
        self._waited = self._worked = 0.0

    def used(self, head: Head, lag: int) -> None:
        """A fragment was learned from, or counted, so many updates after its weights."""
        self._heads.append(head)
        self._lags.append(lag)

    def passed(self, waited: float, worked: float) -> None:
        """Seconds in which the learner waited, and in which it did not."""
        self._waited += waited
        self._worked += worked

    def read(self) -> Mapping[str, float]:
        """The numbers; they begin anew. Empty where no fragment was used."""
        if not self._heads:
            return {}
        heads, lags, planner = self._heads, self._lags, self._planner
        acting, stepping, waiting = (sum(parts) for parts in zip(*(head.seconds for head in heads), strict=True))
        busy, passed = acting + stepping, self._waited + self._worked
        numbers = {
            "lag_min": min(lags),
            "lag_mean": sum(lags) / len(lags),
            "lag_max": max(lags),
            "actors_alive": sum(actor.status == READY for actor in planner.actors),
            "in_flight": planner.in_flight(),
            **{f"fragments_{name}": planner.counts[name] for name in ("accepted", "stale", "dead", "lost")},
            "restarts": planner.counts["restarts"],
            "actor_wait_share": waiting / (busy + waiting) if busy + waiting else 0.0,
            "learner_wait_share": self._waited / passed if passed else 0.0,
            "actor_timesteps_per_second": sum(head.timesteps for head in heads) / busy if busy else 0.0,
            "bytes_per_second": sum(head.nbytes for head in heads) / passed if passed else 0.0,
        }
        self._lags, self._heads, self._waited, self._worked = [], [], 0.0, 0.0
        return numbers
