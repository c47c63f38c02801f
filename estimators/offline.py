"""Stored episodes into the memory of a run, before it learns from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ..core.errors import ArgumentError
from ..core.protocols import Episode, Memory, SpecTree
from ..environments.statistics import statistics_of
from ..memories.recorded_episodes import digest_of, fill
from .experience_sources import Lanes
from .state import TrainingState

logger = logging.getLogger("axonrl")


def refuse_emptied(memory: Memory) -> None:
    """``ArgumentError`` for a memory that has nothing left after an update."""
    if memory.is_rollout:
        kind = type(memory).__name__
        message = f"a {kind} is emptied by each update, so there is nothing to learn from: use a ReplayMemory"
        raise ArgumentError(message, "memory", memory)


def store(lanes: Lanes, state: TrainingState, specs: Mapping[str, SpecTree]) -> None:
    """Store the episodes of ``lanes`` in the run's memory, unless it has got the same ones before.

    Args:
        lanes: with ``episodes``; each lane gets whole ones, in turn.
        state: of the run, as it is continued.
        specs: of a transition, as the memory was built for.

    Raises:
        ArgumentError: they do not fit the run, or the memory cannot hold all of them, or a batch is more than it has.
            The memory is empty then.
    """
    memory = state.stepper.memory
    try:
        if lanes.episodes:
            episodes = [_complete(number, episode, specs) for number, episode in enumerate(lanes.episodes)]
            digest = digest_of(episodes)
            if digest not in state.stored:
                _refuse_normalised(lanes, state)
                _fill(memory, episodes, lanes.number)
                state.stored.append(digest)
        if not memory.can_sample():
            message = (
                f"there is too little to learn from: the memory holds {len(memory)} transitions, of which no batch of"
                f" {memory.batch_size} can be drawn; pass data, more of it, or lower batch_size"
            )
            raise ArgumentError(message, "data", len(memory))
    except BaseException:
        memory.clear()
        state.stored.clear()
        raise


def _refuse_normalised(lanes: Lanes, state: TrainingState) -> None:
    """Wrappers that normalise would see other numbers than those that are stored."""
    if state.statistics or (lanes.env is not None and statistics_of(lanes.env.env)):
        message = (
            "stored episodes are learned from as they are, and wrappers of this environment normalise observations or"
            " rewards: leave these wrappers out"
        )
        raise ArgumentError(message, "env", lanes.source)


def _complete(number: int, episode: Episode, specs: Mapping[str, SpecTree]) -> Episode:
    """What the memory stores of an episode, in its order."""
    if missing := [key for key in specs if key not in episode]:
        raise ArgumentError(
            f"data[{number}] lacks {', '.join(missing)}, which the model has stored with each transition; it has"
            f" {', '.join(episode)}. Such a model learns from what it did itself",
            "data",
            missing,
        )
    return {key: episode[key] for key in specs}


def _fill(memory: Memory, episodes: Sequence[Episode], lanes: int) -> None:
    before = len(memory)
    stored = fill(memory, episodes, lanes=lanes)
    if len(memory) < before + stored:
        kept, size = len(memory), getattr(memory, "size", len(memory))
        message = f"data has {stored:,} transitions, and a memory of size={size:,} keeps {kept:,}: raise its size"
        raise ArgumentError(message, "data", stored)
    logger.info("stored %d episodes, %d transitions, in the memory", len(episodes), stored)
