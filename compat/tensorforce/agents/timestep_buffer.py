"""What a memory holds: timesteps of one episode after another, the newest of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ....core.protocols import Array, ArraySpec

TERMINATED: Final = 1
"""The episode ended, and nothing follows."""
ABORTED: Final = 2
"""It was cut short, and what it would have gone on from is known."""
CUT: Final = 3
"""It was cut short, and nothing is known of what its last action led to: its last reward does not count, and the value
of the last observation stands in its place."""


class Layout(NamedTuple):
    """What a timestep consists of, by name."""

    observation: Mapping[str, ArraySpec]
    action: Mapping[str, ArraySpec]
    state: Mapping[str, ArraySpec]
    single_action: bool
    """Is there one action, which batches have as an array rather than as a dictionary?"""


class TimestepBuffer:
    """A ring of timesteps, in the order of their episodes.

    A *row* is a timestep; rows are numbered for ever, and the ring holds the newest ``capacity``.

    Args:
        capacity: rows.
        layout: names, shapes and dtypes.
    """

    def __init__(self, capacity: int, layout: Layout) -> None:
        self.capacity = capacity
        self._layout = layout
        self._count = 0
        self._low = 0
        self._open = 0
        """The row at which the running episode begins; the number of rows if none runs."""
        self._columns = {
            group: {name: np.zeros((capacity, *spec.shape), spec.dtype) for name, spec in specs.items()}
            for group, specs in (
                ("observation", layout.observation),
                ("action", layout.action),
                ("state", layout.state),
            )
        }
        self._writes = [(group, name, array) for group, part in self._columns.items() for name, array in part.items()]
        self._reward = np.zeros(capacity, np.float64)
        self._start = np.zeros(capacity, np.int64)
        self._last = np.zeros(capacity, np.int64)
        self._code = np.zeros(capacity, np.uint8)
        self._following: dict[int, tuple[dict[str, Array], dict[str, Array]]] = {}
        self._episodes: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return self._count - self._low

    @property
    def open(self) -> int:
        """Rows of the running episode."""
        return self._count - self._open

    def append(
        self, observation: Mapping[str, Array], action: Mapping[str, Any], state: Mapping[str, Array], reward: float
    ) -> None:
        """Store the next timestep of the running episode; arrays without a batch axis."""
        place = self._count % self.capacity
        given = {"observation": observation, "action": action, "state": state}
        for group, name, column in self._writes:
            column[place] = given[group][name]
        self._reward[place] = reward
        self._start[place] = self._open
        self._last[place] = -1
        self._code[place] = 0
        self._count += 1
        if self._count - self._low > self.capacity:
            self._forget()

    def extend(self, columns: Mapping[str, Mapping[str, Array]], reward: Array) -> None:
        """Store several timesteps [T, ...] of the running episode."""
        for t in range(len(reward)):
            rows = {group: {name: values[t] for name, values in part.items()} for group, part in columns.items()}
            self.append(rows["observation"], rows["action"], rows["state"], float(reward[t]))

    def end(
        self, code: int, observation: Mapping[str, Array] | None = None, state: Mapping[str, Array] | None = None
    ) -> None:
        """The running episode is over.

        Args:
            code: :data:`TERMINATED`, :data:`ABORTED` or :data:`CUT`.
            observation: after its last timestep; of one that was aborted.
            state: the internals then.
        """
        first, last = max(self._open, self._low), self._count - 1
        if last < first:
            return
        rows = np.arange(first, last + 1) % self.capacity
        self._last[rows] = last
        self._code[last % self.capacity] = code
        if code == ABORTED:
            self._following[last] = dict(observation or {}), dict(state or {})
        if self._open >= self._low:
            self._episodes.append((self._open, last))
        self._open = self._count

    def newest(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """The observation of the newest timestep, and the internals with which it acted; copied."""
        place = (self._count - 1) % self.capacity
        observation, state = (
            {name: column[place].copy() for name, column in self._columns[group].items()}
            for group in ("observation", "state")
        )
        return observation, state

    def drop_open(self) -> None:
        """Forget the rows of the running episode."""
        self._count = max(self._open, self._low)
        self._open = self._count

    def clear(self) -> None:
        """Forget everything."""
        self._low = self._open = self._count
        self._following.clear()
        self._episodes.clear()

    def _forget(self) -> None:
        """The oldest row is overwritten."""
        self._low = low = self._count - self.capacity
        while self._episodes and self._episodes[0][0] < low:
            _, last = self._episodes.popleft()
        for last in [last for last in self._following if last < low]:
            del self._following[last]

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """What is stored, but for a running episode; oldest first."""
        rows = np.arange(self._low, max(self._open, self._low))
        places = rows % self.capacity
        arrays: dict[str, Any] = {
            group: {name: column[places] for name, column in part.items()} for group, part in self._columns.items()
        }
        kept = {last: pair for last, pair in self._following.items() if last < self._open}
        following = {
            str(last - self._low): {"observation": observation, "state": state}
            for last, (observation, state) in kept.items()
        }
        return {
            **arrays,
            "reward": self._reward[places],
            "start": self._start[places] - self._low,
            "last": self._last[places] - self._low,
            "code": self._code[places],
            "following": following,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned, or as much of the newest as there is room for."""
        self.clear()
        self._count = self._low = self._open = 0
        last, code, start = state["last"], state["code"], state["start"]
        # Of an episode whose beginning had been overwritten it is negative: that is none to learn from as a whole.
        self._open = int(start[0]) if len(start) else 0
        for k in range(len(last)):
            rows = {
                group: {name: values[k] for name, values in state[group].items()}
                for group in ("observation", "action", "state")
            }
            if k and start[k] != start[k - 1]:
                self._open = self._count
            self.append(rows["observation"], rows["action"], rows["state"], float(state["reward"][k]))
            if last[k] == k:
                pair = state["following"].get(str(k), {"observation": {}, "state": {}})
                self.end(int(code[k]), pair["observation"], pair["state"])
