"""What a backend does for the driver, and what it tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ..core.errors import ClusterError
from ..core.protocols import Array, State
from .actor import Collecting
from .planner import DAMAGED
from .replay import Inserted, Refused
from .unrolls import Head, Request, Unroll, UnrollId


class Started(NamedTuple):
    """An incarnation of an actor is ready."""

    actor: int
    incarnation: int


class Collected(NamedTuple):
    """An unroll has come: here, or in a shard; the other is None."""

    unroll: Unroll | None
    inserted: Inserted | None = None

    @property
    def head(self) -> Head:
        """Which unroll."""
        if self.inserted is not None:
            return self.inserted.head
        assert self.unroll is not None
        return self.unroll.head


class Lost(NamedTuple):
    """An unroll was made, and lost with the shard that it was sent to."""

    id: UnrollId


class Emptied(NamedTuple):
    """A shard ended, with all that it held; an empty one follows it."""

    shard: int
    message: str


class Gone(NamedTuple):
    """An incarnation of an actor ended; ``kind`` is one of the planner's."""

    actor: int
    incarnation: int
    kind: str
    message: str


def became(inserted: Inserted | Refused) -> Collected | Gone:
    """What a shard's answer means."""
    if isinstance(inserted, Refused):
        return Gone(inserted.id.actor, inserted.id.incarnation, DAMAGED, inserted.why)
    return Collected(None, inserted)


class NodeLostError(ClusterError):
    """What the backend itself needs has ended: nobody can be asked for anything any more."""


Event: TypeAlias = Started | Collected | Lost | Emptied | Gone


class Backend(Protocol):
    """Actors, somewhere. No method but :meth:`wait` waits for them."""

    def start(self, made: Collecting) -> None:
        """Start an incarnation; :class:`Started` or :class:`Gone` follows."""

    def ask(self, request: Request) -> None:
        """Ask a started actor for an unroll; answers of one actor come in the order of its requests."""

    def publish(self, version: int, weights: Mapping[str, Array], statistics: State | None = None) -> None:
        """From now on these are the newest weights, and what normalising wrappers have learnt.

        Actors take them before their next unroll.
        """

    def wait(self, timeout: float) -> Sequence[Event]:
        """What has happened; waits for something at most so many seconds.

        Raises:
            NodeLostError: what it needs itself has ended.
        """

    def kill(self, actor: int) -> None:
        """End an actor's process, if there is one; nothing more is heard of it."""

    def close(self, *, saves: bool) -> None:
        """End all actors and shards; ``saves``: what shards hold is asked for first, for a last checkpoint."""
