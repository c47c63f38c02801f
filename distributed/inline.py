"""Every role in this process, one after the other: for tests, for finding errors, and to see what processes cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ..core.errors import BrokenEnvironmentError, NonFiniteError, message_of
from ..core.protocols import Array, State
from .actor import Collecting, Collector
from .events import Collected, Event, Gone, Started, became
from .planner import RAISED
from .replay import Drawn, Shard, Stored
from .unrolls import Request


class Inline:
    """Actors that work when they are waited for: one unroll in each call of :meth:`wait`.

    Args:
        shards: where unrolls go, those of actor i to shard i modulo their number; empty for the driver.
    """

    def __init__(self, shards: Sequence[Shard] = ()) -> None:
        self._shards = shards
        self._collectors: dict[int, Collector] = {}
        self._requests: deque[Request] = deque()
        self._newest: tuple[int, Mapping[str, Array], State | None] | None = None
        self._events: list[Event] = []
        self.ignored = 0
        """Priorities of transitions that were forgotten meanwhile."""

    def start(self, made: Collecting) -> None:
        """Make an actor, at once."""
        try:
            self._collectors[made.actor] = Collector(made)
        except (BrokenEnvironmentError, NonFiniteError) as error:
            self._events.append(Gone(made.actor, made.incarnation, RAISED, message_of(error)))
        else:
            self._events.append(Started(made.actor, made.incarnation))

    def ask(self, request: Request) -> None:
        """Note a request."""
        self._requests.append(request)

    def publish(self, version: int, weights: Mapping[str, Array], statistics: State | None = None) -> None:
        """Note the weights, and what normalising wrappers have learnt."""
        self._newest = version, weights, statistics

    def wait(self, timeout: float) -> Sequence[Event]:
        """What was noted, or else the next unroll."""
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
                self._events.append(became(inserted))
            else:
                self._events.append(Collected(unroll))
        except (BrokenEnvironmentError, NonFiniteError) as error:
            self.kill(actor)
            self._events.append(Gone(actor, incarnation, RAISED, message_of(error)))

    def kill(self, actor: int) -> None:
        """Close an actor's environments."""
        collector = self._collectors.pop(actor, None)
        if collector is not None:
            collector.close()

    # -- shards -------------------------------------------------------------------------------------------------------

    def sample(self, shard: int) -> Drawn | None:
        """A batch of one of them."""
        return self._shards[shard].sample()

    def update(self, shard: int, incarnation: int, tickets: Array, td_error: Array) -> None:
        """New priorities."""
        self.ignored += self._shards[shard].update(tickets, td_error)

    def states(self) -> list[State]:
        """What each of them holds."""
        return [shard.state() for shard in self._shards]

    def load(self, states: Sequence[State]) -> list[Stored]:
        """Hand back what :meth:`states` returned."""
        return [shard.load(state) for shard, state in zip(self._shards, states, strict=True)]

    def close(self, *, saves: bool) -> None:
        """Close all environments; shards stay as they are."""
        for actor in list(self._collectors):
            self.kill(actor)
