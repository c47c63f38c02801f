"""Reads callers' records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..spaces import Space
from ..spaces.box_space import LARGEST
from ..spaces.readers import FLOATS, ActionsReader, Arrays, StatesReader, read_rewards, read_terminals, refuse_length
from ..utils.rlgraph_errors import as_array, mapping, refuse, refuse_unknown, translate_errors
from .rows import Row, rows_of

KEYS: Final = ("states", "actions", "rewards", "terminals", "next_states")
"""Names in a caller's batch."""
_WEIGHTS: Final = "importance_weights"


def buffer_property(part: str, meaning: str, space: str = "") -> property:
    """One column of the buffered records, by environment."""

    def read(self: Any) -> defaultdict[str, list[Any]]:
        found: defaultdict[str, list[Any]] = defaultdict(list)
        for name, rows in self._buffers.items():
            parts = [row.get(part, []) for row in rows]
            found[name] = [getattr(self, space).unflatten(one) for one in parts] if space else parts
        return found

    return property(read, doc=meaning)


class RecordReader:
    """Checks records.

    Args:
        where: the agent's class, for messages.
        states: the space of preprocessed states.
        actions: the action space.
        chained: may a batch omit ``next_states``? They are then the states of the next records; the last record's is
            its own state.
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
        names = {**dict(zip(KEYS, KEYS, strict=True)), "states": "preprocessed_states"}
        return rows_of(self._columns("observe", dict(zip(KEYS, given, strict=True)), names)[0])

    def columns(self, method: str, argument: str, given: Any) -> dict[str, Any]:
        """Columns [B, ...] of a dictionary with a leading axis on everything."""
        where = f"{self._where}.{method}: {argument}"
        given = mapping(where, given)
        refuse_unknown(where, given, [*KEYS, _WEIGHTS] if argument == "batch" else KEYS, what="entry")
        if missing := [name for name in KEYS if name not in given]:
            refuse(where, f"has no {', '.join(missing)}; it needs {', '.join(KEYS)}", list(given))
        columns, single = self._columns(method, given, {key: f"{argument}[{key!r}]" for key in KEYS})
        if single:
            refuse(f"{where}['states']", "must be a batch, with a leading axis", given["states"])
        return columns

    def batch(self, method: str, batch: Any) -> dict[str, Any]:
        """Read a caller's batch, with ``weight`` [B]."""
        place = f"{self._where}.{method}: batch"
        given = dict(mapping(place, batch))
        if self._chained and "states" in given and "next_states" not in given:
            with translate_errors(place):
                parts = self._space.flatten(given["states"])
            parts = {name: as_array(f"{place}['states']", part) for name, part in parts.items()}
            after = {name: np.concatenate([part[1:], part[-1:]]) if part.ndim else part for name, part in parts.items()}
            given["next_states"] = self._space.unflatten(after)
        columns = self.columns(method, "batch", given)
        count, weights = len(columns["reward"]), given.get(_WEIGHTS)
        if weights is None:
            return {**columns, "weight": np.ones(count, np.float32)}
        weight = read_rewards(f"{place}[{_WEIGHTS!r}]", weights, count)
        if (weight < 0).any():
            refuse(f"{place}[{_WEIGHTS!r}]", f"must be at least 0, got {weight.min()}", weights)
        return {**columns, "weight": weight}

    def _columns(self, method: str, given: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
        """Records as arrays [B, ...], and whether it was one without a leading axis; ``names`` are for messages."""
        found, single = self._states(method, given["states"], names["states"])
        count, place = None if single else len(next(iter(found.values()))), f"{self._where}.{method}:"

        def as_many(key: str, read: StatesReader) -> Arrays:
            arrays, is_one = read(method, given[key], names[key])
            length = None if is_one else len(next(iter(arrays.values())))
            if length != count:
                refuse_length(f"{place} {names[key]}", length, count, given[key])
            return arrays

        return {
            "observation": found,
            "action": as_many("actions", self._actions),
            "next_observation": as_many("next_states", self._states),
            "reward": read_rewards(f"{place} {names['rewards']}", given["rewards"], count),
            "terminal": read_terminals(f"{place} {names['terminals']}", given["terminals"], count),
        }, single
