"""How long a call of ``train`` runs, and how often it updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

KINDS = ("steps", "episodes", "timesteps")


@dataclasses.dataclass(frozen=True)
class Limits:
    """Totals at which training ends; ``None`` for no limit. The first one reached wins."""

    steps: int | None = None
    episodes: int | None = None
    timesteps: int | None = None

    @classmethod
    def of(
        cls, counters: Mapping[str, int], increments: Mapping[str, int | None], totals: Mapping[str, int | None]
    ) -> Limits:
        """Totals from what ``train`` was given and from where the counters stand.

        Args:
            counters: ``steps, episodes, timesteps`` so far.
            increments: how many more of each, or None.
            totals: ``max_*`` of each, or None.
        """
        check(increments, totals)
        limits: dict[str, int | None] = {}
        for kind in KINDS:
            increment = increments.get(kind)
            limits[kind] = totals.get(kind) if increment is None else counters[kind] + increment
        return cls(**limits)

    def reached(self, steps: int, episodes: int, timesteps: int) -> str | None:
        """Which limit these counters have reached, in words; None if none."""
        if self.steps is not None and steps >= self.steps:
            return f"global_step reached {self.steps}"
        if self.episodes is not None and episodes >= self.episodes:
            return f"global_episode reached {self.episodes}"
        if self.timesteps is not None and timesteps >= self.timesteps:
            return f"global_timestep reached {self.timesteps}"
        return None

    def given(self) -> dict[str, int]:
        """The limits that are set."""
        return {kind: value for kind in KINDS if (value := getattr(self, kind)) is not None}


def check(increments: Mapping[str, int | None], totals: Mapping[str, int | None]) -> None:
    """Refuse what ``train`` cannot mean.

    Raises:
        ValueError: both of a pair, or a value that is not an integer of at least 1.
    """
    for kind in KINDS:
        increment, total = increments.get(kind), totals.get(kind)
        if increment is not None and total is not None:
            raise ValueError(f"give {kind}={increment} (so many more) or max_{kind}={total} (the total), not both")
        for name, value in ((kind, increment), (f"max_{kind}", total)):
            if value is not None:
                check_count(name, value)


def check_count(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Updates follow ``global_timestep``, whatever happened on the way, so a resumed run goes on with the same ones.

    With 35 and 10 and one environment there is one update after timesteps 35, 45, 55 and so on; with four
    environments after 36, 48, 56 and 68.
    """

    first_update: int
    update_frequency: int

    def __post_init__(self) -> None:
        check_count("first_update", self.first_update)
        check_count("update_frequency", self.update_frequency)

    def due(self, timestep: int) -> int:
        """How many updates are due by ``timestep`` in all."""
        if timestep < self.first_update:
            return 0
        return 1 + (timestep - self.first_update) // self.update_frequency
