"""Sharded replay: each shard holds part of a replay memory; the learner's memory is a view of all shards."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ..core.errors import ArgumentError, ClusterError
from ..core.protocols import Array, ArrayTree, SpecTree, State
from ..memories import ReplayMemory
from ..memories.description import like
from ..memories.resharding import deal, saved_parts
from .unrolls import Head, Unroll, UnrollId, why_damaged

_SHARD, _CLUSTER = 2, 4


class Stored(NamedTuple):
    """Contents of a shard: timesteps, transitions that may be drawn, and the sum of their priorities."""

    timesteps: int
    drawable: int
    priority: float


NOTHING: Final = Stored(0, 0, 0.0)


class NoBatchError(ClusterError):
    """Replay shards cannot fill a batch at the moment; actors will refill them."""


class Inserted(NamedTuple):
    """An unroll was stored in a shard."""

    head: Head
    shard: int
    stored: Stored


class Refused(NamedTuple):
    """An unroll is damaged; the shard stored none of it."""

    id: UnrollId
    why: str


class Drawn(NamedTuple):
    """A batch of a shard; ``tickets`` int64 [B] identify its transitions until they are overwritten."""

    batch: Mapping[str, ArrayTree]
    tickets: Array
    shard: int
    incarnation: int
    stored: Stored


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """Everything a shard is built from, in each incarnation.

    Args:
        memory: has the shard's size; not built.
        transition: specs of one environment's transition.
        actors: whose unrolls are stored here, in the order of their lanes.
        width: N, environments of an actor.
        shard: index of the shard.
        run_seed: seed of the run.
        length: T, timesteps of an unroll.
    """

    memory: ReplayMemory
    transition: Mapping[str, SpecTree]
    actors: Sequence[int]
    width: int
    shard: int
    run_seed: int
    length: int


class Shard:
    """A part of a replay memory, filled by some of the actors; each of their environments has its own lane.

    Args:
        plan: what it is built from.
        incarnation: number of earlier processes of this shard.
    """

    def __init__(self, plan: ShardPlan, incarnation: int = 0) -> None:
        sequence = np.random.SeedSequence(plan.run_seed, spawn_key=(_CLUSTER, _SHARD, plan.shard, incarnation))
        self._rng = np.random.Generator(np.random.PCG64(sequence))
        self._memory, self._width = copy.deepcopy(plan.memory), plan.width
        self._transition, self._length = plan.transition, plan.length
        self._first = {actor: i * plan.width for i, actor in enumerate(plan.actors)}
        self._lanes = plan.width * len(plan.actors)
        self._streams: dict[int, tuple[UnrollId, int]] = {}  # newest unroll of each actor; timesteps since a gap
        self.shard, self.incarnation = plan.shard, incarnation
        self._memory.build(plan.transition, self._lanes, self._rng)

    def insert(self, unroll: Unroll) -> Inserted | Refused:
        """Store an unroll if it is intact. Its arrays are copied, so the message can be freed."""
        if (why := why_damaged(unroll, self._transition, self._length, self._width)) is not None:
            return Refused(unroll.head.id, why)
        head, memory = unroll.head, self._memory
        first = self._first[head.id.actor]
        lanes = np.arange(first, first + self._width)
        begin = memory.next_numbers()[lanes]
        mask: Array | None = None
        if self._lanes > self._width:
            mask = np.zeros(self._lanes, np.bool_)
            mask[lanes] = True
        newest, before = self._streams.get(head.id.actor, (None, 0))
        if newest is None or head.id != newest._replace(sequence=newest.sequence + 1):
            before = 0
            memory.cut(mask)  # the observation may be the same, as where every episode begins alike
        self._streams[head.id.actor] = head.id, before + self._length
        rows = unroll.rows()
        for t in range(len(unroll.columns["reward"])):
            memory.extend(*(() if mask is None else (mask,)), **self._wide(rows, t, lanes))
        if unroll.td_error is not None:
            waiting = memory.n_step - 1
            numbers = begin[None, :] - waiting + np.arange(len(unroll.td_error))[:, None]
            known = ~np.isnan(unroll.td_error)
            known[: max(waiting - before, 0)] = False  # of timesteps that were lost
            tickets = numbers * self._lanes + lanes[None, :]
            memory.prioritize(tickets[known], unroll.td_error[known])
        return Inserted(head, self.shard, self.stored())

    def sample(self, batches: int = 0, seed: int | None = None) -> Drawn:
        """Draw a batch after ``batches`` from all shards; with a seed from a copy, without influence on later ones."""
        memory = self._memory
        if seed is not None:
            memory = copy.copy(memory)
            memory.rng = np.random.default_rng(seed)
        memory.sampler.continue_at(batches)
        batch = memory.sample()
        return Drawn(batch, memory.tickets(), self.shard, self.incarnation, self.stored())

    def update(self, tickets: Array, td_error: Array) -> int:
        """Set new priorities; returns how many transitions had been overwritten."""
        return self._memory.prioritize(tickets, td_error)

    def stored(self) -> Stored:
        """Summary of the contents."""
        return Stored(len(self._memory), self._memory.drawable(), self._memory.total_priority())

    def state(self) -> State:
        """Contents, also in summary, and generator, for a checkpoint."""
        generator = self._rng.bit_generator.state
        return {"memory": self._memory.state_dict(), "generator": generator, "stored": self.stored()}

    def load(self, state: State) -> Stored:
        """Restore a saved state."""
        self._memory.load_state_dict(state["memory"])
        if "generator" in state:
            self._rng.bit_generator.state = state["generator"]
        return self.stored()

    def _wide(self, tree: Any, t: int, lanes: Array) -> Any:
        """Spread row t over all lanes, with zeros for those of other actors."""
        if isinstance(tree, Mapping):
            return {key: self._wide(value, t, lanes) for key, value in tree.items()}
        if self._lanes == self._width:
            return tree[t]
        wide = np.zeros((self._lanes, *tree.shape[2:]), tree.dtype)
        wide[lanes] = tree[t]
        return wide


class Shards(Protocol):
    """Interface to the shards, wherever they run."""

    @property
    def ignored(self) -> int:
        """Priority updates for transitions that had been overwritten, as far as reported."""

    def sample(self, shard: int, batches: int = 0, seed: int | None = None) -> Drawn | None:
        """Draw a batch from a shard; blocks. None if its process has ended, and its contents are lost.

        ``batches`` have been drawn from all shards, for schedules. With a seed it is drawn apart, without influence on
        later batches.
        """

    def update(self, shard: int, incarnation: int, tickets: Array, td_error: Array) -> None:
        """Update priorities in a shard; does not block."""

    def states(self) -> list[State]:
        """State of each shard, and as ``stored`` the summary of its contents."""

    def load(self, states: Sequence[State]) -> list[Stored]:
        """Restore states returned by :meth:`states`."""


class ShardedReplay:
    """The learner's memory: batches come from shards, and their new priorities go back by ticket.

    Each batch comes from one shard, drawn in proportion to the sum of its priorities, so that every transition has the
    same chance as in a single memory.

    Args:
        memory: the memory to be split into shards.
        lanes: number of lanes of each shard.
        saves: store the shards' contents in checkpoints?
    """

    is_rollout = False

    def __init__(self, memory: ReplayMemory, lanes: Sequence[int], *, saves: bool = True) -> None:
        number = len(lanes)
        if memory.size % number:
            raise ArgumentError(
                f"the size of the memory must be a multiple of replay_shards={number}, got {memory.size}",
                "memory",
                memory.size,
            )
        for width in lanes:
            part, least = _multiple(memory.size // number, width), memory.batch_size + (memory.n_step - 1) * width
            if part < least:
                message = (
                    f"each of replay_shards={number} holds {part} of the memory's {memory.size} transitions, and needs"
                    f" at least {least} for batch_size={memory.batch_size} and n_step={memory.n_step} with {width}"
                    " environments: raise size, or lower replay_shards"
                )
                raise ArgumentError(message, "memory", memory.size)
        self.whole, self.lanes, self.number, self._saves = memory, lanes, number, saves
        self.size, self.batch_size, self.discount = memory.size, memory.batch_size, memory.discount
        self.shards: Shards | None = None
        self.held = [NOTHING] * number
        """Last known contents of each shard."""
        self.drawn = 0
        """Transitions drawn since this memory was made."""
        self._last: Drawn | None = None
        self._loaded: State | None = None
        self._apart = False
        self._batches = 0  # drawn in the whole run

    @property
    def needs_td_error(self) -> bool:
        """See the whole memory."""
        return self.whole.needs_td_error

    @property
    def ignored(self) -> int:
        """Priority updates for transitions that had been overwritten, as far as reported."""
        return 0 if self.shards is None else self.shards.ignored

    def part(self, shard: int) -> ReplayMemory:
        """Make the memory of one shard: its part of the size, rounded up to a multiple of its lanes."""
        return _memory_of_size(self.whole, self.size // self.number, self.lanes[shard])

    def trial_copy(self) -> Any:
        """Make a memory like the whole, for trial batches."""
        return _memory_of_size(self.whole, self.size, sum(self.lanes))

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Keep the generator, which chooses shards; the shards are built elsewhere."""
        self._rng, self._specs = rng, specs

    def can_sample(self, count: int | None = None) -> bool:
        """Can a shard fill a batch? With ``count``: would so many timesteps fill one, however distributed?"""
        if count is not None:
            drawable = count - (self.whole.n_step - 1) * sum(self.lanes)
            return drawable > self.number * (self.batch_size - 1)
        return any(one.drawable >= self.batch_size for one in self.held)

    def sample(self) -> Mapping[str, ArrayTree]:
        """Draw a batch.

        Raises:
            NoBatchError: the shards that could fill one have been lost.
        """
        shards = self._live_shards()
        while self.can_sample():
            weights = np.array([one.priority if one.drawable >= self.batch_size else 0.0 for one in self.held])
            chosen = int(self._rng.choice(self.number, p=weights / weights.sum())) if self.number > 1 else 0
            seed = int(self._rng.integers(2**63)) if self._apart else None
            drawn = shards.sample(chosen, self._batches, seed)
            if drawn is not None:
                self._batches += 1
                self._last = drawn if self.needs_td_error else None
                self.drawn += self.batch_size
                self.held[chosen] = drawn.stored
                return drawn.batch
            self.held[chosen] = NOTHING
        raise NoBatchError("the replay shards that had a batch have been lost")

    def update_priorities(self, td_error: Array) -> None:
        """Send the priorities of the last batch to its shard."""
        # Release the batch: it keeps its whole message in the object store.
        last, self._last = self._last, None
        if last is not None:
            self._live_shards().update(last.shard, last.incarnation, last.tickets, np.asarray(td_error))

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Raise: only actors store."""
        raise ClusterError("actors store in replay shards, not the learner")

    step = extend

    def clear(self) -> None:
        """Do nothing: shards drop old transitions themselves."""

    def __len__(self) -> int:
        return sum(one.timesteps for one in self.held)

    def state_dict(self) -> State:
        """Contents of all shards; none if they are not to be saved."""
        if not self._saves:
            return {"shards": {}}
        if self.shards is None:
            return self._loaded or {"shards": {}}
        states: Any = self.shards.states()
        for index, state in enumerate(states):
            self.held[index] = state.pop("stored", self.held[index])  # as in a run resumed from here
        return {"shards": {str(i): state for i, state in enumerate(states)}}

    def load_state_dict(self, state: State) -> None:
        """Keep a saved state, of shards or of one memory, until shards connect."""
        self._loaded = state

    def connect(self, shards: Shards) -> None:
        """Connect the shards, and restore the saved state in them.

        It is restored as it is if it has the same number of shards and lanes, and redistributed otherwise.
        """
        self.shards, loaded, self._loaded = shards, self._loaded, None
        if loaded is None or loaded.get("shards") == {}:
            return
        saved = list(loaded.get("shards", {}).values())
        if [int(one["memory"]["num_envs"]) for one in saved] == list(self.lanes):
            self._load(shards, saved)
            return
        targets = [self.part(index) for index in range(self.number)]
        for target, number in zip(targets, self.lanes, strict=True):
            target.build(self._specs, number, np.random.default_rng(0))
        deal(saved_parts(self.whole, loaded, self._specs), targets)
        self._load(shards, [{"memory": target.state_dict()} for target in targets])

    def _load(self, shards: Shards, states: Sequence[State]) -> None:
        self.held = shards.load(states)
        self._batches = max(int(state["memory"]["sampler"].get("num_batches", 0)) for state in states)

    def __copy__(self) -> ShardedReplay:
        """A copy whose draws affect neither the shards nor this memory."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self), held=[*self.held], _apart=True)
        return copied

    def _live_shards(self) -> Shards:
        if self.shards is None:
            raise ClusterError("the replay shards are gone")
        return self.shards


def _memory_of_size(memory: ReplayMemory, size: int, lanes: int) -> ReplayMemory:
    """Make a memory of the next size that is a multiple of ``lanes``."""
    made: ReplayMemory = like(memory, size=_multiple(size, lanes), path=None)
    return made


def _multiple(size: int, lanes: int) -> int:
    return -(-size // lanes) * lanes
