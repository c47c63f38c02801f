"""ReplayMemory: single transitions, drawn uniformly or by priority, with n-step returns."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ..core.checks import count
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree, SpecTree, State
from .columns import FLAGS, take
from .memory import Memory
from .sampler_kinds import SamplerLike, is_ours, make_sampler
from .samplers import Sampler, checked_places, checked_td_error

PRIORITY: Final = "priority"
"""The column of :meth:`ReplayMemory.contents` with the priorities."""


class ReplayMemory(Memory):
    """The newest ``size`` transitions, from which a sampler draws batches [B, ...].

    With ``n_step`` = n > 1 a sampled transition spans m timesteps of its lane: n, or fewer where the episode was
    terminated, truncated or cut (Sutton and Barto, 2nd edition, section 7.1). Its ``reward`` is the sum of
    gamma^k times the k-th reward, k = 0 .. m - 1; ``terminated``, ``truncated`` and ``next_observation`` are those
    of its last timestep; ``discount`` is gamma^m, or 0 on termination; ``action`` and other recorded keys are those of
    its first. The newest n - 1 timesteps of a lane are not drawn until their successors are stored.

    Args:
        size: transitions kept; a multiple of the number of environments.
        batch_size: transitions in a batch, B.
        discount: discount factor gamma, in 0 .. 1.
        n_step: timesteps over which rewards are summed.
        frame_stack: frames in an observation; each frame is then stored once (see :class:`Memory`). None: observations
            are stored whole.
        sampler: ``Uniform()`` (the default), ``Prioritized(...)``, its kind, or a mapping such as
            ``{"kind": "prioritized", "alpha": 0.6}``.
        path: a folder for arrays larger than the RAM (see :class:`Memory`); None: the arrays are in RAM.

    Raises:
        ArgumentError: an argument is out of range.
    """

    _settings = (*Memory._settings, "n_step", "sampling")
    _drawn_kind = "transitions"

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        discount: float = 0.99,
        n_step: int = 1,
        frame_stack: int | None = None,
        sampler: SamplerLike = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(size, batch_size, discount=discount, frame_stack=frame_stack, path=path)
        self.n_step = count("n_step", n_step)
        if self.n_step > self.size:
            raise ArgumentError(
                f"n_step must be at most size, got {self.n_step} and size={self.size}", "n_step", n_step
            )
        self.sampler = make_sampler(sampler)
        self._follows = (
            type(self.sampler).added is not Sampler.added or type(self.sampler).removed is not Sampler.removed
        )
        self._draws = self.batch_size  # fewer if a subclass adds other transitions to a batch
        self._powers = (self.discount ** np.arange(self.n_step + 1)).astype(np.float32)

    @property
    def needs_td_error(self) -> bool:
        """Whether the sampler draws by TD errors."""
        return type(self.sampler).update is not Sampler.update

    @property
    def sampling(self) -> Mapping[str, Any]:
        """The sampler's settings."""
        return self.sampler.settings

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays; see :meth:`Memory.build`. ArgumentError also if ``size`` is too small for a batch."""
        least = self._draws + (self.n_step - 1) * num_envs
        if least > self.size:
            raise ArgumentError(
                f"size must be at least {least} for batch_size={self.batch_size} and n_step={self.n_step}"
                f" with {num_envs} environment(s), got size={self.size}",
                "size",
                self.size,
            )
        super().build(specs, num_envs, rng)
        self.specs = specs
        self._candidates = self._make_candidates()
        self.sampler.build(self._candidates)

    def nbytes_for(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        """Bytes after :meth:`build`, the sampler's included; see :meth:`Memory.nbytes_for`."""
        return super().nbytes_for(specs, num_envs) + self.sampler.nbytes_for(self._num_places(specs, num_envs))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, the sampler's included."""
        return super().nbytes + (self.sampler.nbytes_for(self._candidates.capacity) if self.num_envs else 0)

    def can_sample(self, count: int | None = None) -> bool:
        """Whether ``count`` stored timesteps would fill a batch; ``None`` for those stored now."""
        if count is None:
            self._require_built()
            return len(self._candidates) >= self._draws
        return count - (self.n_step - 1) * self.num_envs >= self._draws

    def sample(self) -> dict[str, ArrayTree]:
        """A batch, copied.

        Returns:
            the keys of the specs and ``discount``, [B, ...], and ``weight`` [B] if the sampler has weights; reward,
            terminated, truncated, discount and weight are float32, everything else has the dtype of its spec.

        Raises:
            RuntimeError: not enough is stored (see :meth:`can_sample`), or the memory is not built.
        """
        self._require_built()
        candidates = len(self._candidates)
        if candidates < self._draws:
            raise RuntimeError(f"a batch of {self._draws} cannot be drawn from {candidates} {self._drawn_kind}")
        return self.draw(self._draws)

    def draw(self, count: int) -> dict[str, ArrayTree]:
        """A batch like that of :meth:`sample`, of ``count`` transitions instead of ``batch_size``.

        Samplers draw with replacement, so a single drawable transition (see :meth:`drawable`) is enough.
        """
        if self._follows:
            self._tell_sampler()
        places = self.sampler.draw(count, self.rng)
        self._places = places if is_ours(self.sampler) else checked_places(self.sampler, places, count)
        batch = self._batch_of(self._places)
        if (weights := self.sampler.weights()) is not None:
            batch["weight"] = weights
        return batch

    def update_priorities(self, td_error: Array) -> None:
        """Pass the TD errors [B] of the batch sampled last to the sampler.

        Raises:
            ArgumentError: the sampler needs them, and there is not one number for each transition.
            NonFiniteError: the sampler needs them, and one is NaN or infinite.
        """
        self._require_built()
        if self._follows:
            self._tell_sampler()
        self.sampler.update(td_error)

    # -- for callers with several batches in flight --------------------------------------------------------------------

    def tickets(self) -> Array:
        """Identifiers of the transitions in the batch sampled last, int64 [B]; never reused."""
        tickets: Array = self._ring.numbers(self._places)
        return tickets

    def next_numbers(self) -> Array:
        """The number of the next timestep of each lane, int64 [N]: ticket = number * N + lane."""
        numbers: Array = np.zeros(self.num_envs, np.int64)
        numbers[:] = self._ring.end
        return numbers

    def prioritize(self, tickets: Array, td_error: Array) -> int:
        """Give transitions priorities by their TD errors.

        Args:
            tickets: from :meth:`tickets`, int64 [K].
            td_error: float [K].

        Returns:
            Number of transitions that are no longer stored; they are skipped.

        Raises:
            ArgumentError: as for :meth:`update_priorities`.
        """
        errors = checked_td_error(td_error, len(tickets))
        self._tell_sampler()
        stored = self._ring.holds(tickets)
        self.sampler.put(self._ring.places_of(tickets[stored]), errors[stored])
        return int(len(tickets) - np.count_nonzero(stored))

    def episode_ends(self) -> Iterator[tuple[int, Array]]:
        """For each lane, the number of its oldest timestep and the ends of its episodes, int64 [E].

        An end is the number after an episode's last timestep. The last end follows the newest timestep, where an
        episode may continue.
        """
        self._require_built()
        begin: Array = np.zeros(self.num_envs, np.int64)
        begin[:] = self._ring.begin
        terminated, truncated = (np.asarray(self._ring.columns[key]) for key in FLAGS)
        for lane, end in enumerate(self.next_numbers().tolist()):
            numbers = np.arange(begin[lane], end)
            places = self._ring.places_of(numbers * self.num_envs + lane)
            ends = (take(terminated, places) + take(truncated, places)) > 0
            ends[-1:] = True
            yield int(begin[lane]), numbers[ends] + 1

    def timesteps(self, lane: int, numbers: Array) -> tuple[dict[str, Any], Array]:
        """Stored values [T, ...] of a lane's timesteps ``numbers`` [T], and priorities [T] (NaN if unknown)."""
        self._tell_sampler()
        places = self._ring.places_of(numbers * self.num_envs + lane)
        rows = self._ring.gather(places, places)
        flags = {key: np.asarray(rows[key]) > 0 for key in FLAGS}
        return {**rows, **flags}, self.sampler.priorities(places)

    def drawable(self) -> int:
        """Number of transitions that may be drawn now."""
        self._require_built()
        return len(self._candidates)

    def total_priority(self) -> float:
        """Total weight of the candidates: the sum of priorities to the power of alpha, or their number."""
        self._require_built()
        self._tell_sampler()
        return self.sampler.total()

    def contents(self) -> tuple[dict[str, ArrayTree], dict[str, Any]]:
        """See :meth:`Memory.contents`; with the sampler's ``priority`` float64 [T], if it draws by priorities."""
        found, drawing = super().contents()
        state = self.state_dict()["sampler"]
        if "priorities" in state:
            by_place = np.zeros(self.size, np.float64)
            kept = np.asarray(state["priorities"])
            by_place[: len(kept)] = kept
            found[PRIORITY] = by_place[self._ring.places(np.arange(len(self)), 0)]
            drawing = {"maximum": float(state["maximum"]), "num_batches": int(state["num_batches"])}
        return found, drawing

    def fill(self, transitions: Mapping[str, ArrayTree], drawing: Mapping[str, Any]) -> None:
        """See :meth:`Memory.fill`; ArgumentError also for priorities that are negative or not finite."""
        super().fill({key: value for key, value in transitions.items() if key != PRIORITY}, drawing)
        if PRIORITY in transitions:
            self._tell_sampler()
            drawn: Array = np.zeros(0, np.intp)
            priorities = np.asarray(transitions[PRIORITY])
            state = {**drawing, "priorities": priorities, "drawn": drawn, "awaits_update": False}
            self.sampler.load_state_dict(state)

    def clear(self) -> None:
        """Forget every transition."""
        super().clear()
        self.sampler.clear()

    def state_dict(self) -> State:
        """Copies of what is stored and of the sampler's state; see :meth:`Memory.state_dict`."""
        state = super().state_dict()
        if self._follows:
            self._tell_sampler()
        return {**state, "sampler": self.sampler.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Restore a state; draws continue exactly. See :meth:`Memory.load_state_dict`."""
        super().load_state_dict(state)
        self._candidates.changes()  # the sampler's state includes them
        self.sampler.load_state_dict(state["sampler"])

    def __copy__(self) -> ReplayMemory:
        """A copy that shares the arrays, whose draws do not affect this memory's sampler."""
        copied = object.__new__(type(self))
        if self.num_envs:
            self._tell_sampler()
        vars(copied).update(vars(self))
        copied.sampler = copy.copy(self.sampler)
        return copied

    def _make_candidates(self) -> Any:
        self._ring.waiting = self.n_step - 1
        return self._ring

    def _num_places(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        """Number of places that the sampler will draw from."""
        return self.size

    def _batch_of(self, first: Array) -> dict[str, ArrayTree]:
        """Transitions that begin at these places [B]."""
        if self.n_step == 1:
            return self._with_discount(self._ring.gather(first, first))
        last, steps, reward = self._look_ahead(first)
        batch = self._ring.gather(first, last)
        batch["reward"] = reward
        batch["discount"] = self._powers[steps] * (1 - np.asarray(batch["terminated"]))
        return batch

    def _tell_sampler(self) -> None:
        changes = self._candidates.changes()
        if changes is None:
            return
        removed, added = changes
        if removed.size:
            self.sampler.removed(removed)
        if added.size:
            self.sampler.added(added)

    def _look_ahead(self, first: Array) -> tuple[Array, Array, Array]:
        """Places of the last timesteps, numbers of timesteps m, and returns for the places ``first`` [B]."""
        rewards, terminated, truncated = (
            np.asarray(self._ring.columns[key]) for key in ("reward", "terminated", "truncated")
        )
        places = self._places_ahead(first)
        ended = (take(terminated, places[:-1]) + take(truncated, places[:-1])) > 0
        return self._sum_rewards(first, take(rewards, places), ended)

    def _places_ahead(self, first: Array) -> Array:
        """Places [n, B] of n timesteps beginning at ``first`` [B], not wrapped around at the end of the ring."""
        places: Array = first + self.num_envs * np.arange(self.n_step)[:, None]
        return places

    def _sum_rewards(self, first: Array, rewards: Array, ended: Array) -> tuple[Array, Array, Array]:
        """Result of :meth:`_look_ahead`, from rewards [n, B] and the mask [n - 1, B] of episode ends."""
        included = np.ones(rewards.shape, np.bool_)
        np.logical_not(np.logical_or.accumulate(ended), out=included[1:])
        steps = included.sum(axis=0)
        reward = (self._powers[: self.n_step, None] * included * rewards).sum(axis=0)
        return (first + (steps - 1) * self.num_envs) % self._candidates.capacity, steps, reward
