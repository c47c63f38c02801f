"""All roles in this process, one after the other: for tests, debugging, and measuring the cost of processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ..core.errors import BrokenEnvironmentError, NonFiniteError, message_of
from ..core.protocols import Array, State
from .actor import ActorSpec, Collector
from .events import Collected, Event, Gone, Started, event_of
from .planner import RAISED
from .replay import Drawn, Shard, Stored
from .unrolls import Request


class Inline:
    """Actors that run only inside :meth:`wait`, one unroll per call.

    Args:
        shards: those of actor i go to shard i modulo their number; empty if unrolls go to the driver.
    """

    def __init__(self, shards: Sequence[Shard] = ()) -> None:
        self._shards = shards
        self._collectors: dict[int, Collector] = {}
        self._requests: deque[Request] = deque()
        self._newest: tuple[int, Mapping[str, Array], State | None] | None = None
        self._events: list[Event] = []
        self.shards = InlineShards(shards)

    def start(self, made: ActorSpec) -> None:
        """Build an actor at once."""
        try:
            self._collectors[made.actor] = Collector(made)
        except (BrokenEnvironmentError, NonFiniteError) as error:
            self._events.append(Gone(made.actor, made.incarnation, RAISED, message_of(error)))
        else:
            self._events.append(Started(made.actor, made.incarnation))

    def ask(self, request: Request) -> None:
        """Queue a request."""
        self._requests.append(request)

    def publish(self, version: int, weights: Mapping[str, Array], statistics: State | None = None) -> None:
        """Keep the weights, and the statistics of normalising wrappers, for the next unroll."""
        self._newest = version, weights, statistics

    def wait(self, timeout: float) -> Sequence[Event]:
        """Return pending events, or else collect the next unroll."""
        if not self._events and self._requests:
            self._collect(self._requests.popleft())
        events, self._events = self._events, []
        return events

    def _collect(self, request: Request) -> None:
        actor, incarnation, _ = request.id
        collector = self._collectors.get(actor)
        if collector is None or collector.incarnation != incarnation:
            return
        if self._newest is not None and self._newest[0] != collector.version:
            collector.set_weights(*self._newest)
        try:
            unroll = collector.collect(request)
            if self._shards:
                inserted = self._shards[actor % len(self._shards)].insert(unroll)
                self._events.append(event_of(inserted))
            else:
                self._events.append(Collected(unroll))
        except (BrokenEnvironmentError, NonFiniteError) as error:
            self.kill(actor)
            self._events.append(Gone(actor, incarnation, RAISED, message_of(error)))

    def kill(self, actor: int) -> None:
        """Close an actor's environments, and drop its events: the driver would take them for its successor's."""
        self._events = [one for one in self._events if not isinstance(one, Started | Gone) or one.actor != actor]
        collector = self._collectors.pop(actor, None)
        if collector is not None:
            collector.close()

    def close(self, *, saves: bool) -> None:
        """Close all environments; shards stay unchanged."""
        for actor in list(self._collectors):
            self.kill(actor)


class InlineShards:
    """Shards in this process."""

    def __init__(self, shards: Sequence[Shard]) -> None:
        self._shards = shards
        self.ignored = 0
        """Priority updates for transitions that had been overwritten."""

    def sample(self, shard: int, batches: int = 0, seed: int | None = None) -> Drawn | None:
        """Draw a batch from a shard."""
        return self._shards[shard].sample(batches, seed)

    def update(self, shard: int, incarnation: int, tickets: Array, td_error: Array) -> None:
        """Update priorities in a shard."""
        self.ignored += self._shards[shard].update(tickets, td_error)

    def states(self) -> list[State]:
        """State of each shard."""
        return [shard.state() for shard in self._shards]

    def load(self, states: Sequence[State]) -> list[Stored]:
        """Restore states returned by :meth:`states`."""
        return [shard.load(state) for shard, state in zip(self._shards, states, strict=True)]
