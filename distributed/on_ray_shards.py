"""Replay shards as Ray actors: unrolls bypass the driver, and batches are prefetched."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..core.errors import ClusterError
from ..core.protocols import Array, State
from . import message_chunks
from .events import Emptied, Event, Gone, Lost, event_of
from .message_chunks import StateAssembler, leaves_of, outline_of, read
from .planner import RAISED
from .ray_connection import DiskFullError, refusing_full_disk
from .replay import Drawn, Shard, ShardPlan, Stored
from .unrolls import UnrollId

_OPEN_UPDATES: Final = 4
"""Maximum number of unacknowledged priority updates per shard."""


@dataclasses.dataclass
class _Shard:
    """An incarnation of a shard, and its open requests, oldest first."""

    handle: Any
    incarnation: int
    pid: Any
    """Answer to the first call."""
    inserts: deque[tuple[UnrollId, Any]] = dataclasses.field(default_factory=deque)
    samples: deque[Any] = dataclasses.field(default_factory=deque)
    batches: deque[Drawn] = dataclasses.field(default_factory=deque)
    """Batches received and not used."""
    priorities: list[tuple[Array, Array]] = dataclasses.field(default_factory=list)
    """Tickets and TD errors not sent yet."""
    updates: deque[Any] = dataclasses.field(default_factory=deque)


class RayShards:
    """The shards of a replay memory.

    Args:
        plans: one for each shard.
        launch: makes a Ray actor for a plan and an incarnation.
        await_created: returns when all processes have started.
        prefetch: batches requested from a shard ahead of use. With 0, priorities are sent at once, and a shard works in
            the same order as in one process.
        timeout_s: a shard that takes longer to answer is replaced.
    """

    def __init__(
        self,
        plans: Sequence[ShardPlan],
        launch: Callable[[ShardPlan, int], Any],
        await_created: Callable[[], None],
        prefetch: int,
        timeout_s: float,
    ) -> None:
        self._plans, self._launch, self._await_created = plans, launch, await_created
        self._prefetch, self._timeout = prefetch, timeout_s
        self.ignored = 0
        """Priority updates that came too late."""
        self._events: list[Event] = []
        self._shards = [self._start_shard(index, 0) for index in range(len(plans))]
        self._saved: list[State] | None = None

    # -- inserting ----------------------------------------------------------------------------------------------------

    def insert(self, unroll: UnrollId, reference: Any) -> None:
        """Pass an unroll to its shard, by reference."""
        shard = self._shards[unroll.actor % len(self._shards)]
        shard.inserts.append((unroll, shard.handle.insert.remote(reference)))

    def waited_for(self) -> list[Any]:
        """References whose results :meth:`arrived` takes."""
        return [reference for shard in self._shards for _, reference in shard.inserts]

    def arrived(self, ready: set[Any]) -> list[Event]:
        """Return the outcome of inserts that are ready, and the shards that ended."""
        for index, shard in enumerate(self._shards):
            while shard.inserts and shard.inserts[0][1] in ready and shard is self._shards[index]:
                self._confirm(index, shard)
        events, self._events = self._events, []
        return events

    def _confirm(self, index: int, shard: _Shard) -> None:
        import ray

        unroll, reference = shard.inserts[0]
        try:
            inserted = self._value(index, reference)
        except ray.exceptions.ObjectLostError:  # the unroll was lost with its node
            shard.inserts.popleft()
            self._events.append(Lost(unroll))
        except DiskFullError as error:  # the actor's process could not store the unroll
            shard.inserts.popleft()
            self._events.append(Gone(unroll.actor, unroll.incarnation, RAISED, str(error)))
        else:
            if inserted is not None:
                shard.inserts.popleft()
                self._events.append(event_of(inserted))

    # -- sampling -----------------------------------------------------------------------------------------------------

    def sample(self, index: int, batches: int = 0, seed: int | None = None) -> Drawn | None:
        """Return a batch, prefetched if possible; None if the shard has ended. With a seed it is drawn apart."""
        shard = self._shards[index]
        if seed is not None:
            apart: Drawn | None = self._value(index, shard.handle.sample.remote(batches, seed))
            return apart
        if not shard.batches:
            if not self._send_priorities(index, shard):
                return None
            self._ask(shard, batches, at_least=1)
            drawn = self._value(index, shard.samples.popleft())
            if drawn is None:
                return None
            shard.batches.extend(drawn)
            self._ask(shard, batches)
        return shard.batches.popleft()

    def _ask(self, shard: _Shard, batches: int, at_least: int = 0) -> None:
        """Request several batches per message, which takes longer than a small batch; two messages alternate."""
        messages = max(min(2, self._prefetch), at_least)
        while len(shard.samples) < messages:
            shard.samples.append(shard.handle.draw.remote(max(-(-self._prefetch // messages), 1), batches))

    def update(self, index: int, incarnation: int, tickets: Array, td_error: Array) -> None:
        """Queue new priorities; they are sent when the received batches are used up."""
        shard = self._shards[index]
        if incarnation == shard.incarnation:
            shard.priorities.append((tickets, td_error))
            if not self._prefetch:
                self._send_priorities(index, shard)
        else:
            self.ignored += len(tickets)

    def _send_priorities(self, index: int, shard: _Shard) -> bool:
        """Send priorities asynchronously; block only when too many are in flight. False if the shard has ended."""
        if shard.priorities:
            while len(shard.updates) >= _OPEN_UPDATES:
                ignored = self._value(index, shard.updates.popleft())
                if ignored is None:
                    return False
                self.ignored += ignored
            tickets, td_errors = (np.concatenate(arrays) for arrays in zip(*shard.priorities, strict=True))
            shard.priorities.clear()
            shard.updates.append(shard.handle.update.remote(tickets, td_errors))
        return True

    # -- saving, ending -----------------------------------------------------------------------------------------------

    def states(self) -> list[State]:
        """State of each shard; empty for one that has ended."""
        if self._saved is not None:
            return self._saved
        found = []
        for index, plan in enumerate(self._plans):
            self._send_priorities(index, self._shards[index])
            state = self._state(index)
            found.append(Shard(plan).state() if state is None else state)
        return found

    def _state(self, index: int) -> State | None:
        """Fetch a shard's state, in messages that fit into the object store; None if it has ended."""
        handle = self._shards[index].handle
        outline = self._value(index, handle.outline.remote())
        if outline is None:
            return None
        whole = StateAssembler(outline)
        for message in message_chunks.messages(leaves_of(outline), message_chunks.PART_BYTES):
            rows = self._value(index, handle.rows.remote(message))
            if rows is None:
                return None
            whole.put(message, rows)
            del rows  # free the object store before the next message
        return whole.state()

    def load(self, states: Sequence[State]) -> list[Stored]:
        """Restore states returned by :meth:`states`."""
        self._await_created()
        return [self._load(index, state) for index, state in enumerate(states)]

    @refusing_full_disk()
    def _load(self, index: int, state: State) -> Stored:
        import ray

        handle = self._shards[index].handle
        outline, leaves = outline_of(state)
        try:
            ray.get(handle.expect.remote(outline), timeout=self._timeout)
            for message in message_chunks.messages(leaves_of(outline), message_chunks.PART_BYTES):
                ray.get(handle.put.remote(message, read(leaves, message)), timeout=self._timeout)
            stored: Stored = ray.get(handle.load_received.remote(), timeout=self._timeout)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            raise ClusterError(f"the contents of replay shard {index} cannot be restored: {_why(error)}") from error
        return stored

    def close(self, *, saves: bool) -> None:
        """Fetch the shards' contents for the last checkpoint, if wanted, and end them."""
        import ray

        try:
            self._saved = self.states() if saves else []
        finally:
            for shard in self._shards:
                ray.kill(shard.handle)
            self._shards.clear()  # unused results would keep their place in the object store

    @refusing_full_disk()
    def _value(self, index: int, reference: Any) -> Any:
        """A shard's answer; None if it has ended or does not answer, and was replaced by an empty one."""
        import ray

        try:
            return ray.get(reference, timeout=self._timeout)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            if _could_not_begin(error):  # nor could another
                raise ClusterError(f"replay shard {index} cannot be made: {_why(error)}") from error
            self._replace(index, _why(error))
            return None

    def _replace(self, index: int, why: str) -> None:
        import ray

        shard = self._shards[index]
        ray.kill(shard.handle)
        self._events += [Lost(unroll) for unroll, _ in shard.inserts]
        self._events.append(Emptied(index, why))
        self._shards[index] = self._start_shard(index, shard.incarnation + 1)

    def _start_shard(self, index: int, incarnation: int) -> _Shard:
        handle = self._launch(self._plans[index], incarnation)
        return _Shard(handle, incarnation, handle.pid.remote())

    def created(self) -> list[tuple[str, Any]]:
        """Name of each shard, and a reference that is ready when its process is."""
        return [(f"shard {index}", shard.pid) for index, shard in enumerate(self._shards)]

    def are_created(self, timeout: float) -> bool:
        """Have all processes started? Waits up to ``timeout`` seconds."""
        import ray

        pids = [pid for _, pid in self.created()]
        return len(ray.wait(pids, num_returns=len(pids), timeout=timeout)[0]) == len(pids)

    def processes(self) -> dict[str, int]:
        """Ids of the processes that have reported them."""
        import ray

        found = {}
        for index, shard in enumerate(self._shards):
            if ray.wait([shard.pid], timeout=0)[0]:
                with contextlib.suppress(ray.exceptions.RayError):
                    found[f"shard {index}"] = ray.get(shard.pid, timeout=self._timeout)
        return found


def _could_not_begin(error: Exception) -> bool:
    """Did the shard raise when it was made, as where its node has too little memory?"""
    return bool(getattr(error, "actor_init_failed", False))


def _why(error: Exception) -> str:
    """Ray's message without its traceback, which ends with the shard's own error."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if _could_not_begin(error) else 0]
