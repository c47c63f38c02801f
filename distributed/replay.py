"""Replay in shards: each holds a part of a replay memory; the learner's memory is a view of all of them."""

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
    """What a shard holds: timesteps, transitions that may be drawn, and the sum of their priorities."""

    timesteps: int
    drawable: int
    priority: float


NOTHING: Final = Stored(0, 0, 0.0)


class NoBatchError(ClusterError):
    """No replay shard has a batch any more; actors will fill them again."""


class Inserted(NamedTuple):
    """An unroll is in a shard."""

    head: Head
    shard: int
    stored: Stored


class Refused(NamedTuple):
    """An unroll is damaged, and the shard has nothing of it."""

    id: UnrollId
    why: str


class Drawn(NamedTuple):
    """A batch of a shard; ``tickets`` int64 [B] name its transitions, whatever comes and goes meanwhile."""

    batch: Mapping[str, ArrayTree]
    tickets: Array
    shard: int
    incarnation: int
    stored: Stored


class Shard:
    """A part of a replay memory, which some actors fill: each of their environments is a lane of its own.

    Args:
        memory: of the shard's size; it is built here.
        transition: specs of one environment's transition.
        actors: whose unrolls come here, in the order of their lanes.
        width: environments of an actor, N.
        shard: its index.
        incarnation: how often it was made before.
        run_seed: of the run.
        length: timesteps of an unroll, T.
    """

    def __init__(
        self,
        memory: ReplayMemory,
        transition: Mapping[str, SpecTree],
        actors: Sequence[int],
        width: int,
        shard: int,
        incarnation: int,
        run_seed: int,
        length: int,
    ) -> None:
        sequence = np.random.SeedSequence(run_seed, spawn_key=(_CLUSTER, _SHARD, shard, incarnation))
        self._rng = np.random.Generator(np.random.PCG64(sequence))
        self._memory, self._width = memory, width
        self._transition, self._length = transition, length
        self._first = {actor: i * width for i, actor in enumerate(actors)}
        self._lanes = width * len(actors)
        self.shard, self.incarnation = shard, incarnation
        memory.build(transition, self._lanes, self._rng)

    def insert(self, unroll: Unroll) -> Inserted | Refused:
        """Store an unroll, if it is whole. Its arrays are copied: whatever sent them may be forgotten."""
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
        rows = unroll.rows()
        for t in range(len(unroll.columns["reward"])):
            memory.extend(*(() if mask is None else (mask,)), **self._wide(rows, t, lanes))
        if unroll.td_error is not None:
            waiting = memory.n_step - 1
            numbers = begin[None, :] - waiting + np.arange(len(unroll.td_error))[:, None]
            known = ~np.isnan(unroll.td_error)
            tickets = numbers * self._lanes + lanes[None, :]
            memory.prioritize(tickets[known], unroll.td_error[known])
        return Inserted(head, self.shard, self.stored())

    def sample(self) -> Drawn:
        """A batch."""
        batch = self._memory.sample()
        return Drawn(batch, self._memory.tickets(), self.shard, self.incarnation, self.stored())

    def update(self, tickets: Array, td_error: Array) -> int:
        """Give transitions new priorities; returns how many were forgotten meanwhile."""
        return self._memory.prioritize(tickets, td_error)

    def stored(self) -> Stored:
        """What it holds now."""
        return Stored(len(self._memory), self._memory.drawable(), self._memory.total_priority())

    def state(self) -> State:
        """What it holds and draws from, to be saved."""
        return {"memory": self._memory.state_dict(), "generator": self._rng.bit_generator.state}

    def load(self, state: State) -> Stored:
        """Hold what was saved."""
        self._memory.load_state_dict(state["memory"])
        if "generator" in state:
            self._rng.bit_generator.state = state["generator"]
        return self.stored()

    def _wide(self, tree: Any, t: int, lanes: Array) -> Any:
        """Row t as that of all lanes, with zeros for other actors'."""
        if isinstance(tree, Mapping):
            return {key: self._wide(value, t, lanes) for key, value in tree.items()}
        if self._lanes == self._width:
            return tree[t]
        wide = np.zeros((self._lanes, *tree.shape[2:]), tree.dtype)
        wide[lanes] = tree[t]
        return wide


@dataclasses.dataclass(frozen=True)
class ShardPlan:
    """What a shard is made from, in each of its incarnations: see there."""

    memory: ReplayMemory
    transition: Mapping[str, SpecTree]
    actors: Sequence[int]
    width: int
    shard: int
    run_seed: int
    length: int

    def make(self, incarnation: int = 0) -> Shard:
        """An empty one."""
        memory = copy.deepcopy(self.memory)
        where = self.actors, self.width, self.shard, incarnation
        return Shard(memory, self.transition, *where, self.run_seed, self.length)


class Shards(Protocol):
    """Shards, wherever they are."""

    @property
    def ignored(self) -> int:
        """Priorities of transitions that were forgotten meanwhile, as far as it is known."""

    def sample(self, shard: int) -> Drawn | None:
        """A batch of one of them; waits for it. None if its process has ended, and what it held is lost."""

    def update(self, shard: int, incarnation: int, tickets: Array, td_error: Array) -> None:
        """New priorities; nobody waits for it."""

    def states(self) -> list[State]:
        """What each of them holds."""

    def load(self, states: Sequence[State]) -> list[Stored]:
        """Hand back what :meth:`states` returned."""


class ShardedReplay:
    """The learner's memory: batches come from shards, and go back to them by tickets.

    A batch is of one shard, which is drawn in proportion to the sums of priorities, so that every transition has the
    same chance as in one memory.

    Args:
        memory: of the whole: what each shard has a part of.
        lanes: of each shard.
        saves: is what they hold in checkpoints?
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
        self.whole, self.lanes, self.number, self._saves = memory, lanes, number, saves
        self.size, self.batch_size, self.discount = memory.size, memory.batch_size, memory.discount
        self.shards: Shards | None = None
        self.held = [NOTHING] * number
        """What each shard was known to hold last."""
        self.drawn = 0
        """Transitions, since it was made."""
        self._last: Drawn | None = None
        self._loaded: State | None = None

    @property
    def needs_td_error(self) -> bool:
        """As of the whole memory."""
        return self.whole.needs_td_error

    @property
    def ignored(self) -> int:
        """Priorities of transitions that were forgotten meanwhile, as far as it is known."""
        return 0 if self.shards is None else self.shards.ignored

    def part(self, shard: int) -> ReplayMemory:
        """A new memory, of one shard: its part of the size, or a little more, since all lanes have the same."""
        return _sized(self.whole, self.size // self.number, self.lanes[shard])

    def trial_copy(self) -> Any:
        """A memory like the whole, to look at a batch of it."""
        return _sized(self.whole, self.size, sum(self.lanes))

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Keep the generator, which draws shards; they are built elsewhere."""
        self._rng, self._specs = rng, specs

    def can_sample(self, count: int | None = None) -> bool:
        """Is there a shard with a batch? With ``count``: would so many timesteps fill one?"""
        if count is not None:
            return self.whole.can_sample(count)
        return any(one.drawable >= self.batch_size for one in self.held)

    def sample(self) -> Mapping[str, ArrayTree]:
        """A batch.

        Raises:
            NoBatchError: the shards that had one have been lost.
        """
        shards = self._needed()
        while self.can_sample():
            weights = np.array([one.priority if one.drawable >= self.batch_size else 0.0 for one in self.held])
            chosen = int(self._rng.choice(self.number, p=weights / weights.sum())) if self.number > 1 else 0
            drawn = shards.sample(chosen)
            if drawn is not None:
                self._last = drawn if self.needs_td_error else None
                self.drawn += self.batch_size
                self.held[chosen] = drawn.stored
                return drawn.batch
            self.emptied(chosen)
        raise NoBatchError("the replay shards that had a batch have been lost")

    def filled(self, shard: int, stored: Stored) -> None:
        """A shard has stored something, and holds so much."""
        self.held[shard] = stored

    def emptied(self, shard: int) -> None:
        """A shard lost what it held."""
        self.held[shard] = NOTHING

    def update_priorities(self, td_error: Array) -> None:
        """Those of the batch sampled last go to its shard."""
        # Let go of: a batch keeps the whole message that it came in, in the object store.
        last, self._last = self._last, None
        if last is not None:
            self._needed().update(last.shard, last.incarnation, last.tickets, np.asarray(td_error))

    def step(self, **transition: Any) -> None:
        """Nothing is stored from here."""
        raise ClusterError("actors store in replay shards, not the learner")

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Nothing is stored from here."""
        raise ClusterError("actors store in replay shards, not the learner")

    def clear(self) -> None:
        """Shards forget by themselves."""

    def __len__(self) -> int:
        return sum(one.timesteps for one in self.held)

    def state_dict(self) -> State:
        """What all shards hold; nothing of it where it is not to be saved."""
        if not self._saves:
            return {"shards": {}}
        if self.shards is None:
            return self._loaded or {"shards": {}}
        return {"shards": {str(i): state for i, state in enumerate(self.shards.states())}}

    def load_state_dict(self, state: State) -> None:
        """Keep what was saved, of shards or of one memory, for the shards that will be made."""
        self._loaded = state

    def connect(self, shards: Shards) -> None:
        """These are the shards; they take over what was saved.

        As it is, where as many shards of as many lanes were saved; else it is dealt out anew.
        """
        self.shards, loaded, self._loaded = shards, self._loaded, None
        if loaded is None or loaded.get("shards") == {}:
            return
        saved = list(loaded.get("shards", {}).values())
        if [int(one["memory"]["num_envs"]) for one in saved] == list(self.lanes):
            self.held = shards.load(saved)
            return
        targets = [self.part(index) for index in range(self.number)]
        for target, number in zip(targets, self.lanes, strict=True):
            target.build(self._specs, number, np.random.default_rng(0))
        deal(saved_parts(self.whole, loaded, self._specs), targets)
        self.held = shards.load([{"memory": target.state_dict()} for target in targets])

    def _needed(self) -> Shards:
        if self.shards is None:
            raise ClusterError("the replay shards are gone")
        return self.shards


def _sized(memory: ReplayMemory, size: int, lanes: int) -> ReplayMemory:
    """A new one of the next size that lanes divide."""
    made: ReplayMemory = like(memory, size=-(-size // lanes) * lanes, path=None)
    return made
