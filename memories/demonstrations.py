"""DemonstrationMemory: an expert's transitions, kept permanently, and the agent's own."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import check_episodes, number
from ..core.errors import ArgumentError
from ..core.protocols import Array, ArrayTree, EnvironmentView, Episode, SpecTree, State
from ..core.trees import map_tree
from .recorded_episodes import digest_of, fill
from .replay import ReplayMemory
from .sampler_kinds import SamplerLike
from .samplers import checked_td_error

N_STEP_KEYS = ("n_step_reward", "n_step_discount", "n_step_next_observation")


class _BothReturns(ReplayMemory):
    """A ReplayMemory whose batches have 1-step transitions under the usual keys, and n-step returns under others."""

    def _batch_of(self, first: Array) -> dict[str, ArrayTree]:
        batch = self._with_discount(self._ring.gather(first, first))
        if self.n_step > 1:
            last, steps, reward = self._look_ahead(first)
            later = self._ring.gather(last, last)
            terminated = np.asarray(later["terminated"])
            values = reward, self._powers[steps] * (1 - terminated), later["next_observation"]
            batch.update(zip(N_STEP_KEYS, values, strict=True))
        return batch


class DemonstrationMemory(_BothReturns):
    """A ReplayMemory combined with an expert's transitions, for DQfD (Hester et al. 2018, arXiv:1704.03732).

    A share ``ratio`` of each batch, rounded, but at least one transition, is drawn from the demonstrations, which are
    never forgotten. They come last in the batch; ``demonstration`` float32 [B] is 1 for them, and 0 for the agent's own
    transitions. With ``n_step`` = n > 1 a batch has the 1-step transitions under the usual keys, and the n-step returns
    of :class:`ReplayMemory` as ``n_step_reward``, ``n_step_discount`` and ``n_step_next_observation``: DQfD's loss uses
    both.

    Each part has its own sampler, of the same kind and with the same settings. In the paper one prioritized sampler
    draws from both, and constants added to the priorities, 0.001 for the agent's transitions and 1 for the expert's,
    set the shares; here ``ratio`` does.

    A saved state holds only a digest of the demonstrations: resume a run with the same ones.

    Args:
        size: number of the agent's own transitions to keep; a multiple of the number of environments.
        batch_size: transitions in a batch, B, both kinds together.
        demonstrations: a file or a folder for :func:`axonrl.environments.read_episodes`, read when the memory gets its
            environment; or episodes; or None: all transitions are the agent's own.
        ratio: share of demonstrations in a batch, above 0 and below 1.
        discount: gamma, in 0 .. 1.
        n_step: timesteps of the second return.
        frame_stack: as for :class:`ReplayMemory`.
        sampler: as for :class:`ReplayMemory`; demonstrations get a copy.
        path: as for :class:`ReplayMemory`; demonstrations stay in RAM.

    Raises:
        ArgumentError: an argument is out of range.
    """

    _settings = (*ReplayMemory._settings, "ratio", "demonstrations_digest")

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        demonstrations: str | Path | Iterable[Episode] | None = None,
        ratio: float = 0.25,
        discount: float = 0.99,
        n_step: int = 1,
        frame_stack: int | None = None,
        sampler: SamplerLike = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        super().__init__(
            size,
            batch_size,
            discount=discount,
            n_step=n_step,
            frame_stack=frame_stack,
            sampler=sampler,
            path=path,
        )
        self.ratio = number("ratio", ratio, above=0, at_most=1)
        if self.ratio == 1 or self.batch_size == 1:
            message = f"ratio must be below 1, of at least two transitions: got {ratio} and batch_size={batch_size}"
            raise ArgumentError(message, "ratio", ratio)
        self._episodes: list[Episode] | None = None
        if not isinstance(demonstrations, str | Path | None):
            demonstrations = self._episodes = check_episodes("demonstrations", demonstrations)
        self.demonstrations = str(demonstrations) if isinstance(demonstrations, Path) else demonstrations
        self.demonstrations_digest = ""
        """SHA-256 of the demonstrations' content; empty without any."""
        self._expert: _Expert | None = None

    def use_environment(self, view: EnvironmentView) -> None:
        """Read the demonstrations, if they are in a file, and check them.

        Raises:
            ArgumentError: they cannot be read, or do not fit the environment's spaces.
        """
        if self.demonstrations is not None and not self.num_envs:
            self._episodes = list(view.episodes(self.demonstrations, "demonstrations"))

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays and store the demonstrations, which must fit the specs; see :meth:`Memory.build`."""
        if self._episodes is None and self.demonstrations is not None and not self._is_trial:
            raise RuntimeError(f"{self.demonstrations} was not read yet: call use_environment(view) before build")
        expert = self._unbuilt_expert()
        if expert is not None:
            expert.build(specs, 1, rng)
            self._draws = self.batch_size - expert.batch_size
            # As they were given, not as they were checked: a run that is resumed has kept this digest.
            given = self._episodes if isinstance(self.demonstrations, str) else self.demonstrations
            self.demonstrations_digest = digest_of(given or ())
        super().build(specs, num_envs, rng)
        self._expert, self._episodes = expert, None  # they are stored

    def nbytes_for(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        """Bytes after :meth:`build`, including the demonstrations if they were read; see :meth:`Memory.nbytes_for`."""
        expert = self._unbuilt_expert() if self._expert is None else self._expert
        return super().nbytes_for(specs, num_envs) + (0 if expert is None else expert.nbytes_for(specs, 1))

    def _unbuilt_expert(self) -> _Expert | None:
        if self._episodes is None:
            return None
        share = min(max(round(self.ratio * self.batch_size), 1), self.batch_size - 1)
        return _Expert(
            self._episodes,
            share,
            discount=self.discount,
            n_step=self.n_step,
            frame_stack=self.frame_stack,
            sampler=copy.deepcopy(self.sampler),
        )

    def sample(self) -> dict[str, ArrayTree]:
        """A batch of :meth:`ReplayMemory.sample`, with ``demonstration`` float32 [B]."""
        own = super().sample()
        if self._expert is None:
            return {**own, "demonstration": np.zeros(self.batch_size, np.float32)}
        batch: dict[str, Any] = map_tree(lambda *both: np.concatenate(both), own, self._expert.sample())
        batch["demonstration"] = (np.arange(self.batch_size) >= self._draws).astype(np.float32)
        return batch

    def update_priorities(self, td_error: Array) -> None:
        """Pass TD errors [B] of the last batch to the samplers; see :meth:`ReplayMemory.update_priorities`."""
        if self._expert is None or not self.needs_td_error:
            super().update_priorities(td_error)
            return
        td_error = checked_td_error(td_error, self.batch_size)  # checked for both parts before either sampler changes
        super().update_priorities(td_error[: self._draws])
        self._expert.update_priorities(td_error[self._draws :])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, those of the demonstrations included."""
        return super().nbytes + (0 if self._expert is None else self._expert.nbytes)

    def state_dict(self) -> State:
        """Copies of the agent's own transitions and of both samplers' states."""
        return {**super().state_dict(), "expert_sampler": {} if self._expert is None else self._expert.sampler_state()}

    def load_state_dict(self, state: State) -> None:
        """Restore a state; see :meth:`Memory.load_state_dict`. ValueError also if the demonstrations differ."""
        super().load_state_dict(state)
        if self._expert is not None:
            self._expert.load_sampler_state(state["expert_sampler"])

    def __copy__(self) -> DemonstrationMemory:
        """See :class:`ReplayMemory`."""
        copied: Any = super().__copy__()
        vars(copied).update(_expert=copy.copy(self._expert))
        return copied  # type: ignore[no-any-return] # of this class

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy an unbuilt memory; episodes are shared."""
        memo.update({id(shared): shared for shared in (self._episodes, self.demonstrations) if shared is not None})
        return super().__deepcopy__(memo)


class _Expert(_BothReturns):
    """The demonstrations: filled by ``build``, unchanged afterwards."""

    def __init__(self, episodes: Sequence[Episode], batch_size: int, *, n_step: int, **settings: Any) -> None:
        self._given = episodes
        self._waiting = n_step - 1
        transitions = sum(len(episode["reward"]) for episode in episodes)
        if transitions < batch_size:
            raise ArgumentError(
                f"demonstrations must have at least the {batch_size} transitions of a batch, got {transitions}; lower"
                " ratio or batch_size",
                "demonstrations",
                transitions,
            )
        super().__init__(transitions + self._waiting, batch_size, n_step=n_step, **settings)

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate and store the episodes; ArgumentError if they do not fit the specs."""
        super().build(specs, num_envs, rng)
        try:
            fill(self, self._given)
            last = self._given[-1]
            for _ in range(self._waiting):  # the newest are never drawn: with padding, all of the expert's can be
                fill(self, [map_tree(lambda values: values[-1:], last)])
        except KeyError as error:
            raise ArgumentError(f"demonstrations do not fit the run: {error.args[0]}", "demonstrations") from error
        self._given = ()
        if len(self) < self.size:
            message = (
                f"demonstrations do not fit with frame_stack={self.frame_stack}, as their stacks share too few frames;"
                " leave it out"
            )
            raise ArgumentError(message, "frame_stack", self.frame_stack)

    def sampler_state(self) -> State:
        """State of the sampler, which determines later draws."""
        self._tell_sampler()
        return self.sampler.state_dict()

    def load_sampler_state(self, state: State) -> None:
        """Restore what :meth:`sampler_state` returned."""
        self._tell_sampler()  # the state already includes these changes
        self.sampler.load_state_dict(state)

    def _spare_rows(self, timesteps: int, row_bytes: int) -> int:
        """Enough for the worst case: nothing is dropped."""
        return timesteps
