"""ReplayMemory: uniform replay, with n-step returns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..checks import count
from ..contracts import Array, ArrayTree, SpecTree
from .columns import take
from .memory import Memory


class ReplayMemory(Memory):
    """The newest ``size`` transitions, sampled uniformly and with replacement.

    With ``n_step`` = n > 1 a sampled transition spans m timesteps of its environment: n, or fewer where the episode
    was terminated, truncated or cut (Sutton and Barto, 2nd edition, section 7.1). Its ``reward`` is the sum of
    gamma^k times the k-th reward, k = 0 .. m - 1; ``terminated``, ``truncated`` and ``next_observation`` are those
    of its last timestep; ``discount`` is gamma^m, or 0 on termination; ``action`` and what else is recorded are those
    of its first. The newest n - 1 timesteps are not drawn until those that follow them are stored.

    Args:
        size: transitions kept; a multiple of the number of environments.
        batch_size: transitions in a batch, B.
        discount: gamma, in 0 .. 1.
        n_step: timesteps that a return is summed over.
        frame_stack: frames in an observation, each of which is then stored once (see :class:`Memory`); None: it is
            stored whole.

    Raises:
        ValueError: an argument is out of range.
    """

    _settings = (*Memory._settings, "n_step")

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        discount: float = 0.99,
        n_step: int = 1,
        frame_stack: int | None = None,
    ) -> None:
        super().__init__(size, batch_size, discount=discount, frame_stack=frame_stack)
        self.n_step = count("n_step", n_step)
        self._powers = (self.discount ** np.arange(n_step + 1)).astype(np.float32)

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """As in :class:`Memory`; also refuses a ``size`` from which no batch could ever be drawn."""
        least = self.batch_size + (self.n_step - 1) * num_envs
        if least > self.size:
            raise ValueError(
                f"size must be at least {least} for batch_size={self.batch_size} and n_step={self.n_step}"
                f" with {num_envs} environment(s), got size={self.size}"
            )
        super().build(specs, num_envs, rng)

    def can_sample(self, count: int | None = None) -> bool:
        """Would ``count`` stored timesteps fill a batch? ``None``: do those that are stored now?"""
        if count is None:
            self._require_built()
            return self._num_candidates() >= self.batch_size
        return count - (self.n_step - 1) * self.num_envs >= self.batch_size

    def sample(self) -> dict[str, ArrayTree]:
        """A batch, in arrays of its own.

        Returns:
            the keys of the specs and ``discount``, [B, ...]; reward, terminated, truncated and discount are float32,
            everything else has the dtype of its spec.

        Raises:
            RuntimeError: not enough is stored (see :meth:`can_sample`).
        """
        candidates = self._num_candidates()
        if candidates < self.batch_size:
            raise RuntimeError(f"a batch of {self.batch_size} cannot be drawn from {candidates} transitions")
        first = self._draw()
        if self.n_step == 1:
            return self._with_discount(self._ring.gather(first, first))
        last, steps, reward = self._look_ahead(first)
        batch = self._ring.gather(first, last)
        batch["reward"] = reward
        batch["discount"] = self._powers[steps] * (1 - np.asarray(batch["terminated"]))
        return batch

    def _num_timesteps(self) -> int:
        """Timesteps that could be drawn now: those whose n timesteps are all stored."""
        timesteps = self._ring.count - self.n_step + 1
        return timesteps if timesteps > 0 else 0

    def _num_candidates(self) -> int:
        """Transitions that could be drawn now."""
        if not self._ring.num_skipped:
            return self._num_timesteps() * self.num_envs
        waiting = self._ring.count - self._num_timesteps()
        return len(self._ring) - len(self._ring.places(waiting))

    def _draw(self) -> Array:
        """Places [B] of transitions."""
        ring = self._ring
        low, number = ring.oldest * self.num_envs, self._num_timesteps() * self.num_envs
        places = self._uniform(low, number, self.batch_size)
        if ring.num_skipped:
            while (wrong := np.flatnonzero(~ring.valid(places))).size:
                places[wrong] = self._uniform(low, number, wrong.size)
        return places

    def _uniform(self, low: int, number: int, size: int) -> Array:
        """``size`` of the integers low .. low + number - 1, in half the time that ``Generator.integers`` takes.

        A float64 in [0, 1) has 53 bits: no integer is more likely than another by more than number / 2**53.
        """
        drawn = (self.rng.random(size) * number).astype(np.intp)
        return drawn + low if low else drawn

    def _look_ahead(self, first: Array) -> tuple[Array, Array, Array]:
        """From the places ``first`` [B]: those of the last timesteps, the numbers of timesteps m, the returns."""
        rewards, terminated, truncated = (
            np.asarray(self._ring.columns[key]) for key in ("reward", "terminated", "truncated")
        )
        places = first + self.num_envs * np.arange(self.n_step)[:, None]  # [n, B]
        ended = (take(terminated, places[:-1]) + take(truncated, places[:-1])) > 0
        included = np.ones(places.shape, np.bool_)
        np.logical_not(np.logical_or.accumulate(ended), out=included[1:])
        steps = included.sum(axis=0)
        reward = (self._powers[: self.n_step, None] * included * take(rewards, places)).sum(axis=0)
        return first + (steps - 1) * self.num_envs, steps, reward
