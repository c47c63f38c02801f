"""The backend's interface to the driver, and the events it reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from ..core.errors import ClusterError
from ..core.protocols import Array, State
from .actor import ActorSpec
from .planner import DAMAGED
from .replay import Inserted, Refused
from .unrolls import Head, Request, Unroll, UnrollId


class Started(NamedTuple):
    """An incarnation of an actor is ready."""

    actor: int
    incarnation: int


class Collected(NamedTuple):
    """An unroll arrived, here or in a shard; the other field is None."""

    unroll: Unroll | None
    inserted: Inserted | None = None

    @property
    def head(self) -> Head:
        """The head of the unroll."""
        if self.inserted is not None:
            return self.inserted.head
        assert self.unroll is not None
        return self.unroll.head


class Lost(NamedTuple):
    """An unroll was collected, and lost with the shard it was sent to."""

    id: UnrollId


class Emptied(NamedTuple):
    """A shard ended, and its contents are lost; an empty one replaces it."""

    shard: int
    message: str


class Gone(NamedTuple):
    """An incarnation of an actor ended; ``kind`` is one of the planner's."""

    actor: int
    incarnation: int
    kind: str
    message: str


def event_of(inserted: Inserted | Refused) -> Collected | Gone:
    """Convert a shard's answer to an event."""
    if isinstance(inserted, Refused):
        return Gone(inserted.id.actor, inserted.id.incarnation, DAMAGED, inserted.why)
    return Collected(None, inserted)


class NodeLostError(ClusterError):
    """The backend itself has ended: no process can be reached any more."""


Event: TypeAlias = Started | Collected | Lost | Emptied | Gone


class Backend(Protocol):
    """Runs actors. Only :meth:`wait` blocks."""

    shards: Any
    """See :class:`.replay.Shards`; unused if unrolls go to the driver."""

    def start(self, made: ActorSpec) -> None:
        """Start an incarnation; :class:`Started` or :class:`Gone` follows."""

    def ask(self, request: Request) -> None:
        """Request an unroll from a started actor; an actor answers its requests in order."""

    def publish(self, version: int, weights: Mapping[str, Array], statistics: State | None = None) -> None:
        """Set the newest weights, and the statistics of normalising wrappers.

        Actors take them before their next unroll.
        """

    def wait(self, timeout: float) -> Sequence[Event]:
        """Return what has happened; block for at most ``timeout`` seconds if nothing has.

        Raises:
            NodeLostError: the backend itself has ended.
        """

    def kill(self, actor: int) -> None:
        """End an actor's process, if there is one; it causes no further events."""

    def close(self, *, saves: bool) -> None:
        """End all actors and shards; with ``saves``, fetch the shards' contents first, for a last checkpoint."""
