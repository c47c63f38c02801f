"""Filling a memory with episodes that were recorded elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..contracts import Episode, Memory


def fill(memory: Memory, episodes: Iterable[Episode], *, lanes: int = 1) -> int:
    """Store the transitions of episodes, one after the other.

    Args:
        memory: built.
        episodes: of :func:`axonrl.environments.read_episodes`, say; with every key that the memory stores.
        lanes: those that the memory was built for; each gets whole episodes, in turn.

    Returns:
        How many transitions were stored.

    Raises:
        KeyError: an array is missing or unexpected.
        ArgumentError: one has another shape, or values that the memory cannot hold.
    """
    stored = 0
    for number, episode in enumerate(episodes):
        length = len(episode["reward"])
        stored += length
        if lanes == 1:
            for row in range(length):
                memory.step(**_at(episode, row))
            continue
        mask = np.arange(lanes) == number % lanes
        for row in range(length):
            one = _at(episode, row)
            memory.extend(mask, **{key: _for_all(value, lanes) for key, value in one.items()})
    return stored


def _at(tree: Any, row: int) -> Any:
    return {key: _at(part, row) for key, part in tree.items()} if isinstance(tree, Mapping) else tree[row]


def _for_all(value: Any, lanes: int) -> Any:
    if isinstance(value, Mapping):
        return {key: _for_all(part, lanes) for key, part in value.items()}
    return np.broadcast_to(value, (lanes, *np.shape(value)))
