"""Index arithmetic for lanes of different lengths."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..core.protocols import Array


def spans(begin: Any, end: Any, num_lanes: int) -> Array:
    """The numbers n * ``num_lanes`` + lane for n in ``begin`` .. ``end - 1``.

    Args:
        begin: a number for all lanes, or an array [num_lanes].
        end: a number or an array, like ``begin``.
        num_lanes: number of lanes.

    Returns:
        ordered by n, then by lane, if ``begin`` and ``end`` are numbers; else lane by lane.
    """
    if not isinstance(end, np.ndarray):
        return np.arange(begin * num_lanes, end * num_lanes)
    counts = np.maximum(end - begin, 0)
    before = np.cumsum(counts) - counts  # items of the lanes before each
    n = np.arange(counts.sum()) + np.repeat(begin - before, counts)
    numbers: Array = n * num_lanes + np.repeat(np.arange(num_lanes), counts)
    return numbers


Limits: TypeAlias = "tuple[Any, Any]"
"""The numbers ``begin`` .. ``end - 1``: one pair for all lanes, or arrays [num_lanes]."""


def changes(seen: Limits, now: Limits, capacity: int) -> tuple[Limits, Limits, Limits]:
    """Changes in circular buffers, where number n has the place n % ``capacity``.

    Returns:
        Two ranges of numbers whose places were filled when ``seen`` and are empty ``now``, and one range whose places
        hold something new. Each may be empty.
    """
    (begin, end), (seen_begin, seen_end) = now, seen
    larger, smaller = (max, min) if isinstance(end, int) else (np.maximum, np.minimum)
    # The places of end - capacity .. begin - 1 are empty now. Shift the seen range there by whole turns; it may reach
    # beyond both ends.
    moved = larger(end - seen_begin - 1, 0) // capacity * capacity
    first = end - capacity, smaller(begin, seen_end + moved - capacity)
    second = seen_begin + moved, smaller(begin, seen_end + moved)
    return first, second, (larger(begin, seen_end), end)


def index_layers(index: Array, counts: Array) -> tuple[Array, Array]:
    """Lanes of ``counts`` [N] items, indexed in layers: all first items, all second items, ...

    In each layer the shortest lane comes first; lanes of equal length keep their order.

    Returns:
        the items' numbers in their lanes, and the lanes; both of the shape of ``index``.
    """
    lanes = np.argsort(counts, kind="stable")
    heights = counts[lanes]
    remaining = np.arange(len(counts), 0, -1)  # number of lanes that are at least as long, in the order of ``lanes``
    # Items in the layers below the end of each lane.
    below = np.cumsum(heights) + heights * (remaining - 1)
    ended = np.searchsorted(below, index, side="right")  # number of lanes that end before the item's layer
    width = remaining[ended]
    beyond = index - np.concatenate([[0], below])[ended]
    layer = np.concatenate([[0], heights])[ended] + beyond // width
    return layer, lanes[ended + beyond % width]
