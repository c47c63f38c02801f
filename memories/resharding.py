"""Redistribute the content of replay memories to memories with a different number of lanes."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from ..core.protocols import Array, SpecTree, State
from ..core.trees import map_tree
from .description import like
from .replay import ReplayMemory
from .samplers import Prioritized

_ROWS: Final = 1000
"""Timesteps read at a time: decoded observations may take many times their stored bytes."""


class _Piece(NamedTuple):
    """Timesteps ``begin`` .. ``end - 1`` of a source's lane; ``age`` counts from the lane's newest."""

    age: int
    source: int
    lane: int
    begin: int
    end: int


def restore(memory: Any, state: State, *, other_lanes: bool = False) -> None:
    """Restore a memory from its state; a state of shards, or of a different number of lanes, is redistributed.

    Args:
        memory: a built memory.
        state: the saved state.
        other_lanes: whether the state has a different number of lanes; a rollout memory then starts empty.

    Raises:
        ValueError: the state is another memory's.
    """
    if isinstance(memory, ReplayMemory) and ("shards" in state or other_lanes):
        memory.clear()
        deal(saved_parts(memory, state), [memory])
    elif other_lanes and memory.is_rollout:
        memory.clear()
    else:
        memory.load_state_dict(state)


def timesteps_in(state: State) -> int:
    """Number of timesteps in a memory's state."""
    return int(np.sum(np.asarray(state["end"]) - np.asarray(state["begin"]))) if "end" in state else 0


def saved_parts(memory: ReplayMemory, state: State, specs: Mapping[str, SpecTree] | None = None) -> list[ReplayMemory]:
    """Memories restored from a state: several if it holds shards.

    Args:
        memory: a memory with the same settings, but for its size.
        state: state of a memory, or of shards.
        specs: specs of a transition; None for those of ``memory``.
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
    """Copy the content of some memories, with priorities, into others, which are built and empty.

    All lanes get the same number of timesteps, so that they are full at the same time. Each episode, the oldest first,
    goes to the lane with the most room, so that all lanes get old and new episodes. An episode that does not fit
    continues in another lane. If the targets have too little room, the oldest timesteps are left out. No episode is
    continued later: the last timestep of each piece becomes truncated, if not terminated.

    Args:
        sources: memories with the same specs.
        targets: memories with the same specs.
    """
    pieces = sorted(piece for number, source in enumerate(sources) for piece in _pieces(number, source))
    lanes = [(target, lane) for target in targets for lane in range(target.num_envs)]
    dealt: list[list[_Piece]] = [[] for _ in lanes]
    room = np.array([target.size // target.num_envs for target, _ in lanes])
    total = sum(piece.end - piece.begin for piece in pieces)
    surplus = total - int(room.sum())
    room = np.minimum(room, _share(room, min(total, int(room.sum()))))
    for piece in pieces:
        begin = piece.begin + min(max(surplus, 0), piece.end - piece.begin)
        surplus -= begin - piece.begin
        while begin < piece.end:
            at = int(room.argmax())
            end = min(piece.end, begin + int(room[at]))
            dealt[at].append(piece._replace(begin=begin, end=end))
            room[at] -= end - begin
            begin = end
    for target in targets:
        target.sampler.follow([source.sampler for source in sources])
        _fill(target, sources, dealt[: target.num_envs])
        del dealt[: target.num_envs]


def _share(room: Array, total: int) -> int:
    """Smallest quota per lane with which ``total`` timesteps fit, as some lanes have less ``room`` [lanes]."""
    share = 0
    while (missing := total - int(np.minimum(room, share).sum())) > 0:
        share += -(-missing // len(room))
    return share


def _pieces(number: int, source: ReplayMemory) -> list[_Piece]:
    """Episodes of a source, lane by lane."""
    found = []
    for lane, (begin, ends) in enumerate(source.episode_ends()):
        for first, end in itertools.pairwise([begin, *ends.tolist()]):
            found.append(_Piece(end - int(ends[-1]), number, lane, first, end))
    return found


def _fill(target: ReplayMemory, sources: Sequence[ReplayMemory], dealt: Sequence[Sequence[_Piece]]) -> None:
    """Store the pieces assigned to each lane of a target, a timestep of all lanes at a time."""
    width, lengths = len(dealt), np.array([sum(piece.end - piece.begin for piece in pieces) for pieces in dealt])
    rows = [_rows(sources, pieces, max(_ROWS // width, 1)) for pieces in dealt]
    tickets, errors = [], []
    apart = np.arange(width) == 0  # lanes out of lock step need no row for episodes that begin in other lanes
    for t in range(int(lengths.max())):
        here = t < lengths
        now = [next(lane) if there else None for lane, there in zip(rows, here.tolist(), strict=True)]
        some = next(one for one in now if one is not None)
        wide = map_tree(lambda *values: np.stack(values), *((some if one is None else one)[0] for one in now))
        for mask in [here] if t or width == 1 else [here & apart, here & ~apart]:
            target.extend(*(() if width == 1 else (mask,)), **wide)
        known = [(lane, one[1]) for lane, one in enumerate(now) if one is not None and not np.isnan(one[1])]
        tickets += [t * width + lane for lane, _ in known]
        errors += [priority for _, priority in known]
    if tickets and isinstance(target.sampler, Prioritized):  # last: without successors, none can have a priority
        target.prioritize(np.array(tickets), np.maximum(np.array(errors) - target.sampler.epsilon, 0.0))


def _rows(
    sources: Sequence[ReplayMemory], pieces: Sequence[_Piece], at_once: int
) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Values and priority of each timestep of some pieces; the priority is NaN where it is unknown."""
    for _, source, lane, begin, end in pieces:
        for first in range(begin, end, at_once):
            numbers = np.arange(first, min(first + at_once, end))
            rows, priorities = sources[source].timesteps(lane, numbers)
            rows["truncated"] |= (numbers == end - 1) & ~rows["terminated"]
            for t, priority in enumerate(priorities.tolist()):
                yield map_tree(operator.itemgetter(t), rows), priority
