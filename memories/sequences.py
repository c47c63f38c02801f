"""SequenceMemory: sequences of consecutive timesteps, for models with recurrent state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.checks import count, integer, number
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArraySpec, ArrayTree, SpecTree, State
from ..core.trees import leaves
from . import columns
from .replay import ReplayMemory
from .ring import Ring
from .sampler_kinds import SamplerLike
from .sequence_index import Sequences, Shape

_MADE = ("valid", "burn_in")
"""Keys of a batch that this memory adds to those of every memory."""


class SequenceMemory(ReplayMemory):
    """The newest ``size`` timesteps, from which a sampler draws sequences: [T, B, ...] with T = burn_in + length.

    In every episode sequences begin at timesteps 0, length - overlap, 2 (length - overlap), ..., as long as they hold a
    timestep that the previous sequence does not. They may be drawn once they are complete, and never extend beyond
    their episode: missing timesteps are padded.

    The ``burn_in`` timesteps before a sequence come first in a batch: a model replays them from the stored recurrent
    state to bring its state up to date, and does not train on them (Kapturowski et al. 2019, section 3). They are
    padded before the beginning of an episode, too. So the first sequence of an episode begins with the episode's
    initial state, and every timestep of an episode is trained on.

    A batch has the keys of the specs, ``discount``, perhaps ``weight`` [B], and also:

    - ``valid``, float32 [length, B]: 1 for timesteps that are trained on, 0 for padding at the end;
    - ``burn_in``, float32 [burn_in, B], if there is burn-in: 1 for timesteps, 0 for padding at the beginning;
    - ``state``, if the model is recurrent: its state [B, ...] before the first timestep that is not padding. It is
      stored once per sequence, not per timestep.

    Padding repeats the nearest timestep of the sequence, with reward, flags and discount 0. Its observation after the
    end is the episode's final one, so ``observation`` continued by the last ``next_observation`` is what was observed,
    in order. Rewards are those of single timesteps; the model, which has the states in between, computes n-step
    targets.

    Args:
        size: timesteps kept; a multiple of the number of environments.
        batch_size: sequences in a batch, B.
        length: timesteps of a sequence, without burn-in.
        burn_in: timesteps before each sequence; above 0 only for models with recurrent state.
        overlap: timesteps shared with the previous sequence; None: half of ``length``.
        eta: a sequence's priority is ``eta`` times the largest of its absolute TD errors plus (1 - ``eta``) times their
            mean (section 2.3), in 0 .. 1; for a prioritized ``sampler``.
        discount: discount factor gamma, in 0 .. 1.
        frame_stack: as for :class:`ReplayMemory`.
        sampler: draws sequences; see :class:`ReplayMemory`.
        path: a folder for the arrays, as for :class:`ReplayMemory`; recurrent state stays in RAM.

    Raises:
        ArgumentError: an argument is out of range.
    """

    _settings = (*ReplayMemory._settings, "length", "burn_in", "overlap", "eta")
    _drawn_kind = "sequences"
    _candidates: Sequences

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        length: int,
        burn_in: int = 0,
        overlap: int | None = None,
        eta: float = 0.9,
        discount: float = 0.99,
        frame_stack: int | None = None,
        sampler: SamplerLike = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(size, batch_size, discount=discount, frame_stack=frame_stack, sampler=sampler, path=path)
        self.length = count("length", length)
        self.burn_in = integer("burn_in", burn_in, at_least=0)
        self.overlap = self.length // 2 if overlap is None else integer("overlap", overlap, at_least=0)
        self.eta = number("eta", eta, at_least=0, at_most=1)
        if self.overlap >= self.length:
            message = f"overlap must be below length, got overlap={overlap} and length={length}"
            raise ArgumentError(message, "overlap", overlap)
        if self.burn_in + self.length > self.size:
            message = f"length and burn_in must be at most size together, got {length} and {burn_in} with size={size}"
            raise ArgumentError(message, "length", length)
        self._shape = Shape(self.length, self.burn_in, self.overlap)
        self._state: Mapping[str, ArraySpec] = {}
        self._offsets = np.arange(-self.burn_in, self.length)[:, None]  # [T, 1]
        self._counts: Array | None = None  # timesteps trained on, of the sequences drawn last

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays; see :meth:`Memory.build`. ``specs["state"]`` is the recurrent state's mapping, if any.

        Raises:
            ArgumentError: also for burn-in without recurrent state, or a ``size`` that could not always fill a batch.
        """
        if self.num_envs:
            raise RuntimeError("this memory is already built; every Agent needs its own memory")
        for key in _MADE:
            if key in specs:
                raise ArgumentError(f"{key!r} cannot be recorded: it is a key of every batch", "specs", specs)
        self._state = _state_of(specs)
        if self.burn_in and not self._state:
            message = (
                f"burn_in={self.burn_in} needs a model with recurrent state, which this model does not have: use"
                " burn_in=0"
            )
            raise ArgumentError(message, "burn_in", self.burn_in)
        self._check_num_envs(num_envs)
        self._refuse_too_small(num_envs)
        super().build(specs, num_envs, rng)

    def nbytes_for(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        """Bytes after :meth:`build`, with the sampler and each sequence's state; see :meth:`Memory.nbytes_for`."""
        sequences = Sequences.needed_bytes(self.size // num_envs, num_envs, self._shape, _state_of(specs))
        return super().nbytes_for(specs, num_envs) + sequences

    def step(self, **transition: Any) -> None:
        """Store one transition; see :meth:`Memory.step`."""
        self._require_built()
        state = self._pop_state(transition)
        super().step(**transition)
        self._candidates.follow_one(state)

    def extend(self, mask: Array | None = None, /, **batch: Any) -> None:
        """Store one timestep of several lanes; see :meth:`Memory.extend`."""
        self._require_built()
        state = self._pop_state(batch, self.num_envs)
        super().extend(mask, **batch)
        lanes = np.arange(self.num_envs) if mask is None else np.flatnonzero(mask)
        if lanes.size:
            self._candidates.follow(lanes, {name: np.asarray(value)[lanes] for name, value in state.items()})

    def can_sample(self, count: int | None = None) -> bool:
        """Whether ``count`` timesteps of unfinished episodes would fill a batch; ``None`` for those stored now."""
        if count is None:
            return super().can_sample()
        lanes = max(self.num_envs, 1)
        beyond = count // lanes - self.length
        return beyond >= 0 and (1 + beyond // self._shape.stride) * lanes >= self.batch_size

    def update_priorities(self, td_error: Array) -> None:
        """Pass the priorities of the sequences sampled last to the sampler.

        Args:
            td_error: [T, B], or flat [T * B]; burn-in and padding do not count.

        Raises:
            RuntimeError: no batch was sampled.
            ArgumentError: the sampler needs them, and there is not one number for each timestep.
            NonFiniteError: the sampler needs them, and one is NaN or infinite.
        """
        if not self.needs_td_error:
            return
        if self._counts is None:
            raise RuntimeError("there is no batch whose priorities could be updated: call sample() first")
        shape = (len(self._offsets), len(self._counts))
        errors = np.asarray(td_error)
        if errors.dtype.kind not in "fiu" or errors.shape not in (shape, (shape[0] * shape[1],)):
            given = f"{errors.dtype} of shape {errors.shape}"
            raise ArgumentError(f"td_error must be floats of shape {shape}, got {given}", "td_error", td_error)
        trained = np.abs(errors.reshape(shape)[self.burn_in :])
        trained = np.where(self._offsets[self.burn_in :] < self._counts, trained, 0)
        super().update_priorities(self.eta * trained.max(0) + (1 - self.eta) * trained.sum(0) / self._counts)

    def clear(self) -> None:
        """Forget every timestep."""
        super().clear()
        self._candidates.clear()
        self._counts = None

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays. Physical memory is used only as transitions are stored."""
        return super().nbytes + (self._candidates.nbytes if self.num_envs else 0)

    def state_dict(self) -> State:
        """Copies of what is stored and of the sampler's state; see :meth:`Memory.state_dict`."""
        counts = np.zeros(0, np.int32) if self._counts is None else self._counts.copy()
        return {**super().state_dict(), "sequences": self._candidates.state_dict(), "drawn_counts": counts}

    def load_state_dict(self, state: State) -> None:
        """Restore a state; draws continue exactly. See :meth:`Memory.load_state_dict`."""
        super().load_state_dict(state)
        self._candidates.load_state_dict(state["sequences"])
        counts = np.asarray(state["drawn_counts"])
        self._counts = counts if counts.size else None

    def _make_candidates(self) -> Sequences:
        return Sequences(self._ring, self._shape, self._state)

    def _num_places(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        state_bytes = num_envs * columns.nbytes(_state_of(specs))
        return num_envs * Sequences.rows_for(self.size // num_envs, self._shape, state_bytes)

    def _allocate(self, specs: Mapping[str, SpecTree], timesteps: int, num_envs: int, zeros: columns.Zeros) -> Ring:
        state = _state_of(specs)
        stored = {key: spec for key, spec in specs.items() if not state or key != "state"}
        return super()._allocate(stored, timesteps, num_envs, zeros)

    def _refuse_too_small(self, num_envs: int) -> None:
        """Refuse a ``size`` that may not hold a batch, depending on where sequences begin."""
        span = self.burn_in + self.length
        rounds = -(-self.batch_size // num_envs)
        least = (span - 1 + rounds * self._shape.stride) * num_envs
        if least > self.size:
            burn_in = f" after {self.burn_in} of burn-in" if self.burn_in else ""
            raise ArgumentError(
                f"size must be at least {least} for batches of {self.batch_size} sequences of length={self.length}"
                f"{burn_in}, overlap={self.overlap}, with {num_envs} environment(s); got size={self.size}",
                "size",
                self.size,
            )

    def _pop_state(self, transition: dict[str, Any], *leading: int) -> Mapping[str, Any]:
        """Pop the recurrent state from a transition."""
        if not self._state:
            return {}
        state = transition.pop("state", None)
        self._candidates.check(state, *leading)
        return state  # type: ignore[no-any-return] # it has been checked

    def _batch_of(self, places: Array) -> dict[str, ArrayTree]:
        """Sequences at these places [B]: a batch without weights."""
        first, burn_in, self._counts = self._candidates.spans(places)
        inside = (self._offsets >= -burn_in) & (self._offsets < self._counts)  # [T, B]
        timestep = first + np.clip(self._offsets, -burn_in, self._counts - 1)
        at = timestep % self._ring.timesteps * self.num_envs + places % self.num_envs
        batch: dict[str, Any] = self._with_discount(self._ring.gather(at, at))
        for key in ("reward", "terminated", "truncated", "discount"):
            batch[key] = np.where(inside, np.asarray(batch[key]), np.float32(0))
        if (after := self._offsets >= self._counts).any():
            for reached, here in zip(leaves(batch["next_observation"]), leaves(batch["observation"]), strict=True):
                here[after] = reached[after]
        batch["valid"] = inside[self.burn_in :].astype(np.float32)
        if self.burn_in:
            batch["burn_in"] = inside[: self.burn_in].astype(np.float32)
        if self._state:
            batch["state"] = self._candidates.states(places)
        return batch


def _state_of(specs: Mapping[str, SpecTree]) -> Mapping[str, ArraySpec]:
    """The specs of the recurrent state, empty without one."""
    state = specs.get("state")
    return state if isinstance(state, Mapping) else {}
