"""Memory of each lane: of each environment that is acted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ....core.protocols import Array
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


def unpacked(where: str, state: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[int, dict[str, Array]]:
    """Saved arrays of each lane by name, checked and copied.

    Args:
        where: the place of what remembers, for messages.
        state: by the lane's number as text, arrays by name.
        shapes: of a lane's arrays, by name.

    Raises:
        RLGraphError: it is of something else.
    """
    try:
        found = {int(lane): {name: np.array(x) for name, x in arrays.items()} for lane, arrays in state.items()}
    except (AttributeError, TypeError, ValueError):
        refuse(where, "cannot take this state: it was saved by something else", state)
    for arrays in found.values():
        if (given := {name: array.shape for name, array in arrays.items()}) != shapes:
            refuse(where, f"cannot take this state: it has arrays {given}, and {dict(shapes)} are needed", state)
    return found
