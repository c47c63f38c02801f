"""Conversion of callers' states to the model's inputs, per environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, State
from ..processing.preprocessors import Preprocessor
from ..spaces import Space
from ..spaces.readers import StatesReader
from ..utils.rlgraph_errors import as_array, refuse

FIRST_ID: Final = "env_0"
"""The environment of records and states without an ``env_id``."""


class Perception:
    """Converts callers' states to the model's inputs, per environment.

    Args:
        where: the agent's class, for messages.
        states: the space of the states that :meth:`Agent.get_action` takes.
        seen: the space of preprocessed states.
        preprocessor: preprocesses states.
    """

    def __init__(self, where: str, states: Space, seen: Space, preprocessor: Preprocessor) -> None:
        self.preprocessor, self.seen_space = preprocessor, seen
        self._read, self._read_seen = StatesReader(where, states), StatesReader(where, seen)
        self._internals: dict[str, dict[str, Array]] = {}
        """Recurrent states by environment."""

    def read(self, method: str, states: Any, preprocesses: bool, what: str = "states") -> tuple[dict[str, Array], bool]:
        """States [B, ...] by flat name, preprocessed already or not, and whether it was a single one."""
        return (self._read if preprocesses else self._read_seen)(method, states, what)

    def see(self, arrays: dict[str, Array], ids: list[str]) -> dict[str, Array]:
        """Preprocess states [B, ...] of these environments."""
        return self.preprocessor(arrays, ids) if self.preprocessor.spec else arrays

    def out(self, seen: Mapping[str, Array], single: bool) -> Any:
        """Preprocessed states for callers."""
        return self.seen_space.unflatten({name: part[0] if single else part for name, part in seen.items()})

    def forget(self, env_id: str | None) -> None:
        """Reset the state of preprocessing and recurrence of an environment, or of all: an episode begins."""
        self.preprocessor.reset(None if env_id is None else [env_id])
        for name in list(self._internals) if env_id is None else [env_id]:
            self._internals.pop(name, None)

    def internals(
        self, where: str, given: Any, zeros: dict[str, Array] | None, ids: list[str], single: bool
    ) -> dict[str, Array] | None:
        """Recurrent state [B, ...] to act with, ``zeros`` where episodes begin; None for a model without one."""
        if zeros is None:
            if not is_nothing(given):
                refuse(f"{where}: internals", "must be None or []: the agent's network has no lstm", given)
            return None
        if not is_nothing(given):
            return _read_internals(where, given, zeros, single)
        for row, env_id in enumerate(ids):
            for name, part in self._internals.get(env_id, {}).items():
                zeros[name][row] = part
        return zeros

    def keep(self, ids: list[str], internals: Mapping[str, Array]) -> None:
        """Store recurrent states [B, ...] for the next act."""
        for row, env_id in enumerate(ids):
            self._internals[env_id] = {name: part[row].copy() for name, part in internals.items()}

    def state_dict(self) -> State:
        """Recurrent states and the state of preprocessing."""
        return {"preprocessor": self.preprocessor.state_dict(), "internals": dict(self._internals)}

    def load_state_dict(self, state: State) -> None:
        """Restore what :meth:`state_dict` returned."""
        self.preprocessor.load_state_dict(state["preprocessor"])
        self._internals = {env_id: dict(parts) for env_id, parts in state["internals"].items()}


def read_ids(where: str, given: Any, rows: int) -> list[str]:
    """The environment of each of several states: ``env_0``, ``env_1``, ... for None."""
    if given is None:
        return [FIRST_ID] if rows == 1 else [f"env_{row}" for row in range(rows)]
    names = [given] if isinstance(given, str) else given if isinstance(given, Iterable) else ()
    found = [checked_id(where, name) for name in names]
    if len(found) != rows or len(set(found)) != rows:
        refuse(f"{where}: env_ids", f"must be {rows} different names, one for each state; got {given!r}", given)
    return found


def checked_id(where: str, given: Any) -> str:
    """The name of an environment."""
    if not isinstance(given, str) or not given:
        refuse(f"{where}: env_id", f"must be a name, got {given!r}", given)
    return given


def is_nothing(given: Any) -> bool:
    """Is it None, or an empty list?"""
    return given is None or (isinstance(given, list | tuple | dict) and not given)


def _read_internals(where: str, given: Any, zeros: Mapping[str, Array], single: bool) -> dict[str, Array]:
    parts = list(given.values()) if isinstance(given, Mapping) else given
    if not isinstance(parts, list | tuple) or len(parts) != len(zeros):
        problem = f"must be {len(zeros)} arrays, the parts of the state of the lstm; got {given!r:.200}"
        refuse(f"{where}: internals", problem, given)
    found = {}
    for (name, zero), part in zip(zeros.items(), parts, strict=True):
        array = as_array(f"{where}: internals", part)
        array = array.astype(np.float32) if array.dtype.kind in "iuf" else array
        array = array[None] if single and array.ndim == zero.ndim - 1 else array
        if array.shape != zero.shape or array.dtype != np.float32 or not np.isfinite(array).all():
            refuse(f"{where}: internals", f"must be finite, of shape {zero.shape[single:]}; got {part!r:.200}", given)
        found[name] = array
    return found
