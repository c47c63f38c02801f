"""BatchMemory: rollouts, for on-policy algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contracts import Array, ArrayTree
from .memory import Memory


class BatchMemory(Memory):
    """One rollout of ``size`` timesteps. The Agent updates once each time it is full, then clears it.

    A batch is the whole rollout in the order in which it was stored: [T, N, ...] with T = ``size`` / N timesteps of
    N environments. An episode may begin and end anywhere in it: ``terminated`` and ``truncated`` say where.

    Args:
        size: timesteps of a rollout, of all environments together; a multiple of their number.
        batch_size: the whole rollout; there is no other choice.
        discount: gamma, in 0 .. 1.

    Raises:
        ValueError: an argument is out of range.
    """

    fills_and_empties = True

    def __init__(self, size: int, batch_size: int | None = None, *, discount: float = 0.99) -> None:
        if batch_size not in (None, size):
            raise ValueError(
                f"batch_size of a BatchMemory is its size, for a batch is the whole rollout;"
                f" got batch_size={batch_size!r} and size={size!r}"
            )
        super().__init__(size, size, discount=discount)

    def step(self, **transition: Any) -> None:
        """As in :class:`Memory`; a full rollout must be cleared first."""
        self._refuse_when_full()
        super().step(**transition)

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """As in :class:`Memory`, but every row must be a transition, and a full rollout must be cleared first."""
        if mask is not None:
            raise ValueError(
                "BatchMemory takes no mask: a rollout [T, N, ...] has no place for rows that are not transitions;"
                " use a vector environment that does not reset itself (AutoresetMode.DISABLED)"
            )
        self._refuse_when_full()
        super().extend(**batch)

    def sample(self) -> dict[str, ArrayTree]:
        """The rollout, in arrays of its own.

        Returns:
            the keys of the specs and ``discount``, [T, N, ...]; reward, terminated, truncated and discount are
            float32, everything else has the dtype of its spec.

        Raises:
            RuntimeError: the rollout is not full.
        """
        if not self.can_sample():
            raise RuntimeError(f"a rollout of {self.size} timesteps is sampled when it is full, now it has {len(self)}")
        return self.gather(np.arange(self.size).reshape(-1, self.num_envs))

    def _spare_rows(self, timesteps: int, row_bytes: int) -> int:
        """As many as could be needed: a rollout loses nothing."""
        return timesteps

    def _refuse_when_full(self) -> None:
        if len(self) == self.size:
            raise RuntimeError(f"the rollout of {self.size} timesteps is full: sample() it, then clear() it")
