"""What replay memories hold, dealt out to others with other lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contracts import Array, SpecTree, State
from .describing import like
from .replay import ReplayMemory
from .samplers import Prioritized


def restore(memory: Any, state: State) -> None:
    """Let a memory hold what was saved of it; or of shards, whose content is dealt out.

    Raises:
        ValueError: it was saved of another memory.
    """
    if "shards" in state and isinstance(memory, ReplayMemory):
        deal(saved_parts(memory, state), [memory])
    else:
        memory.load_state_dict(state)


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

    The lanes of all sources go to those of all targets in turn, each as a whole, so that its timesteps still follow
    each other. Where a lane gets more than it has room for, the oldest of it are dropped.

    Args:
        sources: of the same specs.
        targets: likewise.
    """
    ends = [(target, lane) for target in targets for lane in range(target.num_envs)]
    number = 0
    for source in sources:
        for rows, priorities in source.lanes():
            target, lane = ends[number % len(ends)]
            number += 1
            _append(target, lane, rows, priorities)


def _append(target: ReplayMemory, lane: int, rows: Mapping[str, Any], priorities: Array | None) -> None:
    """Store the timesteps [T, ...] of a lane, oldest first; ``priorities`` [T] are NaN where none is known."""
    mask: Array = np.zeros(target.num_envs, np.bool_)
    mask[lane] = True
    begin = int(target.next_numbers()[lane])
    length = len(rows["reward"])
    for t in range(length):
        wide = {key: _wide(value, t, lane, len(mask)) for key, value in rows.items()}
        if target.num_envs == 1:
            target.extend(**wide)
        else:
            target.extend(mask, **wide)
    if priorities is not None and isinstance(target.sampler, Prioritized):
        known = ~np.isnan(priorities)
        tickets = (begin + np.arange(length)) * target.num_envs + lane
        errors = np.maximum(priorities - target.sampler.epsilon, 0.0)
        target.prioritize(tickets[known], errors[known])


def _wide(tree: Any, t: int, lane: int, lanes: int) -> Any:
    """Row t of what a lane stored, as that of all lanes, with zeros for the others."""
    if isinstance(tree, Mapping):
        return {key: _wide(value, t, lane, lanes) for key, value in tree.items()}
    wide = np.zeros((lanes, *np.shape(tree)[1:]), tree.dtype)
    wide[lane] = tree[t]
    return wide
