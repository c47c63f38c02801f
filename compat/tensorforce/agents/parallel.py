"""The episodes that an agent has in parallel."""

from __future__ import annotations

import dataclasses

from ....core.protocols import Array


@dataclasses.dataclass
class Timestep:
    """One act with its observe; arrays without a batch axis, by flat name."""

    features: dict[str, Array]
    """Preprocessed states, and masks."""
    states: dict[str, Array]
    """The caller's states, and masks."""
    action: dict[str, Array]
    internals: dict[str, Array]
    """Internals when acting."""
    reward: float = 0.0
    raw_reward: float = 0.0


class Parallel:
    """The episode of one parallel index.

    Args:
        internals: the model's initial internals, by name.
    """

    def __init__(self, internals: dict[str, Array]) -> None:
        self._initial = internals
        self.reset()

    def reset(self) -> None:
        """Reset to a state without a running episode."""
        self.pending: Timestep | None = None
        """An act waiting for its observe."""
        self.timesteps: list[Timestep] = []
        """Timesteps that are not stored yet."""
        self.steps = 0
        """Observes in this episode."""
        self.episode_reward = 0.0
        self.internals = dict(self._initial)
        """Recurrent state of the next act, by name."""
