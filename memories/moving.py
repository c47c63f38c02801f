"""What a memory of one lane holds, in the order in which it came and without places: to move it into another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contracts import Array, ArrayTree
from .columns import FLAGS, map_tree
from .memory import Memory
from .replay import ReplayMemory

PRIORITIES = "priority"


def contents(memory: Memory) -> tuple[dict[str, ArrayTree], dict[str, Any]]:
    """All transitions, the oldest first, and what else its draws follow from.

    Args:
        memory: built, of one lane.

    Returns:
        The keys of the specs, [T, ...], with ``priority`` float64 [T] (as the sampler keeps them) where it draws by
        priorities; and JSON values of the sampler.
    """
    index = np.arange(len(memory))
    found = memory.gather(index)
    del found["discount"]
    for flag in FLAGS:
        found[flag] = np.asarray(found[flag]) > 0
    if not isinstance(memory, ReplayMemory):
        return found, {}
    state = memory.state_dict()["sampler"]
    if "priorities" not in state:
        return found, {}
    by_place = np.zeros(memory.size, np.float64)
    kept = np.asarray(state["priorities"])
    by_place[: len(kept)] = kept
    found[PRIORITIES] = by_place[memory._ring.places(index)]
    return found, {"maximum": float(state["maximum"]), "num_batches": int(state["num_batches"])}


def fill(memory: Memory, transitions: Mapping[str, ArrayTree], sampler: Mapping[str, Any]) -> None:
    """Put into an empty memory what :func:`contents` returned of another one of the same settings.

    Raises:
        ArgumentError: a value cannot be stored.
    """
    columns = {key: value for key, value in transitions.items() if key != PRIORITIES}
    for k in range(len(np.asarray(columns["reward"]))):
        memory.step(**{key: _at(value, k) for key, value in columns.items()})
    if isinstance(memory, ReplayMemory) and PRIORITIES in transitions:
        memory._tell_sampler()
        drawn: Array = np.zeros(0, np.intp)
        priorities = np.asarray(transitions[PRIORITIES])
        memory.sampler.load_state_dict({**sampler, "priorities": priorities, "drawn": drawn, "awaits_update": False})


def _at(tree: ArrayTree, k: int) -> Any:
    return map_tree(lambda values: values[k], tree)
