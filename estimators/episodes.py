"""The episodes in flight: their statistics, and what it takes to bring them back after a restart."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contracts import Array, ArraySpec, ArrayTree, EpisodeStats, State
from ..environments.batched import BatchedEnvironment
from .seeding import episode_seed

_ACTIONS_AT_FIRST = 1024


class Episodes:
    """Bookkeeping of one running episode per environment.

    The actions since the earliest running episode's start are kept: together with the seeds they are enough to
    replay all running episodes, which is how a checkpoint may fall anywhere.

    Args:
        num_envs: N.
        action: spec of one action.
        run_seed: the run's seed, from which every episode's seed follows.
    """

    def __init__(self, num_envs: int, action: ArraySpec, run_seed: int) -> None:
        self._run_seed = run_seed
        self.num_envs = num_envs
        self.running = np.zeros(num_envs, bool)
        self.index = np.zeros(num_envs, np.int64)
        """Episodes begun per environment; the running one has index - 1."""
        self.seeds = [0] * num_envs
        self.returns = np.zeros(num_envs, np.float64)
        self.lengths = np.zeros(num_envs, np.int64)
        self._seconds_before = np.zeros(num_envs, np.float64)  # of a running episode, before it was resumed
        self._started = np.zeros(num_envs, np.float64)
        # Losses of the updates so far, and where each running episode began in them.
        self._loss_sum, self._loss_count = 0.0, 0
        self._loss_sum_at_start = np.zeros(num_envs, np.float64)
        self._loss_count_at_start = np.zeros(num_envs, np.int64)
        self._actions = np.zeros((_ACTIONS_AT_FIRST, num_envs, *action.shape), action.dtype)
        self._num_actions = 0

    def begin(self, mask: Array) -> Sequence[int]:
        """New episodes where ``mask``; returns the seeds [N] to reset with."""
        now = time.perf_counter()
        for i in np.flatnonzero(mask).tolist():
            self.seeds[i] = episode_seed(self._run_seed, i, int(self.index[i]))
        self.index[mask] += 1
        self.running[mask] = True
        self.returns[mask] = 0.0
        self.lengths[mask] = 0
        self._seconds_before[mask] = 0.0
        self._started[mask] = now
        self._loss_sum_at_start[mask] = self._loss_sum
        self._loss_count_at_start[mask] = self._loss_count
        return self.seeds

    def record(self, actions: Array, rewards: Array, acted: Array | None) -> None:
        """One vector step: ``actions`` [N, ...] as chosen, ``rewards`` [N]; rows not ``acted`` do not count."""
        if self._num_actions == len(self._actions):
            self._make_room()
        self._actions[self._num_actions] = actions
        self._num_actions += 1
        self.returns += rewards
        self.lengths += 1 if acted is None else acted

    def add_loss(self, loss: float) -> None:
        """One update was run."""
        self._loss_sum += loss
        self._loss_count += 1

    def finish(self, i: int, terminated: bool, truncated: bool, exploration: float) -> EpisodeStats:
        """The episode of environment ``i`` ended; its statistics."""
        self.running[i] = False
        updates = self._loss_count - int(self._loss_count_at_start[i])
        loss = (self._loss_sum - float(self._loss_sum_at_start[i])) / updates if updates else float("nan")
        return EpisodeStats(
            episode_return=float(self.returns[i]),
            length=int(self.lengths[i]),
            terminated=terminated,
            truncated=truncated,
            loss=loss,
            exploration=exploration,
            seconds=float(self._seconds_before[i] + time.perf_counter() - self._started[i]),
            environment=i,
            episode=int(self.index[i]) - 1,
        )

    def replay(self, env: BatchedEnvironment) -> ArrayTree:
        """Bring ``env`` to where the running episodes are, from their seeds and actions.

        All rows end together, so a shorter episode's environment plays anything until its turn comes (what it did in
        its episode before, or after a reset) and is then reset with its seed.

        Returns:
            The observations [N, ...]; those of rows without a running episode mean nothing.
        """
        lengths = np.where(self.running, self.lengths, 0)
        total = int(lengths.max())
        observation = env.reset(None, self.seeds)
        ended = np.zeros(self.num_envs, bool)
        for step in range(total):
            begins = lengths == total - step
            if step > 0 and (begins | ended).any():
                observation = env.reset(begins | ended, self.seeds)
            played = env.step(self._actions[self._num_actions - total + step])
            observation, ended = played.observation, played.terminated | played.truncated
        late = ended | (self.running & (lengths == 0)) if total else np.zeros(self.num_envs, bool)
        return env.reset(late, self.seeds) if late.any() else observation

    def state_dict(self) -> State:
        """Everything about the running episodes."""
        seconds = self._seconds_before + np.where(self.running, time.perf_counter() - self._started, 0.0)
        needed = int(np.where(self.running, self.lengths, 0).max())
        return {
            "running": self.running.copy(),
            "index": self.index.copy(),
            "seeds": list(self.seeds),
            "returns": self.returns.copy(),
            "lengths": self.lengths.copy(),
            "seconds": seconds,
            "loss_sum": self._loss_sum - self._loss_sum_at_start,
            "loss_count": self._loss_count - self._loss_count_at_start,
            "actions": self._actions[self._num_actions - needed : self._num_actions].copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned."""
        self.running = state["running"].copy()
        self.index = state["index"].copy()
        self.seeds = list(state["seeds"])
        self.returns = state["returns"].copy()
        self.lengths = state["lengths"].copy()
        self._seconds_before = state["seconds"].copy()
        self._started[:] = time.perf_counter()
        self._loss_sum, self._loss_count = 0.0, 0
        self._loss_sum_at_start = -state["loss_sum"]
        self._loss_count_at_start = -state["loss_count"]
        actions = state["actions"]
        self._num_actions = len(actions)
        while len(self._actions) < len(actions):
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)])
        self._actions[: len(actions)] = actions

    def _make_room(self) -> None:
        """Drop actions that no running episode needs; double the log if that freed less than half."""
        needed = int(np.where(self.running, self.lengths, 0).max())
        kept = self._actions[self._num_actions - needed : self._num_actions].copy()
        if needed > len(self._actions) // 2:
            self._actions = np.concatenate([self._actions, np.zeros_like(self._actions)])
        self._actions[:needed] = kept
        self._num_actions = needed
