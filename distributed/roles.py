"""What runs in Ray's processes: actors, the store of weights, replay shards.

None of it loads TensorFlow, unless ``actor_runtime="tensorflow"`` was asked for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from ..core.chunked_arrays import as_views
from ..core.errors import message_of
from ..core.protocols import Array, State
from ..policies.actor import ActorProgram
from ..version import __version__
from .actor import Collecting, Collector
from .message_chunks import Assembled, Rows, outlined, read
from .replay import Drawn, Inserted, Refused, ShardPlan, Stored
from .unrolls import Head, Request, Unroll

_T = TypeVar("_T")
_R = TypeVar("_R")

WEIGHTS_S: Final = 30.0
"""An actor waits so long for new weights before it goes on with those it has."""


class Ready(NamedTuple):
    """An actor's answer when it is made: its process, and what is installed there."""

    pid: int
    versions: Mapping[str, str]


class Raised(NamedTuple):
    """An actor's answer where its environment raised. As errors, Ray would print those that nobody fetches."""

    message: str


def _tried(function: Callable[[_T], _R], argument: _T) -> _R | Raised:
    try:
        return function(argument)
    except Exception as error:
        return Raised(message_of(error))


def versions() -> dict[str, str]:
    """Of what must be the same on all nodes."""
    return {"axonrl": __version__, "ai-edge-litert": importlib.metadata.version("ai-edge-litert")}


class ActorProcess:
    """A process that acts; it is made, and then answers requests in their order."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver
        self._collector: Collector | None = None
        self._store: Any = None

    def begin(self, made: Collecting, program: ActorProgram, store: Any) -> Ready | Raised:
        """Make the actor. The program comes apart, since all actors have the same."""
        for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
            os.environ.setdefault(name, "1")  # where it loads TensorFlow at all; cores are for other actors
        self._store = store
        collector = _tried(Collector, dataclasses.replace(made, program=program))
        if isinstance(collector, Raised):
            return collector
        self._collector = collector
        return Ready(os.getpid(), versions())

    def take_from(self, store: Any) -> None:
        """New weights are in another store now."""
        self._store = store

    def collect(self, request: Request) -> Unroll | Raised:
        """The next unroll, with the newest weights."""
        assert self._collector is not None
        self._renew(self._collector, request.version)
        return _tried(lambda collector: collector.collect(request), self._collector)

    def collect_apart(self, request: Request) -> tuple[Head | Raised, Unroll | None]:
        """As :meth:`collect`; as two objects, so that the driver reads the first alone."""
        unroll = self.collect(request)
        return (unroll, None) if isinstance(unroll, Raised) else (unroll.head, unroll)

    def _renew(self, collector: Collector, version: int) -> None:
        if version <= collector.version:
            return
        import ray

        # A store or a driver that is gone will be replaced, or ends the actor; old weights do until then.
        with contextlib.suppress(ray.exceptions.RayError):
            newest = ray.get(self._store.newest.remote(collector.version), timeout=WEIGHTS_S)
            if newest is not None:
                version, [content] = newest
                collector.set_weights(version, *ray.get(content, timeout=WEIGHTS_S))


class WeightStore:
    """References to the newest weights, and to those before, which actors may be about to read."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, Sequence[Any]]] = deque(maxlen=2)

    def publish(self, version: int, weights: Sequence[Any]) -> None:
        """Hold a reference, in a list: Ray would pass its value otherwise."""
        self._held.append((version, weights))

    def newest(self, known: int) -> tuple[int, Sequence[Any]] | None:
        """The newest version and its reference; None if it is the known one."""
        return self._held[-1] if self._held and self._held[-1][0] > known else None


class ShardProcess:
    """A replay shard in a process of its own."""

    def __init__(self, plan: ShardPlan, incarnation: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._shard = plan.make(incarnation)
        self._leaves: Sequence[Any] = ()

    def pid(self) -> int:
        """Of this process."""
        return os.getpid()

    def insert(self, unroll: Unroll) -> Inserted | Refused:
        """As of the shard."""
        return self._shard.insert(unroll)

    def sample(self, number: int) -> list[Drawn]:
        """So many batches."""
        return [self._shard.sample() for _ in range(number)]

    def update(self, tickets: Array, td_error: Array) -> int:
        """As of the shard."""
        return self._shard.update(tickets, td_error)

    def outline(self) -> State:
        """What the shard holds, without its arrays: those :meth:`rows` returns until something is inserted."""
        with as_views():
            outline, self._leaves = outlined(self._shard.state())
        return outline

    def rows(self, message: Sequence[Rows]) -> list[Array]:
        """Of these arrays."""
        return read(self._leaves, message)

    def expect(self, outline: State) -> None:
        """A state begins to come, by :meth:`put`."""
        self._coming = Assembled(outline)

    def put(self, message: Sequence[Rows], rows: Sequence[Array]) -> None:
        """Rows of it."""
        self._coming.put(message, rows)

    def load(self) -> Stored:
        """It is whole: hold it."""
        state = self._coming.state()
        del self._coming
        return self._shard.load(state)
