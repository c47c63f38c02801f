"""Fill a memory with episodes recorded elsewhere."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..core.checks import all_finite, shortened
from ..core.errors import ArgumentError
from ..core.protocols import Episode, Memory, named_arrays
from ..core.trees import map_tree


def fill(memory: Memory, episodes: Iterable[Episode], *, lanes: int = 1) -> int:
    """Store the transitions of episodes, one after the other.

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
    for number, episode in enumerate(episodes):
        length = length_of(f"episodes[{number}]", episode)
        stored += length
        mask = np.arange(lanes) == number % lanes
        for row in range(length):
            one = map_tree(operator.itemgetter(row), episode)
            if lanes == 1:
                memory.step(**one)
            else:
                memory.extend(mask, **map_tree(lambda value: np.broadcast_to(value, (lanes, *np.shape(value))), one))
    return stored


def length_of(name: str, episode: Any) -> int:
    """Number of timesteps T of an episode; ArgumentError about ``name`` if it is not made of arrays [T, ...]."""
    if not isinstance(episode, Mapping):
        raise ArgumentError(f"{name} must be a mapping of arrays, got {type(episode).__name__}", name, episode)
    lengths = {key: len(array) if array.ndim else 0 for key, array in named_arrays(episode)}
    length = next(iter(lengths.values()), 0)
    if not length or {*lengths.values()} != {length}:
        told = ", ".join(f"{key} {given}" for key, given in lengths.items()) or "none"
        raise ArgumentError(f"the arrays of {name} must have one length of at least 1, got {told}", name, episode)
    return length


def check_episodes(name: str, given: Any) -> list[Episode]:
    """Check a caller's episodes like those of a file: all numbers are finite; the last timestep ends its episode.

    Raises:
        ArgumentError: they are not episodes, or hold NaN or infinity; the message calls them ``name``.
    """
    if isinstance(given, Mapping | bytes) or not isinstance(given, Iterable):
        message = f"{name} must be a file, a folder, or a list of episodes, got {shortened(given)}"
        raise ArgumentError(message, name, given)
    episodes: list[Episode] = []
    for index, episode in enumerate(given):
        one = f"{name}[{index}]"
        length_of(one, episode)
        for key, array in named_arrays(episode):
            if array.dtype.kind == "f" and not all_finite(array):
                raise ArgumentError(f"{key} of {one} is NaN or infinite", one, episode)
        truncated = np.array(episode.get("truncated", ()), np.bool_)
        truncated[-1:] |= not np.any(episode.get("terminated", ())[-1:])
        episodes.append({**episode, "truncated": truncated})
    return episodes


def digest_of(episodes: Iterable[Episode]) -> str:
    """SHA-256 of all arrays."""
    digest = hashlib.sha256()
    for episode in episodes:
        for _, array in named_arrays(episode):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
