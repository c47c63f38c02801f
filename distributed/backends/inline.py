"""Every role in this process, one after the other: for tests, for finding errors, and to see what processes cost."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from ...contracts import Array
from ...errors import BrokenEnvironmentError, NonFiniteError
from ..collecting import Collecting, Collector
from ..fragments import Request
from ..planner import RAISED
from .events import Collected, Event, Gone, Started


class Inline:
    """Actors that work when they are waited for: one fragment in each call of :meth:`wait`."""

    def __init__(self) -> None:
        self._collectors: dict[int, Collector] = {}
        self._requests: deque[Request] = deque()
        self._newest: tuple[int, Mapping[str, Array]] | None = None
        self._events: list[Event] = []

    def start(self, made: Collecting) -> None:
        """Make an actor, at once."""
        try:
            self._collectors[made.actor] = Collector(made)
        except (BrokenEnvironmentError, NonFiniteError) as error:
            self._events.append(Gone(made.actor, made.incarnation, RAISED, str(error)))
        else:
            self._events.append(Started(made.actor, made.incarnation))

    def ask(self, request: Request) -> None:
        """Note a request."""
        self._requests.append(request)

    def publish(self, version: int, weights: Mapping[str, Array]) -> None:
        """Note the weights."""
        self._newest = version, weights

    def wait(self, timeout: float) -> Sequence[Event]:
        """What was noted, or else the next fragment."""
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
            self._events.append(Collected(collector.collect(request)))
        except (BrokenEnvironmentError, NonFiniteError) as error:
            self.kill(actor)
            self._events.append(Gone(actor, incarnation, RAISED, str(error)))

    def kill(self, actor: int) -> None:
        """Close an actor's environments."""
        collector = self._collectors.pop(actor, None)
        if collector is not None:
            collector.close()

    def close(self) -> None:
        """Close all environments."""
        for actor in list(self._collectors):
            self.kill(actor)
