"""The running episodes: their statistics, and what is needed to restore them after a restart."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.protocols import Array, ArraySpec, ArrayTree, SpecTree, State
from ..environments.batched import BatchedEnvironment
from ..hooks.events import EpisodeStats
from ..run_dir.generators import episode_seed

_ACTIONS_AT_FIRST = 1024


class Episodes:
    """Bookkeeping of one running episode per environment.

    Actions since the start of the earliest running episode are kept: with the seeds, they suffice to replay all
    running episodes, so that a checkpoint may be saved at any timestep.

    Args:
        num_envs: N.
        action: spec of one action. The parts of a composite one are kept side by side as float64, which is exact
            for all of them.
        run_seed: the run's seed, which determines every episode's seed.
    """

    def __init__(self, num_envs: int, action: SpecTree, run_seed: int) -> None:
        self._run_seed = run_seed
        self._parts: Mapping[str, ArraySpec] | None = None
        if not isinstance(action, ArraySpec):
            self._parts, width = action, sum(math.prod(spec.shape) for spec in action.values())
            action = ArraySpec((width,), np.float64)
        self.num_envs = num_envs
        self.running = np.zeros(num_envs, bool)
        self.index = np.zeros(num_envs, np.int64)
        """Episodes started per environment; the running one has index - 1."""
        self.seeds = [0] * num_envs
        self.returns = np.zeros(num_envs, np.float64)
        # Sums over the updates of each running episode. A sum shared by all would be rounded differently after a
        # restart, and would keep a NaN forever.
        self._loss_sums = np.zeros(num_envs, np.float64)
        self._num_updates = 0
        self._updates_before = np.zeros(num_envs, np.int64)  # number of updates at the start of each episode
        self._seconds_before = np.zeros(num_envs, np.float64)  # time of a running episode before it was resumed
        self._started = np.zeros(num_envs, np.float64)
        self._actions = np.zeros((_ACTIONS_AT_FIRST, num_envs, *action.shape), action.dtype)
        self._num_actions = 0
        self._begins = np.zeros(num_envs, np.int64)  # index of each episode's first action

    @property
    def lengths(self) -> Array:
        """Timesteps of each environment's latest episode, int64 [N]."""
        return self._num_actions - self._begins

    def begin(self, mask: Array) -> Sequence[int]:
        """Begin episodes where ``mask``; returns the seeds [N] to reset with."""
        now = time.perf_counter()
        for i in np.flatnonzero(mask).tolist():  # a loop: usually there is one, and numbers are faster than arrays
            self.seeds[i] = episode_seed(self._run_seed, i, int(self.index[i]))
            self.index[i] += 1
            self.running[i] = True
            self.returns[i] = 0.0
            self._begins[i] = self._num_actions
            self._loss_sums[i] = 0.0
            self._updates_before[i] = self._num_updates
            self._seconds_before[i] = 0.0
            self._started[i] = now
        return self.seeds

    def postpone(self, mask: Array) -> None:
        """Undo :meth:`begin` where ``mask``: no agent appeared."""
        self.running[mask] = False
        self.index[mask] -= 1

    def record(self, actions: ArrayTree, rewards: Array | float, acted: Array | None) -> None:
        """Record one timestep.

        Args:
            actions: [N, ...], as chosen.
            rewards: [N]; or a number for a single environment, which is five times as fast.
            acted: bool [N], False for rows that do not count; None if all count.
        """
        self._log(actions)
        if isinstance(rewards, float):
            self.returns[0] += rewards
        elif acted is None:
            self.returns += rewards
        else:
            self.returns += np.where(acted, rewards, 0.0)
            self._begins += ~acted

    def _log(self, actions: ArrayTree) -> None:
        if not isinstance(actions, np.ndarray):
            rows = [np.reshape(actions[name], (self.num_envs, -1)) for name in self._parts or actions]
            actions = np.concatenate(rows, axis=1, dtype=np.float64)
        if self._num_actions == len(self._actions):
            self._keep(self._needed_actions(), self._actions.dtype)
        if actions.dtype is not self._actions.dtype:
            self._keep_precision(actions.dtype)
        self._actions[self._num_actions] = actions
        self._num_actions += 1

    def add_loss(self, loss: float) -> None:
        """Add the loss of one update."""
        self._num_updates += 1
        if self.num_envs == 1:
            self._loss_sums[0] += loss
        else:
            self._loss_sums += loss

    def finish(self, i: int, terminated: bool, truncated: bool, exploration: float) -> EpisodeStats:
        """End the episode of environment ``i``; returns its statistics."""
        self.running[i] = False
        updates = self._num_updates - int(self._updates_before[i])
        loss = float(self._loss_sums[i]) / updates if updates else float("nan")
        return EpisodeStats(
            episode_return=float(self.returns[i]),
            length=self._num_actions - int(self._begins[i]),
            terminated=terminated,
            truncated=truncated,
            loss=loss,
            exploration=exploration,
            seconds=float(self._seconds_before[i] + time.perf_counter() - self._started[i]),
            environment=i,
            episode=int(self.index[i]) - 1,
        )

    def cut(self) -> None:
        """Discard the running episodes."""
        self.running[:] = False

    def replay(self, env: BatchedEnvironment) -> tuple[ArrayTree, Array]:
        """Bring ``env`` to the current timestep of the running episodes, from their seeds and actions.

        The replays of all rows end together. Until a shorter episode has to start, its environment repeats that same
        episode; an environment whose episode has just ended repeats that episode. So an action is taken only in a state
        in which it was taken before.

        Returns:
            Observations [N, ...] and sums of rewards, float64 [N]. For running episodes they equal the original ones
            if the environment is reproducible; for others they are meaningless.
        """
        actions = self._needed_actions()
        observation = env.reset(None, self.seeds)
        returns = np.zeros(self.num_envs)
        ended: Array = np.zeros(self.num_envs, np.bool_)
        rows, total, period = np.arange(self.num_envs), len(actions), np.maximum(self.lengths, 1)
        for step in range(total):
            position = (step - total % period) % period  # in the row's own episode, which begins at 0
            position = np.where(step < total % period, step, position)
            begins = ended | (position == 0)
            if step > 0 and begins.any():
                env.reset(begins, self.seeds)
                returns[begins] = 0.0
            played = env.step(self._as_taken(actions[total - period + position, rows]))
            returns += played.reward
            observation, ended = played.observation, played.terminated | played.truncated
        early = ended & self.running
        if early.any():  # the environment must continue from here
            observation = env.reset(early, self.seeds)
            returns[early] = 0.0
        return observation, returns

    def state_dict(self) -> State:
        """Everything about the running episodes."""
        seconds = self._seconds_before + np.where(self.running, time.perf_counter() - self._started, 0.0)
        return {
            "running": self.running.copy(),
            "index": self.index.copy(),
            "seeds": list(self.seeds),
            "returns": self.returns.copy(),
            "lengths": self.lengths,
            "seconds": seconds,
            "loss_sums": self._loss_sums.copy(),
            "updates": self._num_updates - self._updates_before,
            "actions": self._needed_actions().copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.running = state["running"].copy()
        self.index = state["index"].copy()
        self.seeds = list(state["seeds"])
        self.returns = state["returns"].copy()
        self._loss_sums = state["loss_sums"].copy()
        self._num_updates, self._updates_before = 0, -state["updates"]
        self._seconds_before = state["seconds"].copy()
        self._started[:] = time.perf_counter()
        self._num_actions, self._begins = 0, -state["lengths"]
        self._keep(state["actions"], state["actions"].dtype)

    def follow(self, state: Mapping[str, Any]) -> None:
        """Continue from the state of a different number of environments: begin new episodes, with unused seeds."""
        self.cut()
        self.index[:] = np.max(state["index"])
        self._keep(self._actions[:0], self._actions.dtype)
        self._begins[:] = 0

    def _as_taken(self, actions: Array) -> ArrayTree:
        """Convert logged actions [N, ...] back to their recorded form."""
        if self._parts is None:
            return actions
        ends = np.cumsum([math.prod(spec.shape) for spec in self._parts.values()]).tolist()
        columns = np.split(actions, ends[:-1], axis=1)
        # Floats stay float64: actions may have had more digits than float32.
        return {
            name: column.reshape(-1, *spec.shape).astype(np.float64 if spec.dtype.kind == "f" else spec.dtype)
            for (name, spec), column in zip(self._parts.items(), columns, strict=True)
        }

    def _needed_actions(self) -> Array:
        """Actions [T, N, ...] of every environment's latest episode, aligned at the end."""
        needed = int(self.lengths.max())
        return self._actions[self._num_actions - needed : self._num_actions]

    def _keep_precision(self, dtype: np.dtype[Any]) -> None:
        """Widen the log's dtype to hold these actions exactly, as replay needs."""
        if not np.can_cast(dtype, self._actions.dtype):
            self._keep(self._needed_actions(), np.promote_types(dtype, self._actions.dtype))

    def _keep(self, actions: Array, dtype: np.dtype[Any]) -> None:
        """Set the log to ``actions`` [T, N, ...], with capacity for at least twice as many."""
        log = np.zeros((max(2 * len(actions), _ACTIONS_AT_FIRST), *self._actions.shape[1:]), dtype)
        log[: len(actions)] = actions
        self._begins += len(actions) - self._num_actions
        self._actions, self._num_actions = log, len(actions)
