"""What replay memories hold, dealt out to others with other lanes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..contracts import Array, SpecTree, State
from .describing import like
from .replay import ReplayMemory
from .samplers import Prioritized

_ROWS: Final = 1000
"""Timesteps that are read at a time: whole observations may be many times as large as what is stored of them."""


class _Piece(NamedTuple):
    """Timesteps ``begin`` .. ``end - 1`` of a lane of a source; ``age`` counts from the newest of the lane."""

    age: int
    source: int
    lane: int
    begin: int
    end: int


class _Lane(NamedTuple):
    """Where timesteps go, and names and priorities of those that have come."""

    target: int
    lane: int
    tickets: list[Array]
    priorities: list[Array]


def restore(memory: Any, state: State, *, other_lanes: bool = False) -> None:
    """Let a memory hold what was saved of it; or of shards, or with other lanes, whose content is dealt out.

    Args:
        memory: built.
        state: what was saved.
        other_lanes: was it with another number of lanes? Of a memory that fills and empties nothing is kept then.

    Raises:
        ValueError: it was saved of another memory.
    """
    if isinstance(memory, ReplayMemory) and ("shards" in state or other_lanes):
        memory.clear()
        deal(saved_parts(memory, state), [memory])
    elif other_lanes and memory.fills_and_empties:
        memory.clear()
    else:
        memory.load_state_dict(state)


def timesteps_in(state: State) -> int:
    """How many timesteps were saved of a memory."""
    return int(np.sum(np.asarray(state["end"]) - np.asarray(state["begin"]))) if "end" in state else 0


def saved_parts(memory: ReplayMemory, state: State, specs: Mapping[str, SpecTree] | None = None) -> list[ReplayMemory]:
    """The memories that a state was saved of: several, if it is of shards.

    Args:
        memory: of the same settings, but for its size.
        state: of a memory, or of shards.
        specs: of a transition; None for those of ``memory``.
    """
    saved = [one["memory"] for one in state["shards"].values()] if "shards" in state else [state]
    parts = []
    for one in saved:
        part: ReplayMemory = like(memory, size=int(one["size"]), path=None)
        part.build(memory.specs if specs is None else specs, int(one["num_envs"]), np.random.default_rng(0))
        part.load_state_dict(one)
        parts.append(part)
    return parts


def deal(sources: Sequence[ReplayMemory], targets: Sequence[ReplayMemory]) -> None:
    """Store what some memories hold in others, which are built and empty, with its priorities.

    All lanes get equally many timesteps, so that they are full at the same time. Episodes come as wholes, the oldest
    first, each to the lane that lacks most: so all get old and new ones alike. Where what is lacking is less, the rest
    goes on in another lane. If there is more than the targets have room for, the oldest is left out. Nothing continues
    what was stored: the last timestep of what comes in one piece is truncated, if not terminated.

    Args:
        sources: of the same specs.
        targets: likewise.
    """
    pieces = sorted(piece for number, source in enumerate(sources) for piece in _pieces(number, source))
    ends = [_Lane(number, lane, [], []) for number, target in enumerate(targets) for lane in range(target.num_envs)]
    room = np.array([targets[end.target].size // targets[end.target].num_envs for end in ends])
    total = sum(piece.end - piece.begin for piece in pieces)
    surplus = total - int(room.sum())
    room = np.minimum(room, _share(room, min(total, int(room.sum()))))
    for target in targets:
        target.sampler.follow([source.sampler for source in sources])
    for piece in pieces:
        begin = piece.begin + min(max(surplus, 0), piece.end - piece.begin)
        surplus -= begin - piece.begin
        while begin < piece.end:
            at = int(room.argmax())
            upto = min(piece.end, begin + int(room[at]))
            _append(targets[ends[at].target], ends[at], sources[piece.source], piece.lane, begin, upto)
            room[at] -= upto - begin
            begin = upto
    for end in ends:  # when all has come: what is followed by nothing yet cannot have a priority
        target = targets[end.target]
        if end.tickets and isinstance(target.sampler, Prioritized):
            errors = np.maximum(np.concatenate(end.priorities) - target.sampler.epsilon, 0.0)
            target.prioritize(np.concatenate(end.tickets), errors)


def _share(room: Array, total: int) -> int:
    """The least number that each lane may get for all to have room, where some have room for less [lanes]."""
    share = 0
    while (missing := total - int(np.minimum(room, share).sum())) > 0:
        share += -(-missing // len(room))
    return share


def _pieces(number: int, source: ReplayMemory) -> list[_Piece]:
    """The episodes of a source, lane by lane."""
    found = []
    for lane, (begin, ends) in enumerate(source.episode_ends()):
        for first, end in itertools.pairwise([begin, *ends.tolist()]):
            found.append(_Piece(end - int(ends[-1]), number, lane, first, end))
    return found


def _append(target: ReplayMemory, to: _Lane, source: ReplayMemory, lane: int, begin: int, end: int) -> None:
    """Store the timesteps ``begin`` .. ``end - 1`` of a lane, which end there."""
    mask: Array = np.zeros(target.num_envs, np.bool_)
    mask[to.lane] = True
    for first in range(begin, end, _ROWS):
        numbers = np.arange(first, min(first + _ROWS, end))
        rows, priorities = source.timesteps(lane, numbers)
        if numbers[-1] == end - 1:
            rows["truncated"][-1] |= not rows["terminated"][-1]
        number = int(target.next_numbers()[to.lane])
        for t in range(len(numbers)):
            wide = {key: _wide(value, t, len(mask)) for key, value in rows.items()}
            target.extend(*(() if len(mask) == 1 else (mask,)), **wide)
        known = ~np.isnan(priorities)
        to.tickets.append(((number + np.arange(len(numbers))) * target.num_envs + to.lane)[known])
        to.priorities.append(priorities[known])


def _wide(tree: Any, t: int, lanes: int) -> Any:
    """Row t in the place of every lane: a mask tells whose it is."""
    if isinstance(tree, Mapping):
        return {key: _wide(value, t, lanes) for key, value in tree.items()}
    return np.broadcast_to(tree[t], (lanes, *np.shape(tree)[1:]))
