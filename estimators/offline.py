"""Stores episodes in the memory of a run, before it learns from them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ..core.errors import ArgumentError
from ..core.protocols import Episode, Memory, SpecTree
from ..environments.statistics import names_of, statistics_of
from ..memories.recorded_episodes import digest_of, fill
from .experience_sources import Lanes
from .state import TrainingState

logger = logging.getLogger("axonrl")


def refuse_emptied(memory: Memory) -> None:
    """Raise ``ArgumentError`` for a memory that each update empties."""
    if memory.is_rollout:
        kind = type(memory).__name__
        message = f"a {kind} is emptied by each update, so it cannot hold episodes to learn from: use a ReplayMemory"
        raise ArgumentError(message, "memory", memory)


def store(lanes: Lanes, state: TrainingState, specs: Mapping[str, SpecTree]) -> None:
    """Store the episodes of ``lanes`` in the run's memory, unless that was done before.

    Args:
        lanes: have ``episodes``; each lane gets whole episodes.
        state: of the run, as resumed.
        specs: of a transition in the memory.

    Raises:
        ArgumentError: the episodes do not fit the run, the memory cannot hold all of them, or they do not fill a batch.
            The memory is then empty.
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
                f"too little to learn from: the memory holds {len(memory)} transitions, which cannot fill a batch of"
                f" {memory.batch_size}; pass (more) data, or lower batch_size"
            )
            raise ArgumentError(message, "data", len(memory))
    except BaseException:
        memory.clear()
        state.stored.clear()
        raise


def _refuse_normalised(lanes: Lanes, state: TrainingState) -> None:
    """Raise for normalising wrappers: the policy would act on other numbers than it learned from."""
    own = {} if lanes.env is None else statistics_of(lanes.env.env)
    if found := own or state.statistics:
        names = " and ".join(dict.fromkeys(names_of(found)))
        where, advice = ("env", "leave it out") if own else ("this run", "start another run without it")
        message = (
            f"learning uses stored episodes unchanged, but {where} has {names}, which changes observations or rewards:"
            f" {advice}"
        )
        raise ArgumentError(message, "env", lanes.source)


def _complete(number: int, episode: Episode, specs: Mapping[str, SpecTree]) -> Episode:
    """Columns of an episode for the memory, in its order."""
    if missing := [key for key in specs if key not in episode]:
        raise ArgumentError(
            f"data[{number}] lacks {', '.join(missing)}, which the model records with each transition; it has"
            f" {', '.join(episode)}. Such a model learns only from its own experience",
            "data",
            missing,
        )
    return {key: episode[key] for key in specs}


def _fill(memory: Memory, episodes: Sequence[Episode], lanes: int) -> None:
    before = len(memory)
    stored = fill(memory, episodes, lanes=lanes)
    if len(memory) < before + stored:
        kept, size = len(memory), getattr(memory, "size", len(memory))
        there, advice = (f" and the memory {before:,}", "start a run with a larger one") if before else ("", "raise it")
        message = f"data has {stored:,} transitions{there}, but a memory of size={size:,} holds {kept:,}: {advice}"
        raise ArgumentError(message, "data", stored)
    logger.info("stored %d episodes (%d transitions) in the memory", len(episodes), stored)
