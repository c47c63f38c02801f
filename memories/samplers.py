"""Samplers: choose the transitions of a batch. They know places, not contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.checks import all_finite
from ..core.errors import ArgumentError, NonFiniteError
from ..core.protocols import Array, State


class Drawable(Protocol):
    """Items to draw from: transitions, or sequences of them. Places are 0 .. ``capacity`` - 1."""

    capacity: int

    def __len__(self) -> int: ...

    def places(self, index: Array) -> Array:
        """Places of the drawable items, by index in 0 .. len - 1."""
        ...


class Sampler:
    """Draws the places of a batch. A sampler belongs to one memory; methods that it does not override cost nothing.

    A subclass defines :meth:`draw`. A place is a number in 0 .. ``candidates.capacity`` - 1.
    """

    candidates: Drawable | None = None

    def build(self, candidates: Drawable) -> None:
        """Set the transitions to draw from; there are none yet.

        Raises:
            RuntimeError: another memory uses this sampler.
        """
        if self.candidates is not None:
            raise RuntimeError(f"another memory uses this {type(self).__name__}; every memory needs its own sampler")
        self.candidates = candidates

    def added(self, places: Array) -> None:
        """Note that each of these places got a new transition. Called before the next draw or update."""

    def removed(self, places: Array) -> None:
        """Note that the transitions at these places were forgotten. Called before the next draw."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw the places [n] of a batch, from at least one candidate.

        Args:
            n: transitions in the batch.
            rng: the only source of randomness allowed.
        """
        raise NotImplementedError

    def weights(self) -> Array | None:
        """Loss weights of the transitions drawn last, float32 [n]; None if all are equal."""
        return None

    def update(self, td_error: Array) -> None:
        """Take the TD errors [n] of the transitions drawn last."""

    def put(self, places: Array, td_error: Array) -> None:
        """Take TD errors [n] of the transitions at these places, whenever they were drawn."""

    def priorities(self, places: Array) -> Array:
        """Priorities of the transitions at these places, float64 [n]; NaN where there are none."""
        return np.full(len(places), np.nan)

    def follow(self, others: Sequence[Sampler]) -> None:
        """Continue the state of other samplers with the same settings, without their priorities."""

    def total(self) -> float:
        """Total priority, for choosing between shards."""
        return float(len(_built(self)))

    def clear(self) -> None:
        """Forget all transitions."""

    def nbytes_for(self, capacity: int) -> int:
        """Bytes of the sampler's arrays for ``capacity`` places."""
        return 0

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings in which a saved sampler must equal the one that loads it, as JSON values."""
        return {"kind": type(self).__name__}

    def state_dict(self) -> State:
        """Everything that later draws depend on, without the generator."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned."""


class Uniform(Sampler):
    """Draws every transition with the same probability, with replacement."""

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw the places [n] of a batch, in half the time of ``Generator.integers``.

        A float64 in [0, 1) has 53 bits: probabilities of candidates differ by at most their number / 2**53.
        """
        candidates = _built(self)
        return candidates.places((rng.random(n) * len(candidates)).astype(np.intp))


def checked_td_error(td_error: Any, count: int) -> Array:
    """Check TD errors and return them as an array [count].

    Raises:
        ArgumentError: there is not one number for each transition.
        NonFiniteError: one is NaN or infinite.
    """
    errors = np.asarray(td_error)
    if errors.shape != (count,) or errors.dtype.kind not in "fiu":
        given = f"{errors.dtype} of shape {errors.shape}"
        raise ArgumentError(f"td_error must be floats of shape {(count,)}, got {given}", "td_error", td_error)
    if not all_finite(errors):
        where = np.flatnonzero(~np.isfinite(errors))[0]
        raise NonFiniteError(f"td_error must be finite, got {errors[where]} at index {where} of the batch")
    return errors


def _built(sampler: Sampler) -> Drawable:
    if sampler.candidates is None:
        raise RuntimeError(f"this {type(sampler).__name__} belongs to no memory yet: ReplayMemory(..., sampler=...)")
    return sampler.candidates
