"""Lanes of different lengths: their transitions one after the other, and by index."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..core.protocols import Array


def spans(begin: Any, end: Any, num_lanes: int) -> Array:
    """The numbers n * ``num_lanes`` + lane for n in ``begin`` .. ``end - 1``.

    Args:
        begin: a number for all lanes, or an array [num_lanes].
        end: likewise.
        num_lanes: how many lanes there are.

    Returns:
        by n, then by lane, where ``begin`` and ``end`` are numbers; else one lane after the other.
    """
    if not isinstance(end, np.ndarray):
        return np.arange(begin * num_lanes, end * num_lanes)
    counts = np.maximum(end - begin, 0)
    before = np.cumsum(counts) - counts  # items of the lanes before each
    n = np.arange(counts.sum()) + np.repeat(begin - before, counts)
    numbers: Array = n * num_lanes + np.repeat(np.arange(num_lanes), counts)
    return numbers


Limits: TypeAlias = "tuple[Any, Any]"
"""The numbers ``begin`` .. ``end - 1``: of all lanes, or [num_lanes] each."""


def changes(seen: Limits, now: Limits, capacity: int) -> tuple[Limits, Limits, Limits]:
    """What has changed in circles, in which number n stands at the place n % ``capacity``.

    Returns:
        two stretches of numbers at whose places something was ``seen`` and nothing is ``now``, and one at whose places
        something new is. Each may be empty.
    """
    (begin, end), (seen_begin, seen_end) = now, seen
    larger, smaller = (max, min) if isinstance(end, int) else (np.maximum, np.minimum)
    # Where nothing is now are the places of end - capacity .. begin - 1. What was seen is moved there by whole turns;
    # it may reach over both ends.
    moved = larger(end - seen_begin - 1, 0) // capacity * capacity
    first = end - capacity, smaller(begin, seen_end + moved - capacity)
    second = seen_begin + moved, smaller(begin, seen_end + moved)
    return first, second, (larger(begin, seen_end), end)


def layered(index: Array, counts: Array) -> tuple[Array, Array]:
    """Where items of lanes of ``counts`` [N] items are, counted in layers: all first items, all second items, ...

    The shortest lane comes first in each layer; lanes of equal length come in their order.

    Returns:
        the numbers of the items in their lanes, and the lanes; both of the shape of ``index``.
    """
    lanes = np.argsort(counts, kind="stable")
    heights = counts[lanes]
    remaining = np.arange(len(counts), 0, -1)  # lanes that are at least as long, by the order of ``lanes``
    # Items in the layers below the end of each lane.
    below = np.cumsum(heights) + heights * (remaining - 1)
    ended = np.searchsorted(below, index, side="right")  # lanes that are shorter than the item's layer
    width = remaining[ended]
    beyond = index - np.concatenate([[0], below])[ended]
    layer = np.concatenate([[0], heights])[ended] + beyond // width
    return layer, lanes[ended + beyond % width]
