"""The memory: timesteps of successive episodes, and batches with n-step returns and bootstrap observations.

Core's memories take a transition with its next observation; here that arrives a call later, with the next ``act``.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, ArraySpec
from ....core.trees import map_tree
from ....memories.columns import allocate, take
from ..spaces.errors import TensorforceError

TERMINATED: Final = 1
"""The episode ended: no bootstrapping."""
ABORTED: Final = 2
"""The episode was cut short, with known next states."""
CUT: Final = 3
"""The episode was cut short, without known next states: the value of the last observation replaces the last reward."""


class Trajectories:
    """A ring of timesteps, from which batches are drawn.

    A *row* is a timestep; rows are numbered consecutively, and the ring holds the newest ``capacity``. The return of a
    row is ``sum(discount^i * reward[t + i])`` over ``horizon + 1`` timesteps or up to the end of its episode; its next
    observation is the one after these.

    Args:
        capacity: most rows it can hold.
        specs: specs of ``observation``, ``action`` and ``state`` (internals) of a timestep, each by name.
        rng: generator of random batches.
        episodes: are batches made of whole episodes, rather than timesteps?
        size: batch size in timesteps or episodes.
        recent: draw the newest ones, rather than random ones?
        longest: most timesteps of an episode; with ``episodes``.
        bootstraps: add the value of the next observation to the returns?
        window: timesteps per row: more than 1 if internals need a history.
    """

    is_rollout = False

    def __init__(
        self,
        capacity: int,
        specs: Mapping[str, Mapping[str, ArraySpec]],
        rng: np.random.Generator,
        *,
        episodes: bool,
        size: int,
        recent: bool,
        longest: int,
        bootstraps: bool,
        window: int,
    ) -> None:
        self.capacity, self.batch_size, self._rng = capacity, size, rng
        self._by_episodes, self._recent, self._longest = episodes, recent, longest
        self._bootstraps, self._window = bootstraps, window
        self.horizon: int = 0
        """Number of timesteps after the first whose rewards are summed too."""
        self.discount: float = 1.0
        self.hyper: dict[str, Array] = {}
        """Scalars added to the next batch."""
        self.rows = size * longest if episodes else size
        """R, rows of the next batch; for episodes the most possible, or the number set after :meth:`draw`."""
        self._columns: dict[str, dict[str, Array]] = allocate(specs, capacity, name="columns")
        self._writes = [(group, name, array) for group, part in self._columns.items() for name, array in part.items()]
        self._reward = np.zeros(capacity)
        self._start, self._last = np.zeros((2, capacity), np.int64)
        self._code = np.zeros(capacity, np.uint8)
        self._following: dict[int, tuple[dict[str, Array], dict[str, Array]]] = {}
        self._episodes: deque[tuple[int, int]] = deque()
        self._count = self._low = 0
        self._open = 0
        """The row at which the running episode begins; the next row if no episode runs."""
        self._drawn: Array | None = None

    def __len__(self) -> int:
        return self._count - self._low

    # -- storing ------------------------------------------------------------------------------------------------------

    def append(
        self, observation: Mapping[str, Array], action: Mapping[str, Any], state: Mapping[str, Array], reward: float
    ) -> None:
        """Store the next timestep of the running episode; arrays without a batch axis."""
        place = self._count % self.capacity
        given = {"observation": observation, "action": action, "state": state}
        for group, name, column in self._writes:
            column[place] = given[group][name]
        self._reward[place], self._start[place] = reward, self._open
        self._last[place], self._code[place] = -1, 0
        self._count += 1
        if self._count - self._low > self.capacity:
            self._low = low = self._count - self.capacity
            while self._episodes and self._episodes[0][0] < low:
                self._episodes.popleft()
            self._following.pop(low - 1, None)

    def end(
        self, code: int, observation: Mapping[str, Array] | None = None, state: Mapping[str, Array] | None = None
    ) -> None:
        """End the running episode.

        Args:
            code: :data:`TERMINATED`, :data:`ABORTED` or :data:`CUT`.
            observation: for an aborted episode, the observation after its last timestep.
            state: the internals after its last timestep.
        """
        first, last = max(self._open, self._low), self._count - 1
        if last < first:
            return
        self._last[np.arange(first, last + 1) % self.capacity] = last
        self._code[last % self.capacity] = code
        if code == ABORTED:
            self._following[last] = dict(observation or {}), dict(state or {})
        if self._open >= self._low:
            self._episodes.append((self._open, last))
        self._open = self._count

    def newest(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Copies of the newest timestep's observation, and of the internals when acting."""
        place = (self._count - 1) % self.capacity
        observation, state = (
            map_tree(lambda a: a[place].copy(), self._columns[key]) for key in ("observation", "state")
        )
        return observation, state

    def drop_open(self) -> None:
        """Drop the rows of the running episode."""
        self._count = self._open = max(self._open, self._low)

    def clear(self) -> None:
        """Drop all rows."""
        self._count = self._low = self._open = 0
        self._following.clear()
        self._episodes.clear()

    # -- what can be drawn --------------------------------------------------------------------------------------------

    def available(self) -> int:
        """Number of timesteps or episodes that can be drawn now."""
        if self._by_episodes:
            return len(self._episodes)
        return len(self) - min(self._count - max(self._open, self._low), self._rows_ahead)

    @property
    def _rows_ahead(self) -> int:
        """Number of rows that must follow a row of a running episode before it can be drawn."""
        return self.horizon + int(self._bootstraps)

    def can_sample(self) -> bool:
        """Do the stored timesteps or episodes fill a batch?"""
        return self.available() >= self.batch_size

    def draw(self) -> int:
        """Choose the timesteps of the next batch; returns their number.

        Raises:
            TensorforceError: too little is stored.
        """
        if not self.can_sample():
            kind = "episodes" if self._by_episodes else "timesteps"
            problem = f"an update needs {self.batch_size} {kind}, but only {self.available()} usable ones are stored"
            raise TensorforceError(problem, "batch_size", self.batch_size)
        if self._by_episodes:
            number = len(self._episodes)
            chosen: Any = range(number - self.batch_size, number)
            if not self._recent:
                chosen = self._rng.choice(number, self.batch_size, replace=False)
            found = [np.arange(self._episodes[k][0], self._episodes[k][1] + 1) for k in chosen]
        elif self._recent:
            size, found = self.batch_size, [np.zeros(0, np.int64)]
            while len(found[0]) < self.batch_size:  # as many are usable
                size = 2 * size + self._rows_ahead
                rows = np.arange(max(self._low, self._count - size), self._count)
                found = [rows[self._usable(rows)][-self.batch_size :]]
        else:
            found, missing = [], self.batch_size
            while missing:  # all but a few rows are usable
                rows = self._rng.integers(self._low, self._count, missing)
                found.append(rows[self._usable(rows)])
                missing -= len(found[-1])
        self._drawn = np.concatenate(found)
        return len(self._drawn)

    def sample(self) -> dict[str, Any]:
        """A batch of R rows: timesteps, or successive episodes padded with rows that are not valid.

        Returns:
            ``observation``, ``action`` by name, ``reward`` [R], ``valid`` [R], ``hyper``; with bootstrapping also
            ``next_observation`` and ``discount`` [R]; with internals ``state`` and the inputs of windows.

        Raises:
            TensorforceError: too little is stored.
        """
        if self._drawn is None:
            self.draw()
        drawn, self._drawn = self._drawn, None
        return self._batch(drawn)

    def specs(self) -> Any:
        """Specs of a batch."""
        return map_tree(lambda array: ArraySpec(array.shape, array.dtype), self._batch(np.zeros(0, np.int64)))

    def _usable(self, rows: Array) -> Array:
        ready: Array = (take(self._last, rows) >= 0) | (rows + self._rows_ahead < self._count)
        return ready

    # -- batches ------------------------------------------------------------------------------------------------------

    def _batch(self, drawn: Array | None) -> dict[str, Any]:
        drawn = np.zeros(0, np.int64) if drawn is None else drawn
        count = len(drawn)
        rows = np.append(drawn, np.full(self.rows - count, drawn[0] if count else 0))
        last = take(self._last, rows)
        code = np.where(last < 0, 0, take(self._code, last))
        last = np.where(last < 0, self._count - 1, last)
        # The row after the last summed reward: of a cut episode the last row, whose reward is not summed.
        following = np.minimum(rows + self.horizon + 1, np.where(code == CUT, last, last + 1))
        rewards = np.zeros(len(rows))
        rewards[:count] = self._sum_rewards(drawn, following[:count])
        batch: dict[str, Any] = {
            **self._inputs(rows),
            "action": take(self._columns["action"], rows),
            "reward": rewards.astype(np.float32),
            "valid": (np.arange(len(rows)) < count).astype(np.float32),
            "hyper": dict(self.hyper),
        }
        if self._bootstraps:
            ended = (following > last) & (code == TERMINATED)
            batch["discount"] = np.where(ended, 0.0, self.discount ** (following - rows)).astype(np.float32)
            after = self._inputs(np.minimum(following, last))  # an arbitrary row if nothing follows
            for k in np.flatnonzero(((following > last) & ~ended)[:count]):
                self._put_following(after, int(k), int(last[k]))
            batch |= {f"next_{key}": values for key, values in after.items()}
        return batch

    def _sum_rewards(self, rows: Array, following: Array) -> Array:
        """Discounted sums of the rewards of ``rows`` .. ``following - 1``, float64 [R]."""
        counts = following - rows
        sums, factor = np.zeros(len(rows)), 1.0
        if self._by_episodes and self.horizon >= self._longest - 1:  # all rows up to the end are held
            rewards, ends, total = take(self._reward, rows) * (counts > 0), take(self._last, rows) == rows, 0.0
            for k in range(len(rows) - 1, -1, -1):
                sums[k] = total = rewards[k] + (0.0 if ends[k] else self.discount * total)
            return sums
        for i in range(int(counts.max(initial=0))):
            sums += np.where(i < counts, factor * take(self._reward, rows + i), 0.0)
            factor *= self.discount
        return sums

    def _inputs(self, rows: Array) -> dict[str, Any]:
        """Model inputs of rows: observations [R, ...], or windows [R, L, ...] that end with each row.

        With internals also ``state`` before the first row of a window, and ``window_valid`` bool [R, L]: which rows
        belong to the same episode and are still held.
        """
        before = rows[:, None] + np.arange(1 - self._window, 1)
        first = np.maximum(take(self._start, rows), self._low)[:, None]
        window = np.maximum(before, first)
        seen = rows if self._window == 1 else window
        found: dict[str, Any] = {"observation": take(self._columns["observation"], seen)}
        if self._columns["state"]:
            found |= {"state": take(self._columns["state"], window[:, 0]), "window_valid": before >= first}
        return found

    def _put_following(self, after: dict[str, Any], k: int, last: int) -> None:
        """End row k of ``after``, whose last row is ``last``, with the observation after an aborted episode."""
        observation, state = self._following[last]
        length = self._window
        if length > 1:
            for part in (*after["observation"].values(), after["window_valid"]):
                part[k, :-1] = part[k, 1:].copy()
            first = max(last + 2 - length, int(self._start[last % self.capacity]), self._low)
            state = {name: column[first % self.capacity] for name, column in self._columns["state"].items()}
        for name, value in observation.items():
            after["observation"][name][k if length == 1 else (k, -1)] = value
        for name, value in state.items():
            after["state"][name][k] = value

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Stored rows, oldest first, without the running episode."""
        rows = np.arange(self._low, max(self._open, self._low))
        following = {
            str(last - self._low): {"observation": observation, "state": state}
            for last, (observation, state) in self._following.items()
        }
        return {
            **take(self._columns, rows),
            "reward": take(self._reward, rows),
            "start": take(self._start, rows) - self._low,
            "last": take(self._last, rows) - self._low,
            "code": take(self._code, rows),
            "following": following,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned, or the newest rows that fit.

        Raises:
            ValueError: its timesteps have other specs, or its episodes are too long.
        """
        last, code, start = state["last"], state["code"], state["start"]
        own, stored = self._columns, {group: state[group] for group in self._columns}
        kept, given = (map_tree(lambda array: (array.shape[1:], array.dtype), tree) for tree in (own, stored))
        if kept != given:
            raise ValueError("its timesteps have other names, shapes or dtypes")
        if self._by_episodes and (last - start + 1).max(initial=0) > self._longest:
            raise ValueError(f"it has episodes of more than {self._longest} timesteps")
        self.clear()
        # Negative for an episode whose beginning was overwritten, which is not whole any more.
        self._open = int(start[0]) if len(start) else 0
        for k in range(len(last)):
            if k and start[k] != start[k - 1]:
                self._open = self._count
            row = map_tree(operator.itemgetter(k), stored)
            self.append(row["observation"], row["action"], row["state"], float(state["reward"][k]))
            if last[k] == k:
                pair = state["following"].get(str(k), {"observation": {}, "state": {}})
                self.end(int(code[k]), pair["observation"], pair["state"])
