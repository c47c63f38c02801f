"""Fill a memory with episodes recorded elsewhere."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable

import numpy as np

from ..core.checks import length_of
from ..core.protocols import Episode, Memory
from ..core.trees import map_tree, named_arrays


def fill(memory: Memory, episodes: Iterable[Episode], *, lanes: int = 1) -> int:
    """Store the transitions of episodes, one after the other; none continues the one before.

    Args:
        memory: a built memory.
        episodes: for example from :func:`axonrl.environments.read_episodes`; with every key that the memory stores.
        lanes: number of lanes that the memory was built for; each gets whole episodes, in turn.

    Returns:
        Number of transitions stored.

    Raises:
        KeyError: an array is missing or unexpected.
        ArgumentError: an array has another shape, or values that the memory cannot hold; or the arrays of an episode
            differ in length, or are empty.
    """
    stored = 0
    cut = getattr(memory, "cut", lambda: None)
    for number, episode in enumerate(episodes):
        length = length_of(f"episodes[{number}]", episode)
        stored += length
        cut()  # it may begin with the very observation that was stored last
        mask = np.arange(lanes) == number % lanes
        for row in range(length):
            one = map_tree(operator.itemgetter(row), episode)
            if lanes == 1:
                memory.step(**one)
            else:
                memory.extend(mask, **map_tree(lambda value: np.broadcast_to(value, (lanes, *np.shape(value))), one))
    return stored


def digest_of(episodes: Iterable[Episode]) -> str:
    """SHA-256 of all arrays."""
    digest = hashlib.sha256()
    for episode in episodes:
        for _, array in named_arrays(episode):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
