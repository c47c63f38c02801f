"""What is remembered of each lane: of each environment that is acted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, ArraySpec, State
from ..utils.rlgraph_errors import refuse


def lanes_of(where: str, lanes: Sequence[int] | None, rows: int) -> list[int]:
    """The lane of each row of a batch: ``0 .. rows - 1`` for None.

    Raises:
        RLGraphError: there are more or fewer than rows, or one twice.
    """
    if lanes is None:
        return list(range(rows))
    found = [int(lane) for lane in lanes]
    if len(found) != rows or len(set(found)) != rows:
        refuse(f"{where}: lanes", f"must be {rows} different numbers, one for each row; got {found}", lanes)
    return found


class LaneMemory:
    """One array for each lane and name.

    Args:
        where: the place of what remembers, for messages.
        specs: by name, the shape and dtype of a lane's array.
    """

    def __init__(self, where: str, specs: Mapping[str, ArraySpec]) -> None:
        self._where, self._specs = where, dict(specs)
        self._arrays: dict[int, dict[str, Array]] = {}

    def get(self, lane: int, name: str) -> Array | None:
        """What was set last; None at the start."""
        return self._arrays.get(lane, {}).get(name)

    def set(self, lane: int, name: str, array: Array) -> None:
        """Remember an array, which nobody else holds."""
        self._arrays.setdefault(lane, {})[name] = array

    def clear(self, lanes: Sequence[int] | None = None) -> None:
        """Forget these lanes; all for None."""
        for lane in list(self._arrays) if lanes is None else lanes:
            self._arrays.pop(lane, None)

    def state_dict(self) -> State:
        """The lanes, and for each name, by its index, the arrays of all of them, stacked."""
        lanes = sorted(self._arrays)
        names = enumerate(self._specs if lanes else ())
        return {
            "lanes": lanes,
            "arrays": {str(i): np.stack([self._arrays[n][name] for n in lanes]) for i, name in names},
        }

    def read(self, state: Any) -> dict[int, dict[str, Array]]:
        """What ``state_dict`` returned, checked and copied, for :meth:`restore`.

        Raises:
            RLGraphError: it is of something else.
        """
        try:
            lanes = [int(lane) for lane in state["lanes"]]
            specs = self._specs if lanes else {}
            given = dict(state["arrays"])
            arrays = {name: np.array(given[str(index)]) for index, name in enumerate(specs)}
        except (KeyError, TypeError, ValueError):
            refuse(self._where, "cannot take this state: it was saved by something else", state)
        found = {name: (array.shape, array.dtype) for name, array in arrays.items()}
        wanted = {name: ((len(lanes), *spec.shape), spec.dtype) for name, spec in specs.items()}
        if found != wanted or len(given) != len(wanted):
            refuse(self._where, f"cannot take this state: it has arrays {found}, and {wanted} are needed", state)
        return {lane: {name: array[row].copy() for name, array in arrays.items()} for row, lane in enumerate(lanes)}

    def restore(self, arrays: dict[int, dict[str, Array]]) -> None:
        """Take over what :meth:`read` returned."""
        self._arrays = arrays
