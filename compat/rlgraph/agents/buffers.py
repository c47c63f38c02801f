"""Records, as callers write them, and those of each environment that are not in the memory yet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, State
from ..spaces import Space
from ..spaces.box_space import LARGEST
from ..spaces.columns import FLOATS, read_rewards, read_terminals, refuse_length
from ..spaces.readers import ActionsReader, Arrays, StatesReader
from ..utils.rlgraph_errors import known, mapping, refuse, translate_errors
from .rows import Row, rows_of, stacked

KEYS: Final = ("states", "actions", "rewards", "terminals", "next_states")
"""Names in a batch of the caller's."""
_NAMES: Final = {"states": "preprocessed_states"}
"""Names of what ``observe`` takes, where they differ."""
_WEIGHTS: Final = "importance_weights"


class RecordReader:
    """Checks records.

    Args:
        where: the agent's class, for messages.
        states: the space of what the model sees.
        actions: the action space.
        chained: may ``next_states`` of a batch be missing? They are then the states of the next records, and that of
            the last record is its own.
    """

    def __init__(self, where: str, states: Space, actions: Space, *, chained: bool) -> None:
        self._where, self._space, self._chained = where, states, chained
        self._states, self._actions = StatesReader(where, states), ActionsReader(where, actions)

    def rows(self, *given: Any) -> list[Row]:
        """Read ``observe``'s input in the order of :data:`KEYS`: one record, or a batch in sequence."""
        states, actions, reward, terminal, after = given
        if type(reward) in FLOATS and -LARGEST <= reward <= LARGEST and type(terminal) is bool:  # the usual ones, fast
            state, action, following = self._states.one(states), self._actions.one(actions), self._states.one(after)
            if state is not None and action is not None and following is not None:
                parts = {"observation": {"": state}, "action": {"": action}, "reward": np.float32(reward)}
                return [{**parts, "next_observation": {"": following}, "terminal": np.bool_(terminal)}]
        return rows_of(self._columns("observe", dict(zip(KEYS, given, strict=True)), _NAMES)[0])

    def columns(self, method: str, argument: str, given: Any) -> dict[str, Any]:
        """Columns [B, ...] of a dictionary with a leading axis on everything."""
        where = f"{self._where}.{method}: {argument}"
        given = mapping(where, given)
        known(where, given, [*KEYS, _WEIGHTS] if argument == "batch" else KEYS, what="entry")
        if missing := [name for name in KEYS if name not in given]:
            refuse(where, f"has no {', '.join(missing)}; it needs {', '.join(KEYS)}", list(given))
        columns, single = self._columns(method, given, {key: f"{argument}[{key!r}]" for key in KEYS})
        if single:
            refuse(f"{where}['states']", "must be a batch, with a leading axis", given["states"])
        return columns

    def batch(self, method: str, batch: Any) -> dict[str, Any]:
        """A batch of the caller's, with ``weight`` [B]."""
        place = f"{self._where}.{method}: batch"
        weights = mapping(place, batch).get(_WEIGHTS)
        if self._chained and "states" in batch and "next_states" not in batch:
            with translate_errors(place):
                parts = {name: np.asarray(part) for name, part in self._space.flatten(batch["states"]).items()}
            after = {name: np.concatenate([part[1:], part[-1:]]) if part.ndim else part for name, part in parts.items()}
            batch = {**batch, "next_states": self._space.unflatten(after)}
        columns = self.columns(method, "batch", {key: part for key, part in batch.items() if key != _WEIGHTS})
        count = len(columns["reward"])
        if weights is None:
            return {**columns, "weight": np.ones(count, np.float32)}
        weight = read_rewards(f"{place}[{_WEIGHTS!r}]", weights, count)
        if (weight < 0).any():
            refuse(f"{place}[{_WEIGHTS!r}]", f"must be at least 0, got {weight.min()}", weights)
        return {**columns, "weight": weight}

    def _columns(self, method: str, given: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
        """Records as arrays [B, ...], and whether they were one without a leading axis; ``names`` are for messages."""
        what = {key: names.get(key, key) for key in KEYS}
        found, single = self._states(method, given["states"], what["states"])
        count, place = None if single else len(next(iter(found.values()))), f"{self._where}.{method}:"
        return {
            "observation": found,
            "action": self._as_many(method, what["actions"], count, given["actions"], self._actions),
            "next_observation": self._as_many(method, what["next_states"], count, given["next_states"], self._states),
            "reward": read_rewards(f"{place} {what['rewards']}", given["rewards"], count),
            "terminal": read_terminals(f"{place} {what['terminals']}", given["terminals"], count),
        }, single

    def _as_many(self, method: str, what: str, count: int | None, given: Any, read: StatesReader) -> Arrays:
        """Arrays [B, ...] of as many as there are states."""
        found, single = read(method, given, what)
        length = None if single else len(next(iter(found.values())))
        if length != count:
            refuse_length(f"{self._where}.{method}: {what}", length, count, given)
        return found


class Buffers:
    """Consecutive records of each environment, and what was noted of the agent's own acts among them.

    Args:
        states: the space of what the model sees.
        actions: the action space.
    """

    def __init__(self, states: Space, actions: Space) -> None:
        self._spaces = {"observation": states, "action": actions, "next_observation": states}
        self._records: dict[str, list[tuple[Row, dict[str, Array] | None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._records.values()))

    @property
    def names(self) -> list[str]:
        """Environments that have records."""
        return list(self._records)

    def add(self, name: str, row: Row, noted: dict[str, Array] | None) -> int:
        """Add the next record; returns how many the environment has."""
        buffer = self._records.setdefault(name, [])
        buffer.append((row, noted))
        return len(buffer)

    def take(self, name: str) -> tuple[list[Row], list[dict[str, Array] | None]]:
        """The records of an environment, which leave the buffer, and what was noted of each."""
        records = self._records.pop(name, [])
        return [row for row, _ in records], [noted for _, noted in records]

    def part(self, name: str) -> defaultdict[str, list[Any]]:
        """A part of all records by environment, as callers have it."""
        space = self._spaces.get(name)
        found: defaultdict[str, list[Any]] = defaultdict(list)
        for env_id, records in self._records.items():
            parts = [row.get(name, []) for row, _ in records]
            found[env_id] = [space.unflatten(part) for part in parts] if space is not None else parts
        return found

    def state_dict(self) -> State:
        """Everything."""
        return {
            env_id: {
                "columns": stacked([row for row, _ in records]),
                "noted": {str(index): noted for index, (_, noted) in enumerate(records) if noted is not None},
            }
            for env_id, records in self._records.items()
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        self._records = {
            env_id: [(row, part["noted"].get(str(index))) for index, row in enumerate(rows_of(part["columns"]))]
            for env_id, part in state.items()
        }
