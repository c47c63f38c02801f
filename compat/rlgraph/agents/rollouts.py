"""The memory of on-policy agents: rows in order, by episode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, State
from .rows import Row, rows_of, stack_rows


class Rollouts:
    """The newest records of all environments, in order of arrival; its length is the number of records.

    An environment's records continue its episode until one is terminal or :meth:`end` is called. An episode is
    *whole* if it has ended and none of its records was dropped.

    Args:
        capacity: most records it can hold.

    Attributes:
        rows: the records, each with the number of its ``episode``.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.rows: list[Row] = []
        self._open: dict[str, int] = {}
        """Number of the unfinished episode, by environment."""
        self._cut: set[int] = set()
        """Episodes with dropped records."""
        self._next = 0

    def __len__(self) -> int:
        return len(self.rows)

    def insert(self, env_id: str | None, rows: Sequence[Row]) -> None:
        """Store consecutive records; the oldest are dropped to make room.

        Args:
            env_id: their environment; None: an unnamed one, whose episode ends with them.
            rows: the records.
        """
        name = "" if env_id is None else env_id
        for row in rows:
            if name not in self._open:
                self._open[name], self._next = self._next, self._next + 1
            self.rows.append({**row, "episode": self._open[name]})
            if row["terminal"]:
                self.end(name)
        if env_id is None:
            self.end(name)
        self._drop(set(range(len(self.rows) - self.capacity)))

    def end(self, env_id: str | None = None) -> None:
        """End the episode of an environment without a terminal; None: of all environments."""
        for name in list(self._open) if env_id is None else [env_id]:
            self._open.pop(name, None)

    # -- indices of rows to learn from --------------------------------------------------------------------------------

    def whole_episodes(self) -> list[int]:
        """Numbers of the whole episodes, the newest first."""
        numbers = dict.fromkeys(row["episode"] for row in reversed(self.rows))
        return [one for one in numbers if one not in self._cut and one not in self._open.values()]

    def newest(self, count: int) -> range:
        """Indices of the newest records."""
        return range(max(0, len(self.rows) - count), len(self.rows))

    def newest_episodes(self, count: int) -> list[int]:
        """Indices of the records of the newest whole episodes."""
        chosen = set(self.whole_episodes()[:count])
        return [index for index, row in enumerate(self.rows) if row["episode"] in chosen]

    def read(self, indices: Sequence[int]) -> dict[str, Any]:
        """Columns of some records, with ``episode`` int64 [T]: the number of each record's episode."""
        return stack_rows([self.rows[index] for index in indices])

    def forget(self, indices: Sequence[int]) -> None:
        """Drop records that were learnt from. Later records of their episodes start new ones."""
        episodes = {self.rows[index]["episode"] for index in indices}
        self._drop(set(indices))
        self._open = {name: episode for name, episode in self._open.items() if episode not in episodes}

    def _drop(self, indices: set[int]) -> None:
        """Drop rows; their episodes are no longer whole."""
        if indices:
            self._cut |= {self.rows[index]["episode"] for index in indices}
            self.rows = [row for index, row in enumerate(self.rows) if index not in indices]
            self._cut &= {row["episode"] for row in self.rows} | set(self._open.values())

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """The records and their episodes."""
        rows = stack_rows(self.rows) if self.rows else None
        return {"rows": rows, "open": dict(self._open), "cut": sorted(self._cut), "next": self._next}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        rows = [] if state["rows"] is None else rows_of(state["rows"])
        self.rows = [{**row, "episode": int(row["episode"])} for row in rows]
        self._open, self._cut, self._next = dict(state["open"]), set(state["cut"]), state["next"]


def gae(batch: Mapping[str, Any], discount: float, lambda_: float) -> Array:
    """Generalized advantage estimates, ``A_t = delta_t + discount * lambda * A_{t+1}`` within each episode.

    ``delta_t = r_t + discount * V(s_{t+1}) - V(s_t)``, without V(s_{t+1}) if t is terminal. An unfinished episode
    bootstraps from the state after its last record.

    Source: Schulman et al. 2016, https://arxiv.org/abs/1506.02438, equation 16.

    Args:
        batch: ``reward``, ``terminal``, ``value``, ``next_value`` and ``episode`` [T]; the records of an episode are
            in order, but may alternate with those of others.
        discount: discount factor per timestep.
        lambda_: from one-step TD errors (0) to discounted returns minus the value (1).

    Returns:
        float32 [T].
    """
    rewards, values = batch["reward"].astype(np.float64), batch["value"].astype(np.float64)
    after = np.where(batch["terminal"], 0.0, batch["next_value"].astype(np.float64))
    delta, episodes = (rewards + discount * after - values).tolist(), batch["episode"].tolist()
    found, later = np.zeros(len(delta)), dict.fromkeys(episodes, 0.0)
    for k in range(len(delta) - 1, -1, -1):
        found[k] = later[episodes[k]] = delta[k] + discount * lambda_ * later[episodes[k]]
    return found.astype(np.float32)
