"""Flow control and failure rules: which actor to ask for what, and when; without processes, clocks or arrays.

The planner receives events, with the time in seconds, and returns actions. All backends' driver, the tests' fake
clock and the simulation use it.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from .settings import Settings
from .unrolls import UnrollId

ABSENT, STARTING, READY, FAILED, LEFT = "absent", "starting", "ready", "failed", "left"
DIED, RAISED, SILENT, DAMAGED = "died", "raised", "silent", "damaged"
"""Why an incarnation ended: process died, environment raised, no answer in time, damaged answers."""
_IN_A_ROW: Final = 3
"""Limit of consecutive environment errors or damaged answers, without an intact unroll in between."""
_MEDIAN_OF: Final = 20
_LONGEST_DELAY_S: Final = 60.0
"""The longest delay before an actor restarts."""


@dataclasses.dataclass
class Death:
    """End of an incarnation of an actor."""

    kind: str
    message: str
    at: float


@dataclasses.dataclass
class ActorState:
    """State of one actor."""

    index: int
    status: str = ABSENT
    incarnation: int = -1
    """Newest incarnation; -1 before the first."""
    since: float = 0.0
    """Time at which it got this status."""
    next_sequence: int = 0
    asked: deque[tuple[UnrollId, float]] = dataclasses.field(default_factory=deque)
    """Unrolls in flight, oldest first, and when they were requested."""
    answered: int = 0
    """Unrolls received from this incarnation."""
    restarts: int = 0
    start_at: float = 0.0
    delay: float = 0.0
    patience: int = 1
    """Multiple of ``unroll_timeout_s`` allowed for an answer; doubles without one, as the machine may be busy."""
    leaving: bool = False
    """Ends after its outstanding unrolls."""
    raised: int = 0
    damaged: int = 0
    last: Death | None = None
    durations: deque[float] = dataclasses.field(default_factory=lambda: deque(maxlen=_MEDIAN_OF))
    answered_at: float = 0.0


class Window:
    """Limit of unrolls in flight or waiting for the learner, where batches of them are learned from.

    Starts with ``queue + 1`` batches. Grows while the learner finds no batch: too few unrolls are in flight for their
    latency. Shrinks, down to its start, if ``queue`` batches or more always waited: they only get old.

    Args:
        batch: unrolls of a batch.
        queue: batches that may wait.
    """

    def __init__(self, batch: int, queue: int) -> None:
        self._batch, self._full = batch, queue * batch
        self._least = self.size = (queue + 1) * batch
        self._held, self._begun = 0, False
        self._looks, self._fewest = 0, math.inf

    def room(self, waiting: int, in_flight: int, most: int) -> int:
        """Number of unrolls that may be requested now; all actors together may have ``most`` in flight."""
        held = waiting + in_flight
        self._begun = self._begun or held < self._held  # at first, all wait for the first unrolls
        self._held = held
        if self._begun and waiting < self._batch:
            self.size = max(min(self.size + 1, most + self._batch), self._least)
        self._looks, self._fewest = self._looks + 1, min(self._fewest, waiting)
        if self._looks >= self.size:  # every unroll in it has been replaced once
            self.size -= int(min(max(self._fewest - self._full, 0), self.size - self._least))
            self._looks, self._fewest = 0, math.inf
        return max(self.size - held, 0)


class Planner:
    """The state of all actors.

    Args:
        cluster: the settings.
        now: seconds.
        incarnations: newest incarnation of each actor before a resume.
    """

    def __init__(self, cluster: Settings, now: float, incarnations: Sequence[int] = ()) -> None:
        self._cluster, self._before = cluster, incarnations
        self.wanted = cluster.actors
        """The number of actors, without leaving ones."""
        self.actors = [self._new(index) for index in range(cluster.actors)]
        self.counts: Counter[str] = Counter()
        """Counts ``asked``, ``accepted``, ``dead`` (answers of a replaced incarnation), ``lost`` (never received),
        ``restarts``."""
        self.moved_at = now
        """Time of the last progress: an unroll accepted, or an update made."""

    # -- starting -----------------------------------------------------------------------------------------------------

    def to_start(self, now: float) -> list[ActorState]:
        """Return the actors whose next incarnation must start now; they count as starting."""
        waiting = [actor for actor in self.actors if actor.status == ABSENT and not actor.leaving]
        due = [actor for actor in waiting if now >= actor.start_at]
        for actor in due:
            actor.incarnation += 1
            actor.next_sequence = actor.answered = 0
            self._become(actor, STARTING, now)
        return due

    def started(self, index: int, incarnation: int, now: float) -> bool:
        """Note that an incarnation is ready; False if it was replaced before."""
        actor = self.actors[index]
        if (actor.incarnation, actor.status) != (incarnation, STARTING):
            return False
        self._become(actor, READY, now)
        self.moved_at = max(self.moved_at, now)
        return True

    def renew(self, now: float) -> list[ActorState]:
        """Restart all working actors at once; returns them."""
        working = [actor for actor in self.actors if actor.status in (STARTING, READY)]
        for actor in working:
            actor.asked.clear()
            actor.start_at = now
            self._become(actor, ABSENT, now)
        return working

    def resize(self, actors: int, now: float) -> None:
        """Change the number of actors: new ones will start; those with the highest indices end, see :meth:`to_end`."""
        self.actors += [self._new(index) for index in range(len(self.actors), actors)]
        for actor in self.actors:
            actor.leaving = actor.index >= actors
            if actor.status == LEFT and not actor.leaving:
                actor.start_at = now
                actor.raised = actor.damaged = 0
                actor.last = None
                self._become(actor, ABSENT, now)
        self.wanted = actors

    def incarnations(self) -> list[int]:
        """Newest incarnation of every actor the run has had, including former ones."""
        now = [actor.incarnation for actor in self.actors]
        return [*now, *self._before[len(now) :]]

    def to_end(self, now: float) -> list[ActorState]:
        """Return leaving actors with nothing outstanding, and mark them as left."""
        done = [actor for actor in self.actors if actor.leaving and actor.status != LEFT and not actor.asked]
        for actor in done:
            self._become(actor, LEFT, now)
        return done

    # -- asking -------------------------------------------------------------------------------------------------------

    def in_flight(self) -> int:
        """Unrolls requested and not received."""
        return sum(len(actor.asked) for actor in self.actors)

    def requests(self, room: int, now: float) -> list[UnrollId]:
        """Return the unrolls to request now, at most ``room``, from the actors with the fewest in flight first."""
        found: list[UnrollId] = []
        ready = [actor for actor in self.actors if actor.status == READY and not actor.leaving]
        for depth in range(self._cluster.in_flight):
            for actor in ready:
                if len(found) < room and len(actor.asked) == depth:
                    unroll = UnrollId(actor.index, actor.incarnation, actor.next_sequence)
                    actor.next_sequence += 1
                    actor.asked.append((unroll, now))
                    found.append(unroll)
        self.counts["asked"] += len(found)
        return found

    def answered(self, unroll: UnrollId, now: float) -> bool:
        """Note an unroll; False if it must not be used, as its actor was replaced or it is a duplicate."""
        actor = self.actors[unroll.actor]
        if not actor.asked or actor.asked[0][0] != unroll:
            self.counts["dead"] += 1
            return False
        _, asked_at = actor.asked.popleft()
        actor.durations.append(now - max(asked_at, actor.answered_at))
        actor.answered_at = now
        actor.answered += 1
        actor.raised = actor.damaged = 0
        actor.delay, actor.patience = 0.0, 1
        self.counts["accepted"] += 1
        self.moved_at = now
        return True

    def lost(self, unroll: UnrollId, now: float) -> None:
        """Note that an unroll was collected and will never arrive."""
        actor = self.actors[unroll.actor]
        if actor.asked and actor.asked[0][0] == unroll:
            actor.asked.popleft()
            actor.answered_at = now
            self.counts["lost"] += 1

    def moved(self, now: float) -> None:
        """Note an update."""
        self.moved_at = now

    def paused(self, seconds: float) -> None:
        """Leave these last seconds out of all waiting times: the learner was busy, and did not look at answers."""
        for actor in self.actors:
            actor.since += seconds
            actor.answered_at += seconds
            actor.asked = deque((unroll, at + seconds) for unroll, at in actor.asked)
        self.moved_at += seconds

    # -- failing ------------------------------------------------------------------------------------------------------

    def ended(self, index: int, incarnation: int, death: Death) -> bool:
        """Note that an incarnation has ended or is to be replaced; False if it was before.

        The next one starts after a delay that doubles with each failure; an unroll in between resets it.
        """
        actor = self.actors[index]
        if actor.incarnation != incarnation or actor.status not in (STARTING, READY):
            return False
        self.counts["lost"] += len(actor.asked)
        actor.asked.clear()
        actor.last = death
        cluster = self._cluster
        actor.raised += death.kind == RAISED
        actor.damaged += death.kind == DAMAGED
        actor.patience *= 2 if death.kind == SILENT else 1
        if max(actor.raised, actor.damaged) >= _IN_A_ROW or actor.restarts >= cluster.max_restarts:
            self._become(actor, FAILED, death.at)
            return True
        actor.restarts += 1
        self.counts["restarts"] += 1
        actor.delay = min(max(2 * actor.delay, cluster.restart_delay_s), _LONGEST_DELAY_S)
        actor.start_at = death.at + actor.delay
        self._become(actor, ABSENT, death.at)
        return True

    def overdue(self, now: float) -> list[tuple[int, int]]:
        """Return actors, and their incarnations, whose answer is overdue; they must be killed and replaced."""
        found = []
        for actor in self.actors:
            limit = self._cluster.unroll_timeout_s
            if actor.status == STARTING and now - actor.since > actor.patience * max(limit, 60.0):
                found.append((actor.index, actor.incarnation))
            elif actor.asked:
                usual = statistics.median(actor.durations) if actor.durations else 0.0
                waited = now - max(actor.asked[0][1], actor.answered_at, actor.since)
                if waited > actor.patience * limit + 3 * usual:
                    found.append((actor.index, actor.incarnation))
        return found

    # -- giving up ----------------------------------------------------------------------------------------------------

    def alive(self) -> int:
        """Number of actors that are ready."""
        return sum(actor.status == READY for actor in self.actors)

    def may_begin(self) -> bool:
        """Are enough actors ready to begin?"""
        return self.alive() >= self._cluster.min_actors

    def hopeless(self, now: float) -> str | None:
        """Explain why the run must end; None if it need not.

        An environment that raises in every actor before any unroll was accepted is a bug rather than a fault: the
        run ends with its error.
        """
        staying = [actor for actor in self.actors if not actor.leaving]
        ends = [actor.last for actor in staying]
        if not self.counts["accepted"] and all(end is not None and end.kind == RAISED for end in ends):
            return ends[0].message if ends[0] is not None else None
        left, cluster = sum(actor.status != FAILED for actor in staying), self._cluster
        if left < (len(staying) if cluster.lockstep else cluster.min_actors):
            least = "a round of lockstep needs all" if cluster.lockstep else f"min_actors is {cluster.min_actors}"
            return f"only {left} of {len(staying)} actors are left; {least}:\n{self.table(now)}"
        if now - self.moved_at > self._cluster.stall_timeout_s:
            return f"no progress for {now - self.moved_at:.0f} s:\n{self.table(now)}"
        return None

    def table(self, now: float) -> str:
        """Status of each actor, one line each."""
        return "\n".join(self._line(actor, now) for actor in self.actors if actor.status != LEFT)

    def _line(self, actor: ActorState, now: float) -> str:
        doing = {
            ABSENT: f"restarts in {max(actor.start_at - now, 0):.0f} s",
            STARTING: f"starting for {now - actor.since:.0f} s",
            FAILED: "given up",
        }.get(actor.status)
        if doing is None:
            doing = "waits for a request" if not actor.asked else f"asked {now - actor.asked[0][1]:.0f} s ago"
        end = "" if actor.last is None else f"; last end: {actor.last.kind}: {actor.last.message}"
        return f"  actor {actor.index}, incarnation {actor.incarnation}: {doing}{end}"

    def _new(self, index: int) -> ActorState:
        return ActorState(index, incarnation=self._before[index] if index < len(self._before) else -1)

    def _become(self, actor: ActorState, status: str, now: float) -> None:
        actor.status, actor.since, actor.answered_at = status, now, now
