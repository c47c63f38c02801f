"""When updates are due: what a caller gave, what the run recorded, what the memory can fill, and what is doubtful."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, Final

from ..core.protocols import Memory
from .limits import Default, UpdateSchedule

_PATIENCE: Final = 1_000_000
"""Timesteps after which a memory that still cannot fill a batch never says that it could."""
logger = logging.getLogger("axonrl")


def chosen(asked: UpdateSchedule, recorded: Mapping[str, int], memory: Memory, run: str) -> UpdateSchedule:
    """The schedule of a session. What was not given is what the run has recorded, or else waits for a batch.

    Args:
        asked: what the caller gave.
        recorded: of the run, by the names of the arguments; empty for a new one.
        memory: built.
        run: its name, for the log.

    Raises:
        ValueError: a first update that was given comes before the memory can fill a batch.
    """
    if memory.is_rollout:
        return asked
    for name, value in asked.given.items():
        if recorded.get(name, value) != value:
            logger.warning("%s is %d from now on; the run in %s had %d", name, value, run, recorded[name])
    schedule = dataclasses.replace(asked, **{n: v for n, v in recorded.items() if n not in asked.given})
    if memory.can_sample():
        return schedule
    check_first_update(asked, memory)
    waits = waiting(schedule, memory)
    if waits != schedule:
        told = "first_update was not given: it is %d, when the %s can fill a batch of %d"
        logger.info(told, waits.first_update, type(memory).__name__, memory.batch_size)
    return waits


def why_no_update(schedule: UpdateSchedule, memory: Memory, timestep: int, end: int) -> str | None:
    """Why nothing is learned on the way from a timestep to the last one; None if something is, or it is not known."""
    if not memory.is_rollout:
        if schedule.due(end) > 0:
            return None
        when = f"the first update is at timestep {schedule.first_update:,}"
    else:
        size = getattr(memory, "size", None)
        if not isinstance(size, int) or len(memory) + end - timestep >= size:
            return None
        when = f"the {type(memory).__name__} is full, and learned from, after {size:,}"
    return f"no update will be made: training ends at timestep {end:,}, and {when}"


def unlikely(schedule: UpdateSchedule, params: type[Any], lanes: int) -> str | None:
    """What to say of far fewer updates than the paper of a built-in algorithm makes; None where there are enough.

    Args:
        schedule: when updates are due.
        params: the class of the algorithm's parameters.
        lanes: N; with an update for each vector step there is one for N timesteps.
    """
    every, paper = schedule.update_frequency, params.paper_update_frequency
    if paper is None or every <= max(4, lanes) * paper:
        return None
    name = params.__name__.removesuffix("Params")
    often = "in every timestep" if paper == 1 else f"in every {paper} timesteps"
    return f"update_frequency is {every}; {name}'s paper learns {often}"


def waiting(schedule: UpdateSchedule, memory: Memory) -> UpdateSchedule:
    """The schedule, where nobody gave its first update, with one that waits until the memory can fill a batch.

    Args:
        schedule: what is asked for.
        memory: built.
    """
    first = schedule.first_update
    if "first_update" in schedule.given or memory.is_rollout or memory.can_sample(first):
        return schedule
    high = first
    while not memory.can_sample(high):
        if high > _PATIENCE:
            return schedule  # a memory that never says so: updates that are due are skipped, and said
        high *= 2
    low = high // 2  # not enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if memory.can_sample(middle) else (middle, high)
    return dataclasses.replace(schedule, first_update=Default(high))


def check_first_update(schedule: UpdateSchedule, memory: Memory) -> None:
    """Raise ``ValueError`` if a first update that was given would come before the memory can fill a batch."""
    if "first_update" not in schedule.given or memory.is_rollout or memory.can_sample(schedule.first_update):
        return
    raise ValueError(
        f"{schedule.first_update} timesteps (first_update) cannot fill a batch of {memory.batch_size} from the"
        f" {type(memory).__name__}: raise first_update or lower batch_size"
    )
