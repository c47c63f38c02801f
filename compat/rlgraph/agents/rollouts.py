"""The memory of agents that learn from what they have just done: records in order, by episodes.

Shapes in comments: T is the number of records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ....core.protocols import Array, State

Selection: TypeAlias = "dict[int, int]"
"""Which pieces of a memory, and from which record on, to their ends."""


@dataclasses.dataclass(frozen=True)
class _Piece:
    """Consecutive records of one episode."""

    episode: int
    columns: dict[str, Any]

    def __len__(self) -> int:
        return len(self.columns["reward"])


class Rollouts:
    """The newest records of all environments, in the order in which they came.

    An environment's records go on an episode of its, until one is terminal or :meth:`end` says so. An episode is
    *whole* when it has ended, and all of its records are there.

    Args:
        capacity: records.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._pieces: list[_Piece] = []
        self._rows: dict[int, int] = {}
        """How many records of each episode are there."""
        self._open: dict[str, int] = {}
        """By environment: the episode that goes on."""
        self._cut: set[int] = set()
        """Episodes of which records are gone."""
        self._next = 0

    def __len__(self) -> int:
        return sum(self._rows.values())

    @property
    def whole_episodes(self) -> int:
        """How many there are."""
        return len(self._whole())

    def insert(self, env_id: str | None, columns: Mapping[str, Any]) -> None:
        """Store consecutive records; the oldest ones make room.

        Args:
            env_id: whose they are. None: they are what is known of an environment, whose last episode ends here.
            columns: arrays [T, ...], or dictionaries of such, by name: ``reward``, ``terminal`` and others.
        """
        ends = np.flatnonzero(columns["terminal"]) + 1
        count, start = len(columns["reward"]), 0
        own = "" if env_id is None else env_id
        for end in [*ends.tolist(), *([count] if not len(ends) or ends[-1] < count else [])]:
            piece = _Piece(self._episode(own), _rows(columns, slice(start, end)))
            self._pieces.append(piece)
            self._rows[piece.episode] = self._rows.get(piece.episode, 0) + len(piece)
            if columns["terminal"][end - 1] or env_id is None:
                self.end(own)
            start = end
        self._evict()

    def end(self, env_id: str | None = None) -> None:
        """The episode of an environment has ended, and its last record is not terminal; None: those of all."""
        for name in list(self._open) if env_id is None else [env_id]:
            episode = self._open.pop(name, None)
            if episode is not None and episode not in self._rows:
                self._cut.discard(episode)

    # -- what is learnt from ------------------------------------------------------------------------------------------

    def newest(self, count: int) -> Selection:
        """The newest records."""
        found: Selection = {}
        for index in range(len(self._pieces) - 1, -1, -1):
            if count <= 0:
                break
            found[index] = max(0, len(self._pieces[index]) - count)
            count -= len(self._pieces[index])
        return found

    def newest_episodes(self, count: int) -> Selection:
        """The whole episodes that have ended last."""
        whole, chosen = self._whole(), set[int]()
        for piece in reversed(self._pieces):
            if piece.episode in whole and len(chosen) < count:
                chosen.add(piece.episode)
        return {index: 0 for index, piece in enumerate(self._pieces) if piece.episode in chosen}

    def read(self, selection: Selection) -> dict[str, Any]:
        """The columns of a selection in order, with ``episode`` int64 [T]: the number of each record's."""
        pieces = [(self._pieces[index], selection[index]) for index in sorted(selection)]
        columns = _joined([_rows(piece.columns, slice(first, None)) for piece, first in pieces])
        columns["episode"] = np.repeat([piece.episode for piece, _ in pieces], [len(p) - first for p, first in pieces])
        return columns

    def drop(self, selection: Selection) -> None:
        """Forget a selection. What is to come of its episodes belongs to others."""
        kept = []
        dropped = {self._pieces[index].episode for index in selection}
        for index, piece in enumerate(self._pieces):
            first = selection.get(index, len(piece))
            self._forget(piece.episode, len(piece) - first)
            if first:
                kept.append(dataclasses.replace(piece, columns=_rows(piece.columns, slice(0, first))))
        self._pieces = kept
        for env_id in [name for name, episode in self._open.items() if episode in dropped]:
            self.end(env_id)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _whole(self) -> set[int]:
        return self._rows.keys() - self._cut - set(self._open.values())

    def _episode(self, env_id: str) -> int:
        """The one that an environment's next record belongs to."""
        if env_id not in self._open:
            self._open[env_id] = self._next
            self._next += 1
        return self._open[env_id]

    def _evict(self) -> None:
        gone, excess = 0, len(self) - self.capacity
        while excess > 0:
            piece = self._pieces[gone]
            count = min(excess, len(piece))
            self._forget(piece.episode, count)
            if count == len(piece):
                gone += 1
            else:
                self._pieces[gone] = dataclasses.replace(piece, columns=_rows(piece.columns, slice(count, None)))
            excess -= count
        del self._pieces[:gone]

    def _forget(self, episode: int, count: int) -> None:
        """So many records of an episode are gone."""
        if not count:
            return
        self._cut.add(episode)
        self._rows[episode] -= count
        if not self._rows[episode]:
            del self._rows[episode]
            if episode not in self._open.values():
                self._cut.discard(episode)

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything."""
        return {
            "columns": _joined([piece.columns for piece in self._pieces]) if self._pieces else None,
            "lengths": [len(piece) for piece in self._pieces],
            "episodes": [piece.episode for piece in self._pieces],
            "open": dict(self._open),
            "cut": sorted(self._cut),
            "next": self._next,
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        ends = np.cumsum(state["lengths"], dtype=np.intp).tolist()
        starts = [0, *ends[:-1]]
        parts = zip(state["episodes"], starts, ends, strict=False)
        self._pieces = [_Piece(episode, _rows(state["columns"], slice(start, end))) for episode, start, end in parts]
        self._rows = {}
        for piece in self._pieces:
            self._rows[piece.episode] = self._rows.get(piece.episode, 0) + len(piece)
        self._open, self._cut, self._next = dict(state["open"]), set(state["cut"]), state["next"]


def gae(batch: Mapping[str, Any], discount: float, lambda_: float) -> Array:
    """Generalized advantage estimates, ``A_t = delta_t + discount * lambda * A_{t+1}`` within each episode.

    ``delta_t = r_t + discount * V(s_{t+1}) - V(s_t)``, without V(s_{t+1}) where t is terminal. An episode that goes on
    after its last record bootstraps from it.

    Source: Schulman et al. 2016, https://arxiv.org/abs/1506.02438, equation 16.

    Args:
        batch: ``reward``, ``terminal``, ``value``, ``next_value`` and ``episode`` [T]; the records of an episode are
            consecutive and in order, those of others may be between them.
        discount: of a timestep.
        lambda_: from one-step TD errors (0) to discounted returns less the value (1).

    Returns:
        float32 [T].
    """
    order = np.argsort(batch["episode"], kind="stable")
    rewards, values = batch["reward"].astype(np.float64), batch["value"].astype(np.float64)
    after = np.where(batch["terminal"], 0.0, batch["next_value"].astype(np.float64))
    delta = (rewards + discount * after - values)[order].tolist()
    episodes = batch["episode"][order].tolist()
    found, later, episode = np.zeros(len(delta)), 0.0, None
    for k in range(len(delta) - 1, -1, -1):
        later = delta[k] + (discount * lambda_ * later if episodes[k] == episode else 0.0)
        found[order[k]], episode = later, episodes[k]
    return found.astype(np.float32)


def _rows(columns: Mapping[str, Any], rows: slice) -> dict[str, Any]:
    return {name: _rows(part, rows) if isinstance(part, Mapping) else part[rows] for name, part in columns.items()}


def _joined(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Columns one after another."""
    return {
        name: _joined([part[name] for part in parts])
        if isinstance(first, Mapping)
        else np.concatenate([part[name] for part in parts])
        for name, first in parts[0].items()
    }
