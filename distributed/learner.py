"""Use of unrolls by the learner: as parts of rollouts, or through replay shards, which store them."""

from __future__ import annotations

import abc
import contextlib
import functools
import operator
import time
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from ..core.trees import map_tree
from ..estimators.session import MonitoredSession
from ..estimators.stepper import Stepper
from ..hooks.events import EpisodeStats, TimestepFacts
from .events import Collected
from .measurements import Measures
from .planner import Window
from .replay import NoBatchError
from .settings import Settings
from .unrolls import Head, Unroll, side_by_side


class LearnerInput(abc.ABC):
    """Learning from unrolls with a kind of memory.

    Args:
        session: receives events.
        stepper: counts and learns.
        cluster: the settings.
        batch: K, unrolls that are counted together.
        episodes: reports finished episodes.
        measures: records each unroll.
    """

    def __init__(
        self,
        session: MonitoredSession,
        stepper: Stepper,
        cluster: Settings,
        batch: int,
        episodes: Episodes,
        measures: Measures,
    ) -> None:
        self._session, self._stepper, self._cluster, self._batch = session, stepper, cluster, batch
        self._episodes, self._measures = episodes, measures
        self.most = cluster.actors * cluster.in_flight
        """Maximum number of unrolls in flight, over all actors."""
        self.least = batch * cluster.unroll * cluster.envs_per_actor
        """Timesteps that are counted together."""
        self._held: list[Collected] = []

    @abc.abstractmethod
    def room(self, in_flight: int) -> int:
        """Number of unrolls that may be requested now."""

    @abc.abstractmethod
    def due(self) -> Iterator[Callable[[], None]]:
        """Yield the work that is due, in steps that must not be interrupted."""

    def learn_pending(self) -> None:
        """Run the updates that are due."""
        self._session.loop.learn()

    def waiting(self) -> int:
        """Timesteps that have arrived and are not counted yet."""
        return sum(one.head.timesteps for one in self._held)

    def take(self, collected: Collected) -> None:
        """Accept an unroll."""
        self._held.append(collected)

    def forget(self) -> None:
        """Drop pending unrolls; transitions in shards stay there."""
        self._held.clear()


class FromRollouts(LearnerInput):
    """Joins K unrolls to a rollout [T, K * N], which a rollout memory learns from once."""

    @functools.cached_property
    def _window(self) -> Window:
        return Window(self._batch, self._cluster.queue)

    def room(self, in_flight: int) -> int:
        """Number of unrolls that the window has place for: enough to keep the learner busy, and no more."""
        return self._window.room(len(self._held), in_flight, self.most)

    def due(self) -> Iterator[Callable[[], None]]:
        """Yield a batch while there are enough unrolls that are not stale."""
        if self._stepper.pending_updates:
            yield self.learn_pending
        while True:
            self._drop_stale()
            if len(self._held) < self._batch:
                return
            taken, self._held = self._held[: self._batch], self._held[self._batch :]
            yield functools.partial(self._learn, [one.unroll for one in taken if one.unroll is not None])

    def _drop_stale(self) -> None:
        if self._cluster.max_lag is not None:
            step = self._stepper.counters.global_step
            fresh = [one for one in self._held if step - one.head.version <= self._cluster.max_lag]
            self._measures.dropped(len(self._held) - len(fresh))
            self._held = fresh

    def _learn(self, unrolls: list[Unroll]) -> None:
        stepper, loop = self._stepper, self._session.loop
        for one in unrolls:
            self._measures.used(one.head, stepper.counters.global_step - one.head.version)
        rows = side_by_side(unrolls)
        for t in range(self._cluster.unroll):
            stepper.store(map_tree(operator.itemgetter(t), rows))
        facts = TimestepFacts(**{name: rows[name] for name in TimestepFacts._fields if name in rows})
        _report_timestep(self._session, facts)
        loop.learn()
        for unroll in unrolls:
            self._episodes.report(unroll.head)


class FromReplay(LearnerInput):
    """Counts the timesteps stored in shards, and makes the updates they require."""

    def room(self, in_flight: int) -> int:
        """Number of unrolls that may be requested. Due updates come first, so the learner holds up fast actors."""
        return 0 if self._held else self.most - in_flight

    def due(self) -> Iterator[Callable[[], None]]:
        """Yield the updates that each unroll requires."""
        if self._stepper.pending_updates:
            yield self.learn_pending
        while self._held:
            yield functools.partial(self._learn, self._held.pop(0).head)

    def _learn(self, head: Head) -> None:
        self._measures.used(head, self._stepper.counters.global_step - head.version)
        self._stepper.count(head.timesteps)
        _report_timestep(self._session, None)
        self.learn_pending()
        self._episodes.report(head)

    def learn_pending(self) -> None:
        """Run the updates that are due, unless the shards that had a batch are lost."""
        with contextlib.suppress(NoBatchError):
            super().learn_pending()


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
            loop.count_episode(stats)


def _report_timestep(session: MonitoredSession, facts: TimestepFacts | None) -> None:
    """Call hooks of timesteps once for each batch or unroll; without arrays if shards have them."""
    now = time.perf_counter()
    if listeners := session.loop.listeners(now, now, now):
        nothing = np.zeros(0)
        facts = TimestepFacts(nothing, nothing, nothing, nothing, nothing, nothing) if facts is None else facts
        session.loop.tell(listeners, facts)
