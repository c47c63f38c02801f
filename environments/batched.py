"""One interface to N environments, whether a single ``gymnasium.Env`` or a vector environment."""

from __future__ import annotations

import abc
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from ..core.checks import FLOAT32_MAX, shortened
from ..core.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from ..core.protocols import Array, ArrayTree, State
from .actions import actions_for
from .observations import keep_rows, non_finite_row, observations_for
from .spaces import AnySpace

AnyEnv: TypeAlias = "gymnasium.Env[Any, Any]"
"""A single environment."""
AnyVectorEnv: TypeAlias = "VectorEnv[Any, Any, Any]"
"""A vector environment."""


class Step(NamedTuple):
    """Results of one step of N environments. Read-only.

    ``observation`` [N, ...] is the final one where an episode ended; ``reward`` float64 [N]; ``terminated`` and
    ``truncated`` bool [N]. ``acted`` bool [N] is False for rows that were reset instead of stepped, or have no agent:
    these are not transitions; None if all acted. ``normalized_reward`` [N] is stored in the memory, None without
    normalisation; returns are always sums of ``reward``.
    """

    observation: ArrayTree
    reward: Array
    terminated: Array
    truncated: Array
    acted: Array | None
    normalized_reward: Array | None = None

    def outcome(self) -> tuple[Array, Array, Array]:
        """Rewards, terminated and truncated, [N] each."""
        return self.reward, self.terminated, self.truncated

    def is_end(self) -> bool:
        """Whether an episode ended. Searching bytes is many times faster than operations on tiny boolean arrays."""
        return 1 in self.terminated.tobytes() or 1 in self.truncated.tobytes()

    def ends(self) -> tuple[Sequence[int], Sequence[bool], Sequence[bool]]:
        """The rows whose episodes ended, and how: terminated and truncated."""
        ended = np.flatnonzero(self.terminated | self.truncated)
        return ended.tolist(), self.terminated[ended].tolist(), self.truncated[ended].tolist()


class BatchedEnvironment(abc.ABC):
    """N environments that are reset and stepped together. Returned arrays are never changed afterwards.

    Args:
        env: the environment to drive.
        name: its name in errors and records.
        num_envs: N.
        observation_space: the observation space of one environment; ArgumentError if unsupported.
        action_space: the action space of one environment; ArgumentError if unsupported.
        not_exact: why a seed does not determine an episode; None if it does.
        owned: whether :meth:`close` closes ``env``. A user's environments stay open.
    """

    skips_rows: bool = False
    """Whether rows may be reset, or have no agent, while others step: such rows are not transitions."""

    waits: bool = False
    """Whether a lane may have no agent for long, while others act."""

    saves_state: bool = False
    """Whether :meth:`state_dict` returns a state, so that episodes need not be replayed."""

    resets_itself: ClassVar[bool] = False
    """Whether the environments reset themselves: a reset by mask only confirms it, and may happen in the next step."""

    def __init__(
        self,
        env: AnyEnv | AnyVectorEnv,
        *,
        name: str,
        num_envs: int,
        observation_space: AnySpace,
        action_space: AnySpace,
        not_exact: str | None = None,
        owned: bool = False,
    ) -> None:
        self.env = env
        self.name = name
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self.not_exact = not_exact
        self._owned = owned
        self._observations = observations_for(observation_space, num_envs)
        self._actions = actions_for(action_space, num_envs)
        self._last: ArrayTree | None = None

    def reset(self, mask: Array | None, seeds: Sequence[int]) -> ArrayTree:
        """Start episodes.

        An environment that resets itself uses seeds only with ``mask=None``; otherwise the rows of ``mask`` must have
        just ended, and keep their current observation.

        Args:
            mask: bool [N], environments to reset; None for all. The first reset must cover all.
            seeds: N non-negative integers of any size; ``seeds[i]`` is used where ``mask[i]``.

        Returns:
            The observations [N, ...]; rows outside ``mask`` keep their last one.

        Raises:
            BrokenEnvironmentError: an environment raised, or returned an observation outside its space.
            NonFiniteError: an observation is NaN or infinite in float32.
            ArgumentError: ``mask`` or ``seeds`` has the wrong shape, or the rows cannot be reset now.
        """
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_:
            message = f"mask must be bool [{self.num_envs}], got {chosen.dtype} {chosen.shape}"
            raise ArgumentError(message, "mask", mask)
        if len(seeds) != self.num_envs:
            raise ArgumentError(f"{self.name} needs {self.num_envs} seeds, got {len(seeds)}", "seeds", seeds)
        every = 0 not in chosen.tobytes()
        if self._last is None:
            if not every:
                message = f"the first reset of {self.name} must include all environments, got {mask}"
                raise ArgumentError(message, "mask", mask)
            mask = None
        if every or chosen.any():
            batch = self._reset(chosen, seeds, everything=mask is None)
            if self._last is not None and not every:
                keep_rows(batch, self._last, ~chosen)
            self._check_finite("reset", batch)
            self._last = batch
        return self._current()

    @abc.abstractmethod
    def step(self, actions: ArrayTree) -> Step:
        """Take one action in every environment.

        Args:
            actions: [N, ...] in the environment's units, with the layout and dtype of ``spaces.action_spec``. Box
                actions are clipped to the space's bounds.

        Raises:
            BrokenEnvironmentError: an environment raised, or returned something outside its spaces.
            NonFiniteError: a reward, an observation or an action is NaN or infinite in float32.
            ArgumentError: an action has the wrong shape or dtype, or is outside the space.
        """

    @property
    def waiting(self) -> Array | None:
        """Lanes without an agent in a running world, bool [N], where no episode begins; None if there are none."""
        return None

    def state_dict(self) -> State | None:
        """State that determines the environments' future; None if they offer none: then episodes are replayed."""
        return None

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned, instead of a first reset.

        Raises:
            ValueError: these environments save no state, or the state belongs to other environments.
        """
        raise ValueError(f"{self.name} saves no state")

    def set_difficulty(self, environment: int, level: Any) -> None:
        """Call ``unwrapped.set_difficulty(level)`` of one environment, between its episodes.

        Raises:
            ArgumentError: it has no such method, or cannot be reached from here.
            BrokenEnvironmentError: the method raised.
        """
        inside: Any = getattr(self.env, "unwrapped", self.env)
        if isinstance(inside, SyncVectorEnv) and not self.resets_itself:
            inside = inside.envs[environment].unwrapped
        method = getattr(inside, "set_difficulty", None)
        if isinstance(inside, VectorEnv) or not callable(method):
            message = (
                f"{self.name} has no method set_difficulty(level) in env.unwrapped, or it cannot be reached: use a"
                " single environment with this method, or copies of it by axonrl.environments.make(..., num_envs=N)"
            )
            raise ArgumentError(message, "env", self.env)
        try:
            method(level)
        except Exception as error:
            raise self._failure_of("set_difficulty", error, environment) from error

    def own(self) -> None:
        """Make :meth:`close` close the environments."""
        self._owned = True

    def close(self) -> None:
        """Close the environments if they are owned."""
        if self._owned:
            self.env.close()

    @abc.abstractmethod
    def _reset(self, chosen: Array, seeds: Sequence[int], *, everything: bool) -> ArrayTree:
        """A new batch whose ``chosen`` rows are first observations; ``everything``: reset all, with their seeds."""

    def _current(self) -> ArrayTree:
        if self._last is None:
            raise ValueError(f"{self.name} must be reset before the first step")
        return self._last

    def _check_finite(self, method: str, batch: ArrayTree) -> None:
        if not self._observations.all_finite(batch):
            raise self._not_finite(method, batch)

    def _not_finite(self, method: str, batch: ArrayTree) -> NonFiniteError:
        """The error for a batch with NaN or infinity."""
        row, values = non_finite_row(batch)
        returned = (
            f"returned an observation that is NaN or infinite in environment {row}, as float32: {shortened(values)}"
        )
        return NonFiniteError(f"{self.name}.{method} {returned}", row)

    def _check_rewards(self, rewards: Array) -> None:
        held = np.abs(rewards) <= FLOAT32_MAX  # False for NaN
        if 0 in held.tobytes():  # as in all_finite
            row = int(np.argmin(held))
            raise self._not_held(rewards[row].item(), row)

    def _not_held(self, reward: float, row: int) -> NonFiniteError:
        """The error for a reward that is not finite in float32, the dtype of memories and models."""
        message = f"{self.name}.step returned the reward {shortened(reward)} in environment {row}{why_not_held(reward)}"
        return NonFiniteError(message, row)

    def _failure_of(self, method: str, error: Exception, environment: int | None = None) -> BrokenEnvironmentError:
        return BrokenEnvironmentError(f"{self.name}.{method} raised {type(error).__name__}: {error}", environment)

    def _refuse(self, method: str, what: object, environment: int | None = None) -> NoReturn:
        raise BrokenEnvironmentError(f"{self.name}.{method} returned {what}", environment)


def why_not_held(reward: float) -> str:
    """Explain why float32 does not hold a reward, after its value in a message; empty for NaN and infinity."""
    finite = isinstance(reward, int) or math.isfinite(reward)
    return f", beyond what float32 holds ({FLOAT32_MAX:.2g}): scale the rewards" if finite else ""
