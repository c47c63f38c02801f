"""The processes of Ray: actors, the store of weights, replay shards.

None of them loads TensorFlow, unless ``actor_runtime="tensorflow"`` was requested.
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
from .actor import ActorSpec, Collector
from .message_chunks import Rows, StateAssembler, outline_of, read
from .replay import Drawn, Shard, ShardPlan, Stored
from .unrolls import Head, Request, Unroll

_T = TypeVar("_T")
_R = TypeVar("_R")

WEIGHTS_S: Final = 30.0
"""Seconds an actor waits for new weights before it continues with its own."""


class Ready(NamedTuple):
    """Answer of a new actor: its process, and the versions installed there."""

    pid: int
    versions: Mapping[str, str]


class Raised(NamedTuple):
    """Answer of an actor whose environment raised. Ray would print a real error that is never fetched."""

    message: str


def _result_or_raised(function: Callable[[_T], _R], argument: _T) -> _R | Raised:
    try:
        return function(argument)
    except Exception as error:
        return Raised(message_of(error))


def versions() -> dict[str, str]:
    """Versions that must be the same on all nodes."""
    return {"axonrl": __version__, "ai-edge-litert": importlib.metadata.version("ai-edge-litert")}


class ActorProcess:
    """A process that acts: it builds an actor, then answers requests in order."""

    def __init__(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the driver handles Ctrl-C
        self._collector: Collector | None = None
        self._store: Any = None

    def begin(self, made: ActorSpec, program: ActorProgram, store: Any) -> Ready | Raised:
        """Build the actor. ``program`` is separate, since all actors share it."""
        for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
            os.environ.setdefault(
                name, "1"
            )  # one thread each, should it load TensorFlow: other cores belong to other actors
        self._store = store
        collector = _result_or_raised(Collector, dataclasses.replace(made, program=program))
        if isinstance(collector, Raised):
            return collector
        self._collector = collector
        return Ready(os.getpid(), versions())

    def take_from(self, store: Any) -> None:
        """Read new weights from another store."""
        self._store = store

    def collect(self, request: Request) -> Unroll | Raised:
        """Collect the next unroll, with the newest weights."""
        assert self._collector is not None
        self._renew(self._collector, request.version)
        return _result_or_raised(lambda collector: collector.collect(request), self._collector)

    def collect_apart(self, request: Request) -> tuple[Head | Raised, Unroll | None]:
        """Collect, and return head and unroll as separate objects, so that the driver fetches only the first."""
        unroll = self.collect(request)
        return (unroll, None) if isinstance(unroll, Raised) else (unroll.head, unroll)

    def _renew(self, collector: Collector, version: int) -> None:
        if version <= collector.version:
            return
        import ray

        # A lost store or driver is replaced, or ends the actor; until then the old weights are used.
        with contextlib.suppress(ray.exceptions.RayError):
            newest = ray.get(self._store.newest.remote(collector.version), timeout=WEIGHTS_S)
            if newest is not None:
                version, [content] = newest
                collector.set_weights(version, *ray.get(content, timeout=WEIGHTS_S))


class WeightStore:
    """References to the newest weights, and to recent ones that actors may still be reading."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, Sequence[Any]]] = deque(maxlen=2)

    def publish(self, version: int, weights: Sequence[Any]) -> None:
        """Hold a reference, in a list since Ray would otherwise pass its value."""
        self._held.append((version, weights))

    def newest(self, known: int) -> tuple[int, Sequence[Any]] | None:
        """Return the newest version and its reference; None if it is already known."""
        return self._held[-1] if self._held and self._held[-1][0] > known else None


class ShardProcess(Shard):
    """A replay shard in its own process."""

    def __init__(self, plan: ShardPlan, incarnation: int) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        super().__init__(plan, incarnation)
        self._leaves: Sequence[Any] = ()

    def pid(self) -> int:
        """Id of this process."""
        return os.getpid()

    def draw(self, number: int, batches: int) -> list[Drawn]:
        """Draw this many batches, after ``batches`` from all shards."""
        return [self.sample(batches) for _ in range(number)]

    def outline(self) -> State:
        """State of the shard without its arrays, which :meth:`rows` returns until the next insert."""
        with as_views():
            outline, self._leaves = outline_of(self.state())
        return outline

    def rows(self, message: Sequence[Rows]) -> list[Array]:
        """Read rows of the arrays in the outline."""
        return read(self._leaves, message)

    def expect(self, outline: State) -> None:
        """Prepare to receive a state by :meth:`put`."""
        self._coming = StateAssembler(outline)

    def put(self, message: Sequence[Rows], rows: Sequence[Array]) -> None:
        """Receive rows of the state."""
        self._coming.put(message, rows)

    def load_received(self) -> Stored:
        """Restore the received state."""
        state = self._coming.state()
        del self._coming
        return self.load(state)
