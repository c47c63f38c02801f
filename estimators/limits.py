"""Limits of a call of ``train``, and its update schedule."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Final

from ..core.checks import count
from ..core.errors import ArgumentError

if TYPE_CHECKING:
    from ..run_dir.snapshot import Counters

KINDS: Final = ("steps", "episodes", "timesteps")
SCHEDULE: Final = ("first_update", "update_frequency")


class Default(int):
    """A default value, which the run's record replaces. The same number given by the user is a plain int."""


class Turn(int):
    """A total at which one of several calls of ``train`` ends, while the run goes on to ``whole``, if that is given."""

    whole: int | None

    def __new__(cls, total: int, whole: int | None) -> Turn:
        """Set ``whole``, by which the run's progress is measured."""
        turn = super().__new__(cls, total)
        turn.whole = whole
        return turn


FIRST_UPDATE: Final = Default(35)
UPDATE_FREQUENCY: Final = Default(10)


@dataclasses.dataclass(frozen=True)
class Limits:
    """Totals at which training ends; ``None`` for no limit. The first one reached wins."""

    steps: int | None = None
    episodes: int | None = None
    timesteps: int | None = None

    def reached_limit(self, counts: Counters) -> str | None:
        """Describe the limit that is reached; None if none is."""
        if self.steps is not None and counts.global_step >= self.steps:
            return f"global_step reached {self.steps}"
        if self.episodes is not None and counts.global_episode >= self.episodes:
            return f"global_episode reached {self.episodes}"
        if self.timesteps is not None and counts.global_timestep >= self.timesteps:
            return f"global_timestep reached {self.timesteps}"
        return None

    def progress(self, counts: Counters) -> float:
        """Reached share of the run's nearest limit, 0 .. 1; needs at least one limit."""
        done = {"steps": counts.global_step, "episodes": counts.global_episode, "timesteps": counts.global_timestep}
        return min(1.0, max(done[kind] / whole for kind, whole in self.of_the_run().items()))

    def by_kind(self) -> dict[str, int]:
        """The limits that are set."""
        return {kind: value for kind in KINDS if (value := getattr(self, kind)) is not None}

    def of_the_run(self) -> dict[str, int]:
        """The limits of the whole run, of which a call may be a turn."""
        wholes = {kind: total.whole if isinstance(total, Turn) else total for kind, total in self.by_kind().items()}
        return {kind: whole for kind, whole in wholes.items() if whole is not None}

    def call(self, method: str) -> str:
        """The call that continues an interrupted run up to these limits, for a message."""
        totals = ", ".join(f"max_{kind}={value}" for kind, value in self.by_kind().items())
        return f"agent.{method}(..., {totals})" if totals else "the same call"


@dataclasses.dataclass(frozen=True)
class Goal:
    """The limits given to ``train``, relative (``steps``) or total (``max_steps``); None for no limit.

    Raises:
        ArgumentError: both of a pair are given, or a value is not an integer of at least 1.
    """

    steps: int | None = None
    episodes: int | None = None
    timesteps: int | None = None
    max_steps: int | None = None
    max_episodes: int | None = None
    max_timesteps: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not isinstance(value, Turn):
                object.__setattr__(self, name, count(name, value))
        for kind in KINDS:
            more, total = getattr(self, kind), getattr(self, f"max_{kind}")
            if more is not None and total is not None:
                message = f"give {kind}={more} (additional) or max_{kind}={total} (total), not both"
                raise ArgumentError(message, kind, more)

    @property
    def is_given(self) -> bool:
        """Whether any limit is given."""
        return any(value is not None for value in vars(self).values())

    def limits(self, counts: Counters) -> Limits:
        """Totals at which a run at ``counts`` ends."""
        return Limits(
            steps=self.max_steps if self.steps is None else counts.global_step + self.steps,
            episodes=self.max_episodes if self.episodes is None else counts.global_episode + self.episodes,
            timesteps=self.max_timesteps if self.timesteps is None else counts.global_timestep + self.timesteps,
        )


@dataclasses.dataclass(frozen=True)
class UpdateSchedule:
    """When updates are due. Depends only on ``global_timestep``, so a resumed run continues the schedule.

    With 35 and 10 and one environment, one update is due after timesteps 35, 45, 55 and so on; with four environments,
    after 36, 48, 56 and 68.

    Raises:
        ArgumentError: a value is not an integer of at least 1.
    """

    first_update: int = FIRST_UPDATE
    update_frequency: int = UPDATE_FREQUENCY

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not isinstance(value, Default):
                object.__setattr__(self, name, count(name, value))

    @property
    def non_defaults(self) -> dict[str, int]:
        """The values that are not defaults."""
        return {name: value for name, value in vars(self).items() if not isinstance(value, Default)}

    def as_dict(self) -> dict[str, int]:
        """Both values, for the record."""
        return {name: int(value) for name, value in vars(self).items()}

    def due_between(self, before: int, now: int) -> int:
        """Number of updates that become due between two timesteps."""
        if now < self.first_update:
            return 0
        if now - before == 1:  # one environment calls this at every timestep
            return int((now - self.first_update) % self.update_frequency == 0)
        return self.due(now) - self.due(before)

    def due(self, timestep: int) -> int:
        """Number of updates due by ``timestep`` in total."""
        if timestep < self.first_update:
            return 0
        return 1 + (timestep - self.first_update) // self.update_frequency


@dataclasses.dataclass(frozen=True)
class Plan:
    """When a run updates and the totals at which it ends, as an experiment file has them; None for a default.

    Args:
        first_update: the timestep of the first update; default: 35, or later, when the memory can first fill a batch.
        update_frequency: timesteps between updates; default: 10.
        max_steps: updates after which training ends.
        max_episodes: episodes after which training ends.
        max_timesteps: timesteps, counted over all copies of the environment, after which training ends.

    Raises:
        ArgumentError: a value is not an integer of at least 1.
    """

    first_update: int | None = None
    update_frequency: int | None = None
    max_steps: int | None = None
    max_episodes: int | None = None
    max_timesteps: int | None = None

    def __post_init__(self) -> None:
        for name in SCHEDULE:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, getattr(self.schedule, name))
        for kind in KINDS:
            object.__setattr__(self, f"max_{kind}", getattr(self.goal, f"max_{kind}"))

    @functools.cached_property
    def schedule(self) -> UpdateSchedule:
        """When updates are due."""
        return UpdateSchedule(**{name: value for name in SCHEDULE if (value := getattr(self, name)) is not None})

    @functools.cached_property
    def goal(self) -> Goal:
        """When training ends."""
        return Goal(max_steps=self.max_steps, max_episodes=self.max_episodes, max_timesteps=self.max_timesteps)
