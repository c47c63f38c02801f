"""How the learner uses unrolls: as parts of rollouts, or through replay shards, which store them."""

from __future__ import annotations

import contextlib
import operator
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from ..core.trees import map_tree
from ..estimators.session import MonitoredSession
from ..estimators.stepper import Stepper
from ..hooks.events import EpisodeStats, TimestepFacts
from .events import Collected
from .measurements import Measures
from .planner import Window
from .replay import NoBatchError, ShardedReplay
from .settings import Settings
from .unrolls import Head, Unroll, side_by_side


class LearnerInput(Protocol):
    """How a kind of memory learns from unrolls."""

    most: int
    """Maximum number of unrolls in flight, over all actors."""
    least: int
    """Timesteps that are counted together."""

    def room(self, in_flight: int) -> int:
        """Number of unrolls that may be requested now."""

    def waiting(self) -> int:
        """Timesteps that have arrived and are not counted yet."""

    def take(self, collected: Collected) -> None:
        """Accept an unroll."""

    def due(self) -> Iterator[Callable[[], None]]:
        """Yield the work that is due, in steps that must not be interrupted."""

    def forget(self) -> None:
        """Drop pending unrolls."""


class FromRollouts:
    """Joins K unrolls to a rollout [T, K * N], which a rollout memory learns from once.

    Args:
        session: receives events.
        stepper: stores and learns.
        cluster: the settings.
        batch: K.
        counts: the planner's counts; ``stale`` is counted here.
        episodes: reports finished episodes.
        measures: records each unroll.
    """

    def __init__(
        self,
        session: MonitoredSession,
        stepper: Stepper,
        cluster: Settings,
        batch: int,
        counts: Counter[str],
        episodes: Episodes,
        measures: Measures,
    ) -> None:
        self._session, self._stepper, self._cluster = session, stepper, cluster
        self._batch, self._counts, self._episodes, self._measures = batch, counts, episodes, measures
        self._window = Window(batch, cluster.queue)
        self.most = cluster.actors * cluster.in_flight
        self.least = batch * cluster.unroll * cluster.envs_per_actor
        self._waiting: list[Unroll] = []

    def room(self, in_flight: int) -> int:
        """Number of unrolls that the window has place for: enough to keep the learner busy, and no more."""
        return self._window.room(len(self._waiting), in_flight, self.most)

    def waiting(self) -> int:
        """Timesteps of unrolls that wait for their batch to fill."""
        return sum(one.head.timesteps for one in self._waiting)

    def take(self, collected: Collected) -> None:
        """Add an unroll to the next batch."""
        if collected.unroll is not None:
            self._waiting.append(collected.unroll)

    def due(self) -> Iterator[Callable[[], None]]:
        """Yield a batch while there are enough unrolls that are not stale."""
        if self._stepper.pending_updates:
            yield self._session.loop.learn
        while True:
            self._drop_stale()
            if len(self._waiting) < self._batch:
                return
            taken, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            yield lambda taken=taken: self._learn(taken)  # type: ignore[misc]

    def forget(self) -> None:
        """Drop unrolls that wait for their batch to fill."""
        self._waiting.clear()

    def _drop_stale(self) -> None:
        if self._cluster.max_lag is not None:
            step = self._stepper.counters.global_step
            fresh = [one for one in self._waiting if step - one.head.version <= self._cluster.max_lag]
            self._counts["stale"] += len(self._waiting) - len(fresh)
            self._waiting = fresh

    def _learn(self, unrolls: list[Unroll]) -> None:
        stepper, loop = self._stepper, self._session.loop
        for one in unrolls:
            self._measures.used(one.head, stepper.counters.global_step - one.head.version)
        rows = side_by_side(unrolls)
        for t in range(self._cluster.unroll):
            stepper.store(map_tree(operator.itemgetter(t), rows))
        facts = TimestepFacts(*(rows[name] for name in TimestepFacts._fields))
        _report_timestep(self._session, facts)
        loop.learn()
        for unroll in unrolls:
            self._episodes.report(unroll.head)


class FromReplay:
    """Counts the timesteps stored in shards, and makes the updates they require.

    Args:
        session: receives events.
        stepper: counts and learns.
        memory: the view of all shards.
        most: maximum number of unrolls in flight.
        least: timesteps of an unroll.
        episodes: reports finished episodes.
        measures: records each unroll.
    """

    def __init__(
        self,
        session: MonitoredSession,
        stepper: Stepper,
        memory: ShardedReplay,
        most: int,
        least: int,
        episodes: Episodes,
        measures: Measures,
    ) -> None:
        self._session, self._stepper, self._memory, self._episodes = session, stepper, memory, episodes
        self.most, self.least, self._measures = most, least, measures
        self._heads: list[Head] = []

    def room(self, in_flight: int) -> int:
        """Number of unrolls that may be requested. Due updates come first, so the learner holds up fast actors."""
        return 0 if self._heads else self.most - in_flight

    def waiting(self) -> int:
        """Timesteps in shards that are not counted yet."""
        return sum(head.timesteps for head in self._heads)

    def take(self, collected: Collected) -> None:
        """Note an unroll stored in a shard."""
        if collected.inserted is not None:
            self._heads.append(collected.inserted.head)

    def due(self) -> Iterator[Callable[[], None]]:
        """Yield the updates that each unroll requires."""
        if self._stepper.pending_updates:
            yield self._learn_pending
        while self._heads:
            head = self._heads.pop(0)
            yield lambda head=head: self._learn(head)  # type: ignore[misc]

    def forget(self) -> None:
        """Drop uncounted unrolls; their transitions stay in the shards."""
        self._heads.clear()

    def _learn(self, head: Head) -> None:
        self._measures.used(head, self._stepper.counters.global_step - head.version)
        self._stepper.count(head.timesteps)
        _report_timestep(self._session, None)
        self._learn_pending()
        self._episodes.report(head)

    def _learn_pending(self) -> None:
        with contextlib.suppress(NoBatchError):  # skip updates until shards can fill a batch again
            self._session.loop.learn()


class Episodes:
    """Reports finished episodes of actors to hooks.

    Args:
        session: receives events.
        width: N, environments of an actor; its environment n is number i * N + n of the run, i being the actor's index.
    """

    def __init__(self, session: MonitoredSession, width: int) -> None:
        self._session, self._width = session, width
        self._marks: dict[int, tuple[int, float]] = {}  # updates, and sum of losses, at the end of the previous episode
        self._index: Counter[int] = Counter()

    def report(self, head: Head) -> None:
        """Report the episodes that ended in an unroll."""
        loop = self._session.loop
        for one in head.episodes:
            number = head.id.actor * self._width + one.environment
            updates, losses = self._marks.get(number, (0, 0.0))
            self._marks[number] = loop.updates, loop.loss_sum
            made = loop.updates - updates
            stats = EpisodeStats(
                one.episode_return,
                one.length,
                one.terminated,
                one.truncated,
                (loop.loss_sum - losses) / made if made else float("nan"),
                float(head.exploration[one.environment]),
                one.seconds,
                number,
                self._index[number],
            )
            self._index[number] += 1
            loop.counted(stats)


def _report_timestep(session: MonitoredSession, facts: TimestepFacts | None) -> None:
    """Call hooks of timesteps once for each batch or unroll; without arrays if shards have them."""
    now = time.perf_counter()
    if listeners := session.loop.listeners(now, now, now):
        nothing = np.zeros(0)
        facts = TimestepFacts(nothing, nothing, nothing, nothing, nothing, nothing) if facts is None else facts
        session.loop.tell(listeners, facts)
