"""Samplers: choose the transitions of a batch. They know places, not contents."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from ..core.checks import all_finite, number
from ..core.chunked_arrays import kept
from ..core.errors import ArgumentError, NonFiniteError
from ..core.protocols import Array, State
from ..core.schedules import Constant, Schedule, ScheduleLike, checked_value, follows_run, make_schedule
from .sum_tree import SumTree

_BELOW_ONE: Final = 1 - 2**-40
"""The last 2**-40 of the sum of priorities is never drawn, so that rounding cannot exceed the sum."""


class Drawable(Protocol):
    """Items to draw from: transitions, or sequences of them. Places are 0 .. ``capacity`` - 1."""

    capacity: int

    def __len__(self) -> int: ...

    def places(self, index: Array) -> Array:
        """Places of the drawable items, by index in 0 .. len - 1."""

    def holds_places(self, places: Array) -> Array:
        """Mask bool [...]: which of these places have drawable items."""


class Sampler:
    """Draws the places of a batch. A sampler belongs to one memory; methods that are not overridden cost nothing.

    A subclass defines :meth:`draw`. A place is a number in 0 .. ``candidates.capacity`` - 1; ``candidates.places``
    returns those that may be drawn.
    """

    candidates: Drawable | None = None

    def build(self, candidates: Drawable) -> None:
        """Set the source of transitions, which is still empty.

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
        """Priorities of the transitions at these places, float64 [n]; NaN if there is none."""
        return np.full(len(places), np.nan)

    def follow(self, others: Sequence[Sampler]) -> None:
        """Continue the state of other samplers with the same settings, without their priorities."""

    def continue_at(self, batches: int) -> None:
        """Continue schedules as if so many batches had been drawn, if these are more."""

    def total(self) -> float:
        """Total priority, for choosing between shards."""
        return float(len(_candidates_of(self)))

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
        candidates = _candidates_of(self)
        return candidates.places((rng.random(n) * len(candidates)).astype(np.intp))


class Prioritized(Sampler):
    """Proportional prioritization (Schaul et al. 2016, Prioritized Experience Replay, arXiv:1511.05952).

    A transition's priority is p = abs(td_error) + ``epsilon``, or the maximum of all priorities so far (at first 1)
    until it has been drawn. It is drawn with probability P = p^alpha / sum p^alpha (equation 1); a batch takes one
    transition from each of B equal segments of the sum (appendix B.2.1). Its weight is (N P)^-beta, divided by the
    largest weight (section 3.4): the largest of the batch, so that weights are (p_min / p)^(alpha beta) and one of them
    is 1. The paper leaves open over which weights the maximum is taken.

    Args:
        alpha: exponent of priorities, in 0 .. 1; 0 samples uniformly.
        beta: exponent of the importance-sampling weights, in 0 .. 1: a number, or a schedule (object or mapping) over
            the number of batches drawn. The paper anneals it linearly to 1.
        epsilon: added to absolute TD errors, so that every transition can be drawn; above 0.

    Raises:
        ArgumentError: an argument is out of range.
    """

    _maximum: float
    _num_batches: int
    _drawn: Array | None  # places of the batch drawn last; -1 where the transition is forgotten
    _forgot: bool  # whether one of them is forgotten
    _awaits_update: bool

    def __init__(self, alpha: float = 0.6, beta: ScheduleLike = 0.4, epsilon: float = 1e-6) -> None:
        self.alpha = number("Prioritized.alpha", alpha, at_least=0, at_most=1)
        self.beta: Schedule = make_schedule(beta, "Prioritized.beta", at_least=0, at_most=1)
        if follows_run(self.beta):
            message = f"Prioritized.beta follows the number of batches drawn, not the run's progress; got {beta!r}"
            raise ArgumentError(message, "Prioritized.beta", beta)
        self.epsilon = number("Prioritized.epsilon", epsilon, above=0)

    def build(self, candidates: Drawable) -> None:
        """Set the transitions to draw from and allocate the tree; see :meth:`Sampler.build`."""
        super().build(candidates)
        self._tree = SumTree(candidates.capacity)  # of p^alpha
        self._parts = np.arange(0)
        self._reset()

    def added(self, places: Array) -> None:
        """Give new transitions the maximum of all priorities so far."""
        self._replace(places, self._maximum**self.alpha)

    def removed(self, places: Array) -> None:
        """Stop drawing and updating forgotten transitions."""
        self._replace(places, 0.0)

    def draw(self, n: int, rng: np.random.Generator) -> Array:
        """Draw the places [n] of a batch, one from each of n equal parts of the sum of priorities."""
        if len(self._parts) != n:
            self._parts = np.arange(n)
        sums = rng.random(n)
        sums += self._parts
        sums *= self._tree.total() * _BELOW_ONE / n
        places = self._tree.find(sums)
        self._num_batches += 1
        self._drawn, self._forgot, self._awaits_update = places, False, True
        return places

    def weights(self) -> Array:
        """Loss weights of the transitions drawn last, float32 [n]; the largest is 1."""
        beta = checked_value("Prioritized.beta", self.beta, self.beta(self._num_batches - 1), at_least=0, at_most=1)
        scaled = self._tree.values.take(self._drawn_places())
        weights: Array = (np.minimum.reduce(scaled) / scaled) ** beta
        return weights.astype(np.float32)

    def update(self, td_error: Array) -> None:
        """Give the transitions drawn last new priorities. Forgotten ones are skipped; for duplicates the last counts.

        Raises:
            RuntimeError: no batch was drawn, or the last batch was already updated and forgotten.
            ArgumentError: there is not one number for each transition.
            NonFiniteError: one is NaN or infinite.
        """
        places = self._drawn_places()
        errors = checked_td_error(td_error, len(places))
        priorities = np.add(np.abs(errors), self.epsilon, dtype=np.float64)
        self._maximum = max(self._maximum, float(np.maximum.reduce(priorities)))
        self._awaits_update = False
        if self._forgot:
            stored = places >= 0
            priorities, places = priorities[stored], places[stored]
        self._tree.put(places, priorities**self.alpha)

    def put(self, places: Array, td_error: Array) -> None:
        """Give the transitions at these places new priorities; for duplicates the last counts."""
        priorities = np.add(np.abs(td_error), self.epsilon, dtype=np.float64)
        if len(priorities):
            self._maximum = max(self._maximum, float(priorities.max()))
            self._tree.put(places, priorities**self.alpha)

    def priorities(self, places: Array) -> Array:
        """See :meth:`Sampler.priorities`; NaN with alpha = 0, which does not keep them."""
        values = self._tree.values[places]
        if self.alpha == 0:
            return np.full(len(values), np.nan)
        return np.where(values > 0, values ** (1 / self.alpha), np.nan)

    def follow(self, others: Sequence[Sampler]) -> None:
        """Take over the largest maximum, and the furthest position in ``beta``'s schedule."""
        for state in [other.state_dict() for other in others]:
            self._maximum = max(self._maximum, float(state["maximum"]))
            self._num_batches = max(self._num_batches, int(state["num_batches"]))

    def continue_at(self, batches: int) -> None:
        """Continue ``beta``'s schedule as if so many batches had been drawn, if these are more."""
        self._num_batches = max(self._num_batches, batches)

    def total(self) -> float:
        """The sum of all priorities to the power of alpha."""
        return self._tree.total()

    def clear(self) -> None:
        """Forget all transitions, batches and priorities; the maximum is 1 again."""
        self._tree.clear()
        self._reset()

    def nbytes_for(self, capacity: int) -> int:
        """Bytes of the sum tree."""
        return SumTree.bytes_for(capacity)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Kind, alpha, epsilon, and beta if it is one of axonrl's schedules."""
        beta = repr(self.beta) if type(self.beta).__module__ == Constant.__module__ else None
        return {**super().settings, "alpha": self.alpha, "beta": beta, "epsilon": self.epsilon}

    def state_dict(self) -> State:
        """Priorities (to the power of alpha) up to the last that is not 0, the maximum, and the batch drawn last."""
        unused = int((self._tree.values != 0)[::-1].argmax()) if self._tree.values.any() else len(self._tree.values)
        return {
            "priorities": kept(self._tree.values[: len(self._tree.values) - unused]),
            "maximum": self._maximum,
            "num_batches": self._num_batches,
            "drawn": np.zeros(0, np.intp) if self._drawn is None else self._drawn.copy(),
            "awaits_update": self._awaits_update,
        }

    def load_state_dict(self, state: State) -> None:
        """Restore what ``state_dict`` returned; later draws are bit-identical.

        Raises:
            ArgumentError: a priority is negative, NaN or infinite, or there are too many; nothing is changed.
        """
        priorities, drawn = np.asarray(state["priorities"]), np.asarray(state["drawn"])
        if len(priorities) > (room := len(self._tree.values)):
            message = f"priorities must be at most {room}, one for each place, got {len(priorities)}"
            raise ArgumentError(message, "priorities", priorities)
        wrong = ~((priorities >= 0) & np.isfinite(priorities))
        if wrong.any():
            place = int(wrong.argmax())
            message = f"priorities must be finite and at least 0, got {priorities[place]} at place {place}"
            raise ArgumentError(message, "priorities", priorities[place])
        self.clear()
        self._tree.put(np.arange(len(priorities)), priorities)
        self._maximum, self._num_batches = float(state["maximum"]), int(state["num_batches"])
        self._drawn, self._awaits_update = drawn if drawn.size else None, bool(state["awaits_update"])
        self._forgot = bool((drawn < 0).any())

    def __copy__(self) -> Prioritized:
        """A copy whose draws and updates do not affect this one."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        if self.candidates is not None:
            copied._tree = copy.copy(self._tree)
        return copied

    def _reset(self) -> None:
        self._maximum = 1.0
        self._num_batches = 0
        self._drawn = None
        self._awaits_update = self._forgot = False

    def _replace(self, places: Array, value: float) -> None:
        """Forget what was at these places; a pending update of the batch drawn last will skip them."""
        self._tree.put(places, value)
        if self._awaits_update and self._drawn is not None:
            self._drawn = np.where(np.isin(self._drawn, places), -1, self._drawn)
            self._forgot = True
        else:
            self._drawn = None

    def _drawn_places(self) -> Array:
        if self._drawn is None:
            raise RuntimeError("there is no batch whose priorities could be updated: call sample() first")
        return self._drawn


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


def checked_places(sampler: Sampler, places: Any, count: int) -> Array:
    """Check the places that a user's sampler drew, and return them.

    Raises:
        ArgumentError: they are not integers [count], or nothing can be drawn at one of them.
    """
    candidates, name = _candidates_of(sampler), type(sampler).__name__
    given = np.asarray(places)
    if given.shape != (count,) or given.dtype.kind not in "iu":
        found = f"{given.dtype} of shape {given.shape}"
        raise ArgumentError(f"{name}.draw must return integers of shape {(count,)}, got {found}", "sampler", sampler)
    inside = (given >= 0) & (given < candidates.capacity)
    empty = ~inside | ~candidates.holds_places(np.where(inside, given, 0))
    if empty.any():
        message = f"{name}.draw must return places of candidates.places(...): nothing can be drawn at {given[empty][0]}"
        raise ArgumentError(message, "sampler", sampler)
    return given


def _candidates_of(sampler: Sampler) -> Drawable:
    if sampler.candidates is None:
        raise RuntimeError(
            f"this {type(sampler).__name__} belongs to no memory yet: pass it as ReplayMemory(..., sampler=...)"
        )
    return sampler.candidates
