"""What the learner does with unrolls: batches of them are rollouts, or they are counted and shards have them."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from ..estimators.session import MonitoredSession
from ..estimators.stepper import Stepper
from ..hooks.events import EpisodeStats, TimestepFacts
from .events import Collected
from .measurements import Measures
from .planner import Window
from .replay import NoBatchError, ShardedReplay
from .settings import Settings
from .unrolls import Head, Unroll, side_by_side

_TOLD = ("observation", "action", "reward", "terminated", "truncated", "next_observation")


class LearnerInput(Protocol):
    """How a kind of memory learns from unrolls."""

    most: int
    """Unrolls that all actors together may have in flight."""
    least: int
    """Timesteps that are counted together."""

    def room(self, in_flight: int) -> int:
        """How many unrolls may be asked for."""

    def waiting(self) -> int:
        """Timesteps that have come and are not counted yet."""

    def take(self, collected: Collected) -> None:
        """An unroll was accepted."""

    def due(self) -> Iterator[Callable[[], None]]:
        """What is to be done now, each a step that is not interrupted."""

    def forget(self) -> None:
        """What waits is dropped."""


class FromRollouts:
    """K unrolls side by side are a rollout [T, K * N], which a memory that fills and empties learns from once.

    Args:
        session: is told.
        stepper: stores and learns.
        cluster: the settings.
        batch: K.
        counts: of the planner; ``stale`` is counted here.
        episodes: tells of finished episodes.
        measures: are told of each unroll.
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
        """As many as a window allows: enough for the learner, and not more."""
        return self._window.room(len(self._waiting), in_flight, self.most)

    def waiting(self) -> int:
        """Timesteps of unrolls that wait for others of their batch."""
        return sum(one.head.timesteps for one in self._waiting)

    def take(self, collected: Collected) -> None:
        """It waits for others."""
        if collected.unroll is not None:
            self._waiting.append(collected.unroll)

    def due(self) -> Iterator[Callable[[], None]]:
        """A batch, as long as there are enough unrolls that are new enough."""
        if self._stepper.pending_updates:
            yield self._session.monitor.learn
        while True:
            self._drop_stale()
            if len(self._waiting) < self._batch:
                return
            taken, self._waiting = self._waiting[: self._batch], self._waiting[self._batch :]
            yield lambda taken=taken: self._learn(taken)  # type: ignore[misc]

    def forget(self) -> None:
        """Unrolls that wait for others are dropped."""
        self._waiting.clear()

    def _drop_stale(self) -> None:
        if self._cluster.max_lag is not None:
            step = self._stepper.counters.global_step
            fresh = [one for one in self._waiting if step - one.head.version <= self._cluster.max_lag]
            self._counts["stale"] += len(self._waiting) - len(fresh)
            self._waiting = fresh

    def _learn(self, unrolls: list[Unroll]) -> None:
        stepper, monitor = self._stepper, self._session.monitor
        for one in unrolls:
            self._measures.used(one.head, stepper.counters.global_step - one.head.version)
        rows = side_by_side(unrolls)
        for t in range(self._cluster.unroll):
            stepper.store(_at(rows, t))
        facts = TimestepFacts(*(rows[name] for name in _TOLD))
        _tell(self._session, facts)
        monitor.learn()
        for unroll in unrolls:
            self._episodes.tell(unroll.head)


class FromReplay:
    """Shards have the transitions; their timesteps are counted here, and make updates due.

    Args:
        session: is told.
        stepper: counts and learns.
        memory: the view of all shards.
        most: unrolls that may be in flight.
        least: timesteps of an unroll.
        episodes: tells of finished episodes.
        measures: are told of each unroll.
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
        """What is due is learned before more is asked for, so the learner holds up actors that are too fast."""
        return 0 if self._heads else self.most - in_flight

    def waiting(self) -> int:
        """Timesteps that shards have and that are not counted yet."""
        return sum(head.timesteps for head in self._heads)

    def take(self, collected: Collected) -> None:
        """It is in a shard."""
        if collected.inserted is not None:
            self._heads.append(collected.inserted.head)

    def due(self) -> Iterator[Callable[[], None]]:
        """The updates that each unroll makes due."""
        if self._stepper.pending_updates:
            yield self._learn_owed
        while self._heads:
            head = self._heads.pop(0)
            yield lambda head=head: self._learn(head)  # type: ignore[misc]

    def forget(self) -> None:
        """What shards have stays there, and is not counted."""
        self._heads.clear()

    def _learn(self, head: Head) -> None:
        self._measures.used(head, self._stepper.counters.global_step - head.version)
        self._stepper.count(head.timesteps)
        _tell(self._session, None)
        self._learn_owed()
        self._episodes.tell(head)

    def _learn_owed(self) -> None:
        with contextlib.suppress(NoBatchError):  # until shards can fill a batch again updates are skipped
            self._session.monitor.learn()


class Episodes:
    """Tells hooks of the episodes that actors finished.

    Args:
        session: is told.
        width: environments of an actor, N: environment n of actor i is number i * N + n of the run.
    """

    def __init__(self, session: MonitoredSession, width: int) -> None:
        self._session, self._width = session, width
        self._marks: dict[int, tuple[int, float]] = {}  # updates and the sum of losses when the episode before ended
        self._index: Counter[int] = Counter()

    def tell(self, head: Head) -> None:
        """Those that ended in an unroll."""
        monitor = self._session.monitor
        for one in head.episodes:
            number = head.id.actor * self._width + one.environment
            updates, losses = self._marks.get(number, (0, 0.0))
            self._marks[number] = monitor.updates, monitor.loss_sum
            made = monitor.updates - updates
            stats = EpisodeStats(
                one.episode_return,
                one.length,
                one.terminated,
                one.truncated,
                (monitor.loss_sum - losses) / made if made else float("nan"),
                float(head.exploration[one.environment]),
                one.seconds,
                number,
                self._index[number],
            )
            self._index[number] += 1
            monitor.counted(stats)


def _tell(session: MonitoredSession, facts: TimestepFacts | None) -> None:
    """Hooks that hear of timesteps are told once for a batch or an unroll; without arrays where shards have them."""
    now = time.perf_counter()
    if listeners := session.monitor.listeners(now, now, now):
        nothing = np.zeros(0)
        facts = TimestepFacts(nothing, nothing, nothing, nothing, nothing, nothing) if facts is None else facts
        session.monitor.tell(listeners, facts.observation, facts.action, facts[2:5], facts.next_observation)


def _at(tree: Any, t: int) -> Any:
    return {key: _at(value, t) for key, value in tree.items()} if isinstance(tree, dict) else tree[t]
