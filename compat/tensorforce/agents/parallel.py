"""The episodes that an agent has in parallel."""

from __future__ import annotations

import dataclasses

from ....core.protocols import Array


@dataclasses.dataclass
class Timestep:
    """One act and its observe; arrays without a batch axis, by flat name."""

    features: dict[str, Array]
    """Preprocessed states, and masks."""
    states: dict[str, Array]
    """States given by the caller, and masks."""
    action: dict[str, Array]
    internals: dict[str, Array]
    """Internals with which the agent acted."""
    reward: float = 0.0
    raw_reward: float = 0.0


class Parallel:
    """The episode of one parallel index.

    Args:
        internals: of the model at the beginning of an episode, by name.
    """

    def __init__(self, internals: dict[str, Array]) -> None:
        self._initial = internals
        self.reset()

    def reset(self) -> None:
        """Reset to the state in which no episode runs."""
        self.pending: Timestep | None = None
        """An act that waits for its observe."""
        self.timesteps: list[Timestep] = []
        """Timesteps that are not stored yet."""
        self.steps = 0
        """Observes in this episode."""
        self.episode_reward = 0.0
        self.internals = dict(self._initial)
        """Recurrent state of the next act, by name."""
