"""Replay shards as Ray actors: unrolls reach them without the driver, batches are asked for ahead."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..core.protocols import Array, State
from . import message_chunks
from .events import Emptied, Event, Lost, became
from .message_chunks import Assembled, leaves_of, outlined, read
from .replay import Drawn, ShardPlan, Stored
from .unrolls import UnrollId

_OPEN_UPDATES: Final = 4
"""Priority updates of a shard that nobody has waited for."""


@dataclasses.dataclass
class _Shard:
    """An incarnation of a shard, and what it was asked for, oldest first."""

    handle: Any
    incarnation: int
    pid: Any
    """Its answer to the first question."""
    inserts: deque[tuple[UnrollId, Any]] = dataclasses.field(default_factory=deque)
    samples: deque[Any] = dataclasses.field(default_factory=deque)
    batches: deque[Drawn] = dataclasses.field(default_factory=deque)
    """Those that have come."""
    priorities: list[tuple[Array, Array]] = dataclasses.field(default_factory=list)
    """Tickets and TD errors that were not sent yet."""
    updates: deque[Any] = dataclasses.field(default_factory=deque)


class RayShards:
    """The shards of a replay memory.

    Args:
        plans: what they are made from.
        launch: makes a Ray actor of a plan and an incarnation.
        prefetch: batches that are asked of a shard ahead. 0: none, and priorities are sent at once, so that a shard
            does all in the order in which it would in one process.
        timeout_s: a shard that answers so late is replaced.
    """

    def __init__(
        self, plans: Sequence[ShardPlan], launch: Callable[[ShardPlan, int], Any], prefetch: int, timeout_s: float
    ) -> None:
        self._plans, self._launch = plans, launch
        self._prefetch, self._timeout = prefetch, timeout_s
        self.ignored = 0
        """Priorities that came too late."""
        self._events: list[Event] = []
        self._shards = [self._made(index, 0) for index in range(len(plans))]
        self._saved: list[State] | None = None

    def __len__(self) -> int:
        return len(self._plans)

    # -- inserting ----------------------------------------------------------------------------------------------------

    def insert(self, unroll: UnrollId, reference: Any) -> None:
        """Hand an unroll on to its shard, by reference."""
        shard = self._shards[unroll.actor % len(self._shards)]
        shard.inserts.append((unroll, shard.handle.insert.remote(reference)))

    def waited_for(self) -> list[Any]:
        """References whose results :meth:`arrived` takes."""
        return [reference for shard in self._shards for _, reference in shard.inserts]

    def arrived(self, ready: set[Any]) -> list[Event]:
        """What became of the inserts that are ready, and of shards that ended meanwhile."""
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
        except ray.exceptions.ObjectLostError:  # the unroll, with its node
            shard.inserts.popleft()
            self._events.append(Lost(unroll))
        else:
            if inserted is not None:
                shard.inserts.popleft()
                self._events.append(became(inserted))

    # -- sampling -----------------------------------------------------------------------------------------------------

    def sample(self, index: int) -> Drawn | None:
        """A batch, that was asked for before if possible; None if the shard has ended."""
        shard = self._shards[index]
        if not shard.batches:
            if not self._send_priorities(index, shard):
                return None
            self._ask(shard, at_least=1)
            drawn = self._value(index, shard.samples.popleft())
            if drawn is None:
                return None
            shard.batches.extend(drawn)
            self._ask(shard)
        return shard.batches.popleft()

    def _ask(self, shard: _Shard, at_least: int = 0) -> None:
        """Messages of several batches, since a message takes longer than a small batch; one while another is used."""
        messages = max(min(2, self._prefetch), at_least)
        while len(shard.samples) < messages:
            shard.samples.append(shard.handle.sample.remote(max(-(-self._prefetch // messages), 1)))

    def update(self, index: int, incarnation: int, tickets: Array, td_error: Array) -> None:
        """New priorities; they are sent when the batches that have come are used up."""
        shard = self._shards[index]
        if incarnation == shard.incarnation:
            shard.priorities.append((tickets, td_error))
            if not self._prefetch:
                self._send_priorities(index, shard)
        else:
            self.ignored += len(tickets)

    def _send_priorities(self, index: int, shard: _Shard) -> bool:
        """Nobody waits for them, but if too many messages are open. False if the shard has ended."""
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
        """What each of them holds; one that has ended holds nothing."""
        if self._saved is not None:
            return self._saved
        found = []
        for index, plan in enumerate(self._plans):
            self._send_priorities(index, self._shards[index])
            state = self._state(index)
            found.append(plan.make().state() if state is None else state)
        return found

    def _state(self, index: int) -> State | None:
        """What a shard holds, in messages that the object store has room for; None if it has ended."""
        handle = self._shards[index].handle
        outline = self._value(index, handle.outline.remote())
        if outline is None:
            return None
        whole = Assembled(outline)
        for message in message_chunks.messages(leaves_of(outline), message_chunks.PART_BYTES):
            rows = self._value(index, handle.rows.remote(message))
            if rows is None:
                return None
            whole.put(message, rows)
            del rows  # before the next ones: these are in the object store
        return whole.state()

    def load(self, states: Sequence[State]) -> list[Stored]:
        """Hand back what :meth:`states` returned."""
        return [self._load(shard.handle, state) for shard, state in zip(self._shards, states, strict=True)]

    def _load(self, handle: Any, state: State) -> Stored:
        import ray

        outline, leaves = outlined(state)
        ray.get(handle.expect.remote(outline), timeout=self._timeout)
        for message in message_chunks.messages(leaves_of(outline), message_chunks.PART_BYTES):
            ray.get(handle.put.remote(message, read(leaves, message)), timeout=self._timeout)
        stored: Stored = ray.get(handle.load.remote(), timeout=self._timeout)
        return stored

    def close(self, *, saves: bool) -> None:
        """Keep what they hold for the last checkpoint, if it is to be saved, and end them."""
        import ray

        try:
            self._saved = self.states() if saves else []
        finally:
            for shard in self._shards:
                ray.kill(shard.handle)
            self._shards.clear()  # what came of them, and was not used, would keep its place in the object store

    def _value(self, index: int, reference: Any) -> Any:
        """A shard's answer; None if it has ended, or does not answer: then it is replaced by an empty one."""
        import ray

        try:
            return ray.get(reference, timeout=self._timeout)
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
            self._replace(index, str(error).partition("\n")[0])
            return None

    def _replace(self, index: int, why: str) -> None:
        import ray

        shard = self._shards[index]
        ray.kill(shard.handle)
        self._events += [Lost(unroll) for unroll, _ in shard.inserts]
        self._events.append(Emptied(index, why))
        following = shard.incarnation + 1
        self._shards[index] = self._made(index, following)

    def _made(self, index: int, incarnation: int) -> _Shard:
        handle = self._launch(self._plans[index], incarnation)
        return _Shard(handle, incarnation, handle.pid.remote())

    def created(self) -> list[tuple[str, Any]]:
        """Of each its name, and what is there when its process is."""
        return [(f"shard {index}", shard.pid) for index, shard in enumerate(self._shards)]

    def are_created(self, timeout: float) -> bool:
        """Are all processes there? Waits so long for them."""
        import ray

        pids = [pid for _, pid in self.created()]
        return len(ray.wait(pids, num_returns=len(pids), timeout=timeout)[0]) == len(pids)

    def processes(self) -> dict[str, int]:
        """Ids of those that have reported theirs."""
        import ray

        found = {}
        for index, shard in enumerate(self._shards):
            if ray.wait([shard.pid], timeout=0)[0]:
                with contextlib.suppress(ray.exceptions.RayError):
                    found[f"shard {index}"] = ray.get(shard.pid, timeout=self._timeout)
        return found
