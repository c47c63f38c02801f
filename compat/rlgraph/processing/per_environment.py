"""Memory of each lane: of each environment that is acted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array, State
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


def packed(remembered: Mapping[int, Mapping[str, Array]]) -> State:
    """A state of one array for each lane and name: the lanes, and by the index of each name their arrays, stacked."""
    lanes = sorted(remembered)
    names = enumerate(remembered[lanes[0]] if lanes else ())
    arrays = {str(index): np.stack([remembered[lane][name] for lane in lanes]) for index, name in names}
    return {"lanes": lanes, "arrays": arrays}


def unpacked(where: str, state: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[int, dict[str, Array]]:
    """The input of :func:`packed`, checked and copied.

    Args:
        where: the place of what remembers, for messages.
        state: the result of :func:`packed`.
        shapes: of a lane's arrays, by name.

    Raises:
        RLGraphError: it is of something else.
    """
    try:
        lanes, given = [int(lane) for lane in state["lanes"]], dict(state["arrays"])
        arrays = {name: np.array(given[str(at)]) for at, name in enumerate(shapes if lanes else ())}
    except (KeyError, TypeError, ValueError):
        refuse(where, "cannot take this state: it was saved by something else", state)
    found = {name: array.shape for name, array in arrays.items()}
    wanted = {name: (len(lanes), *shape) for name, shape in shapes.items() if lanes}
    if found != wanted or len(given) != len(wanted):
        refuse(where, f"cannot take this state: it has arrays {found}, and {wanted} are needed", state)
    return {lane: {name: array[row].copy() for name, array in arrays.items()} for row, lane in enumerate(lanes)}
