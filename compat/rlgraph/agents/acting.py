"""An agent's notes on each environment between two acts, and its readers of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ....core.protocols import Array, State
from ..processing.preprocessors import Preprocessor
from ..spaces import Space
from ..spaces.readers import StatesReader
from ..utils.rlgraph_errors import refuse
from .core import Acted
from .rows import Row

FIRST_ID: Final = "env_0"
"""The environment of records and states that name none."""


class Perception:
    """From states, as callers write them, to what the model sees of each environment.

    Args:
        where: the agent's class, for messages.
        states: the space of what :meth:`Agent.get_action` takes.
        seen: of what the model sees.
        preprocessor: between both.
    """

    def __init__(self, where: str, states: Space, seen: Space, preprocessor: Preprocessor) -> None:
        self.preprocessor = preprocessor
        self.seen_space = seen
        self._read = StatesReader(where, states)
        self._read_seen = StatesReader(where, seen)
        self._boxes = seen.flat()
        self._lanes: dict[str, int] = {}
        self._internals: dict[int, dict[str, Array]] = {}
        """Recurrent states by lane."""
        self._acts: dict[str, Row] = {}
        """By environment: what was known when the agent acted, until the records are observed."""

    def read(self, method: str, states: Any, preprocesses: bool, what: str = "states") -> tuple[dict[str, Array], bool]:
        """States [B, ...] by flat name, to be preprocessed or not, and whether it was one; ``what`` for messages."""
        return (self._read if preprocesses else self._read_seen)(method, states, what)

    def see(self, arrays: dict[str, Array], lanes: list[int]) -> dict[str, Array]:
        """Preprocess states [B, ...] of these lanes."""
        if not self.preprocessor.has_steps:
            return arrays
        found = self.preprocessor(arrays, lanes)
        return {name: found[name].astype(box.dtype, copy=False) for name, box in self._boxes.items()}

    def out(self, seen: Mapping[str, Array], single: bool) -> Any:
        """Preprocessed states for callers."""
        return self.seen_space.unflatten({name: part[0] if single else part for name, part in seen.items()})

    # -- environments -------------------------------------------------------------------------------------------------

    def ids(self, where: str, given: Any, rows: int) -> list[str]:
        """The environment of each state."""
        if given is None:
            return [FIRST_ID] if rows == 1 else [f"env_{row}" for row in range(rows)]
        names = [given] if isinstance(given, str) else list(given)
        if len(names) != rows or len(set(names)) != rows:
            refuse(f"{where}: env_ids", f"must be {rows} different names, one for each state; got {given!r}", given)
        return [checked_id(where, name) for name in names]

    def lanes(self, ids: list[str]) -> list[int]:
        """The numbers under which stateful steps remember environments."""
        return [self._lanes.setdefault(one, len(self._lanes)) for one in ids]

    def forget(self, env_id: str | None) -> int | None:
        """An episode begins in an environment, or in all; returns its lane, -1 if it never acted."""
        if env_id is None:
            self.preprocessor.reset()
            self._internals.clear()
            return None
        lane = self._lanes.get(env_id, -1)
        if lane >= 0:
            self.preprocessor.reset([lane])
            self._internals.pop(lane, None)
        return lane

    def note(self, ids: list[str], seen: Mapping[str, Array], acted: Acted) -> None:
        """Remember what was known when the agent acted."""
        parts = {"state": seen, "action": acted.actions, "extras": acted.extras or {}}
        for row, name in enumerate(ids):
            self._acts[name] = {key: {k: one[row] for k, one in part.items()} for key, part in parts.items()}

    def noted(self, name: str, row: Row) -> dict[str, Array] | None:
        """Pop the notes on this record; None if the agent did not act so."""
        act = self._acts.pop(name, None)
        if act is None or not (_equal(act["state"], row["observation"]) and _equal(act["action"], row["action"])):
            return None
        extras: dict[str, Array] = act["extras"]
        return extras

    def drop_act(self, name: str) -> None:
        """Drop the noted act: another is observed next."""
        self._acts.pop(name, None)

    # -- recurrent states ---------------------------------------------------------------------------------------------

    def internals(
        self, where: str, given: Any, zeros: dict[str, Array] | None, lanes: list[int], single: bool
    ) -> dict[str, Array] | None:
        """The recurrent state [B, ...] to act with, of which ``zeros`` begins episodes; None for a model without."""
        if zeros is None:
            if not is_nothing(given):
                refuse(f"{where}: internals", "must be None or []: the agent's network has no lstm", given)
            return None
        if not is_nothing(given):
            return _read_internals(where, given, zeros, single)
        for row, lane in enumerate(lanes):
            for name, part in self._internals.get(lane, {}).items():
                zeros[name][row] = part
        return zeros

    def keep(self, lanes: list[int], internals: Mapping[str, Array]) -> None:
        """Go on from these recurrent states [B, ...]."""
        for row, lane in enumerate(lanes):
            self._internals[lane] = {name: part[row].copy() for name, part in internals.items()}

    # -- state --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> State:
        """Everything."""
        return {
            "preprocessor": self.preprocessor.state_dict(),
            "lanes": dict(self._lanes),
            "internals": {str(lane): parts for lane, parts in self._internals.items()},
            "acts": dict(self._acts),
        }

    def load_state_dict(self, state: State) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.preprocessor.load_state_dict(state["preprocessor"])
        self._lanes, self._acts = dict(state["lanes"]), dict(state["acts"])
        self._internals = {int(lane): dict(parts) for lane, parts in state["internals"].items()}


def checked_id(where: str, given: Any) -> str:
    """The name of an environment."""
    if not isinstance(given, str) or not given:
        refuse(f"{where}: env_id", f"must be a name, got {given!r}", given)
    return given


def is_nothing(given: Any) -> bool:
    """Is it None, or nothing in a list?"""
    return given is None or (isinstance(given, list | tuple | dict) and not given)


def _read_internals(where: str, given: Any, zeros: Mapping[str, Array], single: bool) -> dict[str, Array]:
    parts = list(given.values()) if isinstance(given, Mapping) else given
    if not isinstance(parts, list | tuple) or len(parts) != len(zeros):
        problem = f"must be {len(zeros)} arrays, the parts of the state of the lstm; got {given!r:.200}"
        refuse(f"{where}: internals", problem, given)
    found = {}
    for (name, zero), part in zip(zeros.items(), parts, strict=True):
        array = np.asarray(part, np.float32)
        array = array[None] if single and array.ndim == zero.ndim - 1 else array
        if array.shape != zero.shape or not np.isfinite(array).all():
            refuse(f"{where}: internals", f"must be finite, of shape {zero.shape[single:]}; got {part!r:.200}", given)
        found[name] = array
    return found


def _equal(first: Mapping[str, Array], second: Mapping[str, Array]) -> bool:
    return all((first[name] == part).all() for name, part in second.items())
