"""The memory: batches of timesteps or of whole episodes, with sums of rewards and what follows these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ....core.protocols import Array
from ..spaces.errors import TensorforceError
from .timestep_buffer import CUT, TERMINATED, Layout, TimestepBuffer


class Batches(NamedTuple):
    """What is drawn, and how rewards are summed."""

    episodes: bool
    """Batches of whole episodes? Else of timesteps."""
    size: int
    """Timesteps or episodes."""
    recent: bool
    """The newest ones? Else random ones."""
    longest: int
    """Timesteps of an episode at most; with ``episodes``."""
    bootstraps: bool
    """Is there a value of what follows the summed rewards?"""
    window: int
    """Timesteps that a row consists of: more than 1 where internals need a history."""


class Trajectories(TimestepBuffer):
    """A ring of timesteps from which batches are drawn.

    The reward of a row is ``sum(discount^i * reward[t + i])`` over ``horizon + 1`` timesteps or up to the end of its
    episode, and what follows is the observation after these.

    Args:
        capacity: rows.
        layout: names, shapes and dtypes.
        batches: what :meth:`sample` returns.
        rng: draws random batches.
    """

    is_rollout = False

    def __init__(self, capacity: int, layout: Layout, batches: Batches, rng: np.random.Generator) -> None:
        super().__init__(capacity, layout)
        self.batches = batches
        self.batch_size = batches.size
        self.horizon: int = 0
        """Timesteps after the first whose rewards are summed too."""
        self.discount: float = 1.0
        self.hyper: dict[str, Array] = {}
        """Scalars that go with the next batch."""
        self.rows = batches.size * batches.longest if batches.episodes else batches.size
        """R, of the next batch; of episodes as many as they can have, or what is set after :meth:`draw`."""
        self._drawn: Array | None = None
        self._rng = rng

    # -- what can be drawn --------------------------------------------------------------------------------------------

    def available(self) -> int:
        """Timesteps, or episodes, that a batch could have now."""
        if self.batches.episodes:
            return len(self._episodes)
        waiting = min(self._count - max(self._open, self._low), self._ahead)
        return len(self) - waiting

    @property
    def _ahead(self) -> int:
        """Rows that must follow a row of a running episode before it can be learnt from."""
        return self.horizon + int(self.batches.bootstraps)

    def can_sample(self, count: int | None = None) -> bool:
        """Would ``count`` timesteps fill a batch? None: do those that are stored?"""
        return (self.available() if count is None else count - self._ahead) >= self.batch_size

    def draw(self) -> int:
        """Choose the timesteps of the next batch; returns how many they are.

        Raises:
            TensorforceError: too little is stored.
        """
        self._drawn = self._chosen()
        return len(self._drawn)

    def _chosen(self) -> Array:
        if not self.can_sample():
            kind = "episodes" if self.batches.episodes else "timesteps"
            raise TensorforceError(
                f"an update needs {self.batch_size} {kind}, and {self.available()} are stored that could be used",
                "batch_size",
                self.batch_size,
            )
        return self._whole_episodes() if self.batches.episodes else self._timesteps()

    def sample(self) -> dict[str, Any]:
        """A batch of R rows: timesteps, or episodes one after another and then rows that are not valid.

        Returns:
            ``observation``, ``action``, ``reward`` [R], ``valid`` [R], ``hyper``; where there is a value of what
            follows, ``next_observation`` and ``discount`` [R]; with internals ``state`` and what else windows need.

        Raises:
            TensorforceError: too little is stored.
        """
        rows, self._drawn = self._chosen() if self._drawn is None else self._drawn, None
        return self._batch(rows)

    def _timesteps(self) -> Array:
        return self._newest() if self.batches.recent else self._random()

    def _newest(self) -> Array:
        size = self.batch_size + self._ahead + 1
        while True:
            rows = np.arange(max(self._low, self._count - size), self._count)
            usable = rows[self._usable(rows)]
            if len(usable) >= self.batch_size or len(rows) == len(self):
                return usable[-self.batch_size :]
            size *= 2

    def _random(self) -> Array:
        found: list[Array] = []
        missing = self.batch_size
        while missing:  # all but a few rows are usable
            rows = self._rng.integers(self._low, self._count, missing)
            rows = rows[self._usable(rows)]
            found.append(rows)
            missing -= len(rows)
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _usable(self, rows: Array) -> Array:
        places = rows % self.capacity
        last = self._last[places]
        ready: Array = (last >= 0) | (rows + self._ahead < self._count)
        return ready

    def _whole_episodes(self) -> Array:
        number = len(self._episodes)
        chosen: Any = range(number - self.batch_size, number)
        if not self.batches.recent:
            chosen = self._rng.choice(number, self.batch_size, replace=False)
        return np.concatenate([np.arange(self._episodes[k][0], self._episodes[k][1] + 1) for k in chosen])

    # -- batches ------------------------------------------------------------------------------------------------------

    def _batch(self, drawn: Array) -> dict[str, Any]:
        rows = np.append(drawn, np.full(self.rows - len(drawn), drawn[0]))
        places = rows % self.capacity
        last = self._last[places]
        code = np.where(last < 0, 0, self._code[last % self.capacity])
        last = np.where(last < 0, self._count - 1, last)
        # The row after the last reward that counts: of an episode that was cut its last row, whose reward does not.
        beyond = np.where(code == CUT, last, last + 1)
        following = np.minimum(rows + self.horizon + 1, beyond)
        rewards = np.zeros(len(rows))
        rewards[: len(drawn)] = self._summed(drawn, following[: len(drawn)])
        batch: dict[str, Any] = {
            "observation": self._taken("observation", rows),
            "action": self._actions(places),
            "reward": rewards.astype(np.float32),
            "valid": (np.arange(len(rows)) < len(drawn)).astype(np.float32),
            "hyper": dict(self.hyper),
        }
        if self._layout.state:
            batch["state"], batch["window_valid"] = self._states(rows)
        if self.batches.bootstraps:
            ends = (following > last) & (code == TERMINATED)
            batch["discount"] = np.where(ends, 0.0, self.discount ** (following - rows)).astype(np.float32)
            self._add_following(batch, rows, following, last, ends, len(drawn))
        return batch

    def _summed(self, rows: Array, following: Array) -> Array:
        """Discounted sums of the rewards of ``rows`` .. ``following - 1``, float64 [R]."""
        counts = following - rows
        if self.batches.episodes and self.horizon >= self.batches.longest - 1:
            return self._summed_backwards(self._reward[rows % self.capacity] * (counts > 0), rows)
        total = np.zeros(len(rows))
        factor = 1.0
        for i in range(int(counts.max(initial=0))):
            total += np.where(i < counts, factor * self._reward[(rows + i) % self.capacity], 0.0)
            factor *= self.discount
        return total

    def _summed_backwards(self, rewards: Array, rows: Array) -> Array:
        """Sums up to the end of each episode, of which all rows are there."""
        ends = self._last[rows % self.capacity] == rows
        total, sums = 0.0, np.zeros(len(rows))
        for k in range(len(rows) - 1, -1, -1):
            total = rewards[k] + (0.0 if ends[k] else self.discount * total)
            sums[k] = total
        return sums

    def _actions(self, places: Array) -> Any:
        taken = {name: column[places] for name, column in self._columns["action"].items()}
        taken = {name: x.astype(np.float32) if x.dtype == np.bool_ else x for name, x in taken.items()}
        return next(iter(taken.values())) if self._layout.single_action else taken

    def _taken(self, group: str, rows: Array) -> dict[str, Array]:
        """Of observations also the rows before, as many as a window has, [R, L, ...]."""
        places = rows % self.capacity
        if group == "observation" and self.batches.window > 1:
            places = self._window(rows)[0] % self.capacity
        return {name: column[places] for name, column in self._columns[group].items()}

    def _window(self, rows: Array) -> tuple[Array, Array]:
        """The rows [R, L] that end with ``rows``, and which of them belong to the same episode and are still held."""
        before = rows[:, None] + np.arange(1 - self.batches.window, 1)
        first = np.maximum(self._start[rows % self.capacity], self._low)[:, None]
        return np.maximum(before, first), before >= first

    def _states(self, rows: Array) -> tuple[dict[str, Array], Array]:
        """Internals at the first row of each window, and which of its rows [R, L] are valid."""
        window, valid = self._window(rows)
        return {name: column[window[:, 0] % self.capacity] for name, column in self._columns["state"].items()}, valid

    def _add_following(
        self, batch: dict[str, Any], rows: Array, following: Array, last: Array, ends: Array, count: int
    ) -> None:
        """What comes after the rewards of the first ``count`` rows; where nothing does, the row, as good as any."""
        kept = np.flatnonzero(((following > last) & ~ends)[:count])
        inside = np.where(following > last, rows, following)
        batch["next_observation"] = found = self._taken("observation", inside)
        if self._layout.state:
            batch["next_state"], batch["next_window_valid"] = self._states(inside)
        for k in kept:
            observation, state = self._following[int(last[k])]
            if self.batches.window == 1:
                for name, value in observation.items():
                    found[name][k] = value
                for name, value in state.items():
                    batch["next_state"][name][k] = value
            else:
                self._add_window(batch, int(k), int(last[k]), observation, state)

    def _add_window(
        self, batch: dict[str, Any], k: int, last: int, observation: Mapping[str, Array], state: Mapping[str, Array]
    ) -> None:
        """The window of row k ends with an observation that is no row: the one after an episode that was aborted."""
        window, valid = self._window(np.array([last]))
        shifted = [*window[0, 1:], last]
        for name, value in observation.items():
            column = self._columns["observation"][name][np.array(shifted) % self.capacity]
            column[-1] = value
            batch["next_observation"][name][k] = column
        batch["next_window_valid"][k] = [*valid[0, 1:], True]
        for name, column in self._columns["state"].items():
            batch["next_state"][name][k] = column[shifted[0] % self.capacity] if valid[0, 1:].any() else state[name]
