"""BatchMemory: rollouts, for on-policy algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree, SpecTree
from . import columns
from .memory import Memory
from .ring import Ring

_WHOLE_LANES: Final = {"state": "a recurrent model", "intrinsic_value": "a model with intrinsic rewards"}
"""Recorded key to the model that records it and needs columns that are each a single lane."""


class BatchMemory(Memory):
    """One rollout of ``size`` timesteps. The Agent updates once whenever it is full, then clears it.

    A batch is the whole rollout in the order in which it was stored: [T, N, ...] with T = ``size`` / N timesteps of
    each of N lanes. Episodes may begin and end anywhere in it; see ``terminated`` and ``truncated``. Lanes may be
    written at different rates; the rollout is full when every lane is full. See :meth:`drop_surplus` and :meth:`pack`.

    Args:
        size: timesteps of a rollout, over all environments; a multiple of their number.
        batch_size: ``size`` or None, which mean the same.
        discount: discount factor gamma, in 0 .. 1.

    Raises:
        ArgumentError: an argument is out of range.
    """

    is_rollout = True

    def __init__(self, size: int, batch_size: int | None = None, *, discount: float = 0.99) -> None:
        if batch_size not in (None, size):
            raise ArgumentError(
                f"batch_size of a BatchMemory must be its size, as a batch is the whole rollout;"
                f" got batch_size={batch_size!r} and size={size!r}",
                "batch_size",
                batch_size,
            )
        super().__init__(size, size, discount=discount)
        self._drops_surplus = self._packs = False

    def drop_surplus(self) -> None:
        """Drop timesteps of full lanes, instead of refusing them, until the rollout is sampled.

        For lanes that cannot wait for each other, as in a vector environment that resets one of its environments while
        the others act. Every lane still holds consecutive timesteps.
        """
        self._drops_surplus = True

    def pack(self) -> None:
        """Make a rollout full when it has ``size`` timesteps, from any lanes.

        For lanes that may be empty for long, such as those of agents that die. If lanes have different numbers of
        timesteps, the batch holds one lane after the other, filling its columns in order; the last timestep of each
        lane is then truncated, so that returns use the value of its next observation. Timesteps beyond ``size`` are
        dropped, those of the last lanes first. Call it before :meth:`build`.
        """
        if self.num_envs and not self._packs:
            raise RuntimeError("this memory was built for lanes that fill together: every Agent needs its own memory")
        self._packs = True

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays; see :meth:`Memory.build`."""
        self._whole_lanes_only = [what for key, what in _WHOLE_LANES.items() if key in specs]
        super().build(specs, num_envs, rng)

    def step(self, **transition: Any) -> None:
        """Store one transition; see :meth:`Memory.step`. RuntimeError if the rollout is full."""
        self._refuse_full_lanes(None)
        super().step(**transition)

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Store one timestep of several lanes; see :meth:`Memory.extend`. RuntimeError if one is full."""
        self._require_built()
        if self._packs and not (mask is None and self._ring.lockstep):
            mask = self._with_room(mask)
        elif self._drops_surplus and not self._ring.lockstep and not self.can_sample():
            missing = self._ring.counts < self.size // self.num_envs
            mask = missing if mask is None else missing & mask
        self._refuse_full_lanes(None if mask is None else self._ring.lanes(mask))
        super().extend(mask, **batch)

    def sample(self) -> dict[str, ArrayTree]:
        """The rollout, copied.

        Returns:
            the keys of the specs and ``discount``, [T, N, ...]; reward, terminated, truncated and discount are
            float32, everything else has the dtype of its spec.

        Raises:
            RuntimeError: the rollout is not full, or the memory is not built.
        """
        if not self.can_sample():
            raise RuntimeError(f"a rollout is sampled when it is full: it has {len(self)} of {self.size} timesteps")
        if self._ring.lockstep or not self._packs:
            return self.gather(np.arange(self.size).reshape(-1, self.num_envs))
        counts, length = self._ring.counts, self.size // self.num_envs
        lanes = np.repeat(np.arange(self.num_envs), counts)
        timesteps = np.arange(self.size) - np.repeat(np.cumsum(counts) - counts, counts)  # numbered from 0 in each lane
        places = (timesteps * self.num_envs + lanes).reshape(self.num_envs, length).T
        batch: dict[str, Any] = self._with_discount(self._ring.gather(places, places))
        last = np.cumsum(counts)[counts > 0] - 1
        at = last % length, last // length
        batch["truncated"][at] = np.where(batch["terminated"][at], batch["truncated"][at], 1)
        return batch

    def _spare_rows(self, timesteps: int, row_bytes: int) -> int:
        """Enough for the worst case: a rollout drops nothing."""
        return timesteps

    def _allocate(self, specs: Mapping[str, SpecTree], timesteps: int, num_envs: int, zeros: columns.Zeros) -> Ring:
        """Allocate the ring, in which with :meth:`pack` one lane may hold the whole rollout."""
        return super()._allocate(specs, self.size if self._packs else timesteps, num_envs, zeros)

    def _with_room(self, mask: Array | None) -> Array:
        """The first lanes of a mask for which a packed rollout has room."""
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        if self._whole_lanes_only and not self._is_trial and self._ring.lanes(chosen) is not None:
            message = (
                f"{' and '.join(self._whole_lanes_only)} cannot learn from rollouts in which agents come and go, as"
                " they do here: use another model, or an off-policy algorithm"
            )
            raise ArgumentError(message, "memory", self)
        if self.can_sample():
            raise RuntimeError(f"the rollout of {self.size} timesteps is full: sample() it, then clear() it")
        return chosen & (np.cumsum(chosen) <= self.size - len(self))

    def _refuse_full_lanes(self, lanes: Array | None) -> None:
        """Raise RuntimeError if one of these lanes (None: all) is full."""
        if not self.num_envs or len(self) < self.size // self.num_envs or (self._packs and not self._ring.lockstep):
            return
        counts = self._ring.counts
        full = np.flatnonzero(counts == self.size // self.num_envs)
        if len(full) == self.num_envs:
            raise RuntimeError(f"the rollout of {self.size} timesteps is full: sample() it, then clear() it")
        if full_now := full.tolist() if lanes is None else np.intersect1d(full, lanes).tolist():
            raise RuntimeError(
                f"the rollout is full in lane {', '.join(map(str, full_now))} ({self.size // self.num_envs} timesteps"
                f" each), but not in every lane: a BatchMemory needs the other lanes to catch up first; leave full"
                f" lanes out by the mask"
            )
