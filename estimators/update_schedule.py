"""The update schedule of a session: arguments, the run's record, and limits of the memory."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Final

from ..core import registry
from ..core.errors import ArgumentError
from ..core.protocols import Memory
from .limits import Default, UpdateSchedule

PATIENCE: Final = 1_000_000
"""Timesteps within which a memory must be able to fill a batch, unless its size is larger; also the maximum size of a
rollout, per environment."""
logger = logging.getLogger("axonrl")


def choose_schedule(asked: UpdateSchedule, recorded: Mapping[str, int], memory: Memory, run: str) -> UpdateSchedule:
    """Choose the schedule of a session. Values not given are recorded ones, or the first update waits for a batch.

    Args:
        asked: the caller's arguments.
        recorded: the run's record, by argument name; empty for a new run.
        memory: built.
        run: name of the run, for the log.

    Raises:
        ArgumentError: a given first update comes before the memory can fill a batch.
    """
    if memory.is_rollout:
        return asked
    for name, value in asked.non_defaults.items():
        if recorded.get(name, value) != value:
            logger.warning("%s is %d from now on; the run in %s had %d", name, value, run, recorded[name])
    schedule = dataclasses.replace(asked, **{n: v for n, v in recorded.items() if n not in asked.non_defaults})
    if memory.can_sample():
        return schedule
    check_first_update(asked, memory)
    waits = waiting(schedule, memory)
    if waits != schedule:
        message = "first_update was not given: it is %d, when the %s can fill a batch of %d"
        logger.info(message, waits.first_update, type(memory).__name__, memory.batch_size)
    return waits


def why_no_update(schedule: UpdateSchedule, memory: Memory, timestep: int, end: int) -> str | None:
    """Explain why there will be no update between two timesteps; None if there will be one, or it is unknown."""
    if not memory.is_rollout:
        if schedule.due(end) > 0:
            return None
        when = f"the first update is at timestep {schedule.first_update:,}"
    else:
        size = getattr(memory, "size", None)
        if not isinstance(size, int) or len(memory) + end - timestep >= size:
            return None
        when = f"the {type(memory).__name__} is first full after {size:,}"
    return f"no update will be made: training ends at timestep {end:,}, and {when}"


def why_few_updates(schedule: UpdateSchedule, model: str | None, lanes: int) -> str | None:
    """A warning if there are far fewer updates than in a built-in algorithm's paper; None if there are enough.

    Args:
        schedule: when updates are due.
        model: name of the ``model_fn``, if it has one.
        lanes: N; one update per vector step is one per N timesteps.
    """
    if model is None or model not in registry.BUILT_IN["model_fn"]:
        return None
    from ..models.blocks.params import params_of

    params = params_of(model)
    every, paper = schedule.update_frequency, params.paper_update_frequency
    if paper is None or every <= max(4, lanes) * paper:
        return None
    name = params.__name__.removesuffix("Params")
    often = "at every timestep" if paper == 1 else f"every {paper} timesteps"
    return f"update_frequency is {every}; {name}'s paper updates {often}"


def waiting(schedule: UpdateSchedule, memory: Memory) -> UpdateSchedule:
    """Replace a default first update with one that waits until the memory can fill a batch.

    Args:
        schedule: the requested schedule.
        memory: built.
    """
    first = schedule.first_update
    if "first_update" in schedule.non_defaults or memory.is_rollout or memory.can_sample(first):
        return schedule
    high = first
    while not memory.can_sample(high):
        if high > PATIENCE:
            return schedule  # the memory never fills a batch: due updates are skipped, with a warning
        high *= 2
    low = high // 2  # too few timesteps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if memory.can_sample(middle) else (middle, high)
    return dataclasses.replace(schedule, first_update=Default(high))


def check_first_update(schedule: UpdateSchedule, memory: Memory) -> None:
    """Raise ``ArgumentError`` if a given first update would come before the memory can fill a batch."""
    if "first_update" not in schedule.non_defaults or memory.is_rollout or memory.can_sample(schedule.first_update):
        return
    raise ArgumentError(
        f"{schedule.first_update} timesteps (first_update) cannot fill a batch of {memory.batch_size} from the"
        f" {type(memory).__name__}: raise first_update or lower batch_size",
        "first_update",
        schedule.first_update,
    )
