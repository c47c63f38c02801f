"""HindsightMemory: replays transitions as if a state that was reached had been the goal."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from ..core.checks import choice, number, shortened
from ..core.errors import ArgumentError, NonFiniteError
from ..core.protocols import ACHIEVED_GOAL as ACHIEVED
from ..core.protocols import DESIRED_GOAL as DESIRED
from ..core.protocols import Array, ArrayTree, EnvironmentView, SpecTree, State
from .columns import FLAGS, take
from .episode_bounds import Bounds
from .replay import ReplayMemory
from .sampler_kinds import SamplerLike

STRATEGIES: Final = ("future", "final", "episode")
_REWARD, _TERMINATED = "compute_reward", "compute_terminated"
Function: TypeAlias = Callable[[Any, Any, Any], Any]


class HindsightMemory(ReplayMemory):
    """A ReplayMemory that replaces goals when it is sampled (Andrychowicz et al. 2017, arXiv:1707.01495).

    Observations are those of a goal environment, as in Gymnasium-Robotics: a Dict with ``achieved_goal`` and
    ``desired_goal``, arrays of one shape and dtype, and any other entries.

    Each sampled transition gets a new goal with probability ``k / (k + 1)``, so that there are k relabelled transitions
    for each original one. The new goal is one that was achieved in the transition's episode (section 4.5): at that
    timestep or later (``future``), at the end (``final``), or at any timestep (``episode``). It replaces the goal in
    both observations. The rewards of all ``n_step`` timesteps are recomputed by the environment's
    ``compute_reward(achieved_goal, desired_goal, info)``, in one call with arrays [n, ...], and ``terminated`` by its
    ``compute_terminated``, with the same arguments; without such a method ``terminated`` is unchanged. An n-step return
    ends where the new goal terminates. An episode that terminated, but not by the new goal, counts as truncated.

    ``info`` is an empty dictionary. Rewards that depend on anything other than goals are refused at the first batch, as
    those computed for the original goals then differ from the stored ones. A function that takes only one pair of goals
    is called once per pair. Stored values do not change, and nothing is stored twice. An unfinished episode ends with
    the newest timestep; forgotten timesteps do not count. A priority belongs to a transition, whatever its goal.

    Args:
        size: transitions kept; a multiple of the number of environments.
        batch_size: transitions in a batch, B.
        discount: discount factor gamma, in 0 .. 1.
        n_step: timesteps over which rewards are summed.
        sampler: as for :class:`ReplayMemory`.
        path: as for :class:`ReplayMemory`; the bounds of episodes stay in RAM.
        k: relabelled transitions per original one, on average; at least 0.
        strategy: choice of goals: ``"future"``, ``"final"`` or ``"episode"``.
        compute_reward: ``f(achieved_goal, desired_goal, info) -> rewards``; None uses the training environment's.
            Required for ``Agent.interact``, which has no environment.
        compute_terminated: optional function of the same arguments: which goals terminate. Only together with
            ``compute_reward``.

    Raises:
        ArgumentError: an argument is out of range.
    """

    _settings = (*ReplayMemory._settings, "k", "strategy")

    def __init__(
        self,
        size: int,
        batch_size: int,
        *,
        discount: float = 0.99,
        n_step: int = 1,
        sampler: SamplerLike = None,
        path: str | os.PathLike[str] | None = None,
        k: float = 4,
        strategy: str = "future",
        compute_reward: Function | None = None,
        compute_terminated: Function | None = None,
    ) -> None:
        super().__init__(size, batch_size, discount=discount, n_step=n_step, sampler=sampler, path=path)
        self.k = number("k", k, at_least=0)
        self.strategy = choice("strategy", strategy, STRATEGIES)
        self.compute_reward, self.compute_terminated = compute_reward, compute_terminated
        for name, function in ((_REWARD, compute_reward), (_TERMINATED, compute_terminated)):
            if function is not None and not callable(function):
                raise ArgumentError(f"{name} must be a function, got {function!r}", name, function)
        if compute_terminated is not None and compute_reward is None:
            raise ArgumentError(f"{_TERMINATED} needs {_REWARD}, too", _TERMINATED, compute_terminated)
        self._take(compute_reward, compute_terminated)

    def use_environment(self, view: EnvironmentView) -> None:
        """Take the environment's functions, unless ``compute_reward`` was given.

        Raises:
            ArgumentError: there is no ``compute_reward``.
        """
        if self.compute_reward is not None:
            return
        reward = view.method(_REWARD)
        if reward is None:
            raise ArgumentError(
                f"HindsightMemory needs an environment with a method {_REWARD}(achieved_goal, desired_goal, info);"
                f" none was given, or it has no such method. The observation space is {view.observation_space}. Pass an"
                f" environment that has it, or HindsightMemory(..., {_REWARD}=...)",
                _REWARD,
                None,
            )
        self._take(reward, view.method(_TERMINATED))

    def build(self, specs: Mapping[str, SpecTree], num_envs: int, rng: np.random.Generator) -> None:
        """Allocate the arrays; see :meth:`Memory.build`. ArgumentError if observations have no goals."""
        observation = specs.get("observation")
        parts = observation if isinstance(observation, Mapping) else {}
        if ACHIEVED not in parts or parts.get(ACHIEVED) != parts.get(DESIRED):
            raise ArgumentError(
                f"HindsightMemory needs observations with goals: a Dict space with {ACHIEVED!r} and {DESIRED!r}, arrays"
                f" of one shape and dtype; the observation space has {_spec_summary(observation)}",
                "observation_space",
                observation,
            )
        super().build(specs, num_envs, rng)
        self._bounds = Bounds(self._ring)

    def clear(self) -> None:
        """Forget every transition."""
        super().clear()
        self._bounds.clear()

    def nbytes_for(self, specs: Mapping[str, SpecTree], num_envs: int) -> int:
        """Bytes after :meth:`build`, the bounds of episodes included; see :meth:`Memory.nbytes_for`."""
        return super().nbytes_for(specs, num_envs) + Bounds.nbytes_for(self.size)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, the bounds of episodes included."""
        return super().nbytes + Bounds.nbytes_for(self.size) if self.num_envs else 0

    def load_state_dict(self, state: State) -> None:
        """Restore a state; draws continue exactly. See :meth:`Memory.load_state_dict`."""
        super().load_state_dict(state)
        self._bounds.clear()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy an unbuilt memory; the functions, which may belong to an environment, are shared."""
        for function in (self.compute_reward, self.compute_terminated, self._reward, self._terminated):
            if function is not None:
                memo[id(function)] = function
        return super().__deepcopy__(memo)

    def _take(self, reward: Function | None, terminated: Function | None) -> None:
        self._reward = None if reward is None else _OfGoals(_REWARD, reward)
        self._terminated = None if terminated is None else _OfGoals(_TERMINATED, terminated)
        self._checked = False

    def _batch_of(self, first: Array) -> dict[str, ArrayTree]:
        """Transitions that begin at these places [B], some of them with new goals."""
        batch: dict[str, Any] = super()._batch_of(first)
        observation, following = batch["observation"], batch["next_observation"]
        goals, chosen = self._draw_goals(first)
        differs = (goals != observation[DESIRED]) | (goals != following[DESIRED])
        rows = np.flatnonzero(chosen & differs.reshape(len(first), -1).any(axis=1))
        if not rows.size:
            return batch
        goals, places = goals[rows], first[rows]
        rewards, terminated, truncated = self._outcomes(self._places_ahead(places), goals)  # [n, R]
        last, steps, reward = self._sum_rewards(places, rewards, (terminated[:-1] + truncated[:-1]) > 0)
        at_last = steps - 1, np.arange(len(rows))
        batch["reward"][rows] = reward
        batch["terminated"][rows], batch["truncated"][rows] = terminated[at_last], truncated[at_last]
        batch["discount"][rows] = self._powers[steps] * (1 - terminated[at_last])
        if self.n_step > 1 and self._terminated is not None:  # the return may span fewer timesteps
            for part, values in following.items():
                values[rows] = self._ring.reached_goals(last, part)
        observation[DESIRED][rows] = following[DESIRED][rows] = goals
        return batch

    def _draw_goals(self, first: Array) -> tuple[Array, Array]:
        """New goals [B, ...], and a mask [B] of the transitions that get one."""
        chosen = self.rng.random(len(first)) < self.k / (self.k + 1)
        timestep, begin, last = self._bounds.around(first)
        if self.strategy == "final":
            source = last
        else:
            begin = timestep if self.strategy == "future" else begin
            source = begin + (self.rng.random(len(first)) * (last - begin + 1)).astype(np.intp)
        places = source % self._ring.timesteps * self.num_envs + first % self.num_envs
        return self._ring.reached_goals(places, ACHIEVED), chosen

    def _outcomes(self, places: Array, goals: Array) -> tuple[Array, Array, Array]:
        """Rewards, terminated and truncated [n, R] at ``places`` [n, R] with the goals [R, ...]."""
        if self._reward is None:
            raise RuntimeError(
                f"HindsightMemory has no {_REWARD}: an Agent takes it from its environment; without one, pass"
                f" HindsightMemory(..., {_REWARD}=...)"
            )
        terminated, truncated = (take(self._ring.columns[key], places) for key in FLAGS)
        achieved = self._ring.reached_goals(places, ACHIEVED)
        if not self._checked:
            self._check(self._reward, places[0], achieved[0])
        flat = achieved.reshape(-1, *goals.shape[1:])
        wanted = np.broadcast_to(goals, achieved.shape).reshape(flat.shape)
        rewards = self._reward(flat, wanted).reshape(places.shape)
        if self._terminated is not None:
            ended = np.maximum(terminated, truncated)
            terminated = self._terminated(flat, wanted).reshape(places.shape)
            truncated = np.where(terminated > 0, truncated, ended)
        return rewards, terminated, truncated

    def _check(self, reward: _OfGoals, places: Array, achieved: Array) -> None:
        """Refuse a function that does not reproduce the stored rewards."""
        stored = take(self._ring.columns["reward"], places)
        computed = reward(achieved, self._ring.reached_goals(places, DESIRED))
        if not np.allclose(stored, computed, rtol=1e-3, atol=1e-5):
            row = int(np.argmax(np.abs(stored - computed)))
            raise ArgumentError(
                f"{_REWARD}(achieved_goal, desired_goal, {{}}) must give the rewards of the environment: it gives"
                f" {computed[row]:g} where step gave {stored[row]:g}. It must take many goals [n, ...] or a single"
                " one, and use no info; wrappers that change rewards cannot be combined with hindsight",
                _REWARD,
                self.compute_reward,
            )
        self._checked = True


class _OfGoals:
    """A function of goals with checked results, called with many goals at once if possible."""

    def __init__(self, name: str, function: Function) -> None:
        self._name, self._function = name, function
        self._takes_many: bool | None = None  # not known

    def __call__(self, achieved: Array, desired: Array) -> Array:
        """The results [n], float32, for goals [n, ...].

        Raises:
            ArgumentError: they are not n numbers or truth values.
            NonFiniteError: one is NaN or infinite.
        """
        if self._takes_many is None:
            self._takes_many = self._try_many(achieved, desired)
        if self._takes_many:
            given = np.asarray(self._function(achieved, desired, {}))
        else:
            given = np.asarray([self._function(one, other, {}) for one, other in zip(achieved, desired, strict=True)])
        if given.shape[:1] != (len(achieved),) or given.size != len(achieved) or given.dtype.kind not in "biuf":
            message = (
                f"{self._name} must return a number for each of {len(achieved)} pairs of goals, got {shortened(given)}"
            )
            raise ArgumentError(message, self._name, given)
        if not np.isfinite(given).all():
            raise NonFiniteError(f"{self._name} returned {shortened(given)}, which is not finite")
        return given.reshape(-1).astype(np.float32)

    def _try_many(self, achieved: Array, desired: Array) -> bool:
        """Whether the function returns a result for each of several pairs."""
        several, others = (np.concatenate([goals[:1], goals]) for goals in (achieved, desired))
        try:
            return np.asarray(self._function(several, others, {})).shape[:1] == (len(several),)
        except Exception:  # an error that single pairs cause too is raised there
            return False


def _spec_summary(spec: SpecTree | None) -> str:
    if isinstance(spec, Mapping):
        return ", ".join(f"{name} {part.dtype}{list(part.shape)}" for name, part in spec.items())
    return "none" if spec is None else f"one array, {spec.dtype}{list(spec.shape)}"
