"""What a run will be, said before its first timestep."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import gymnasium


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the model: the variables whose names have their first word in common (``online``, ``adam``).

    ``trainable`` counts the parameters in variables that were created as such; ``acts`` tells whether PREDICT uses any.
    """

    parameters: int
    trainable: int
    acts: bool


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A run as ``Agent.check`` found it.

    ``memory_bytes`` is None for a memory that does not say how many it has. ``runtimes`` and ``why`` have an entry for
    the actor and one for the learner.
    """

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    num_envs: int
    parts: Mapping[str, Part]
    memory_bytes: int | None
    runtimes: Mapping[str, str]
    why: Mapping[str, str]


def parts_of(variables: Mapping[str, Any], acting: Mapping[str, Any]) -> dict[str, Part]:
    """The parts of a model, in the order in which they were created.

    Args:
        variables: all of them, by the names under which checkpoints hold them (``0007.online/dense/kernel``).
        acting: those of PREDICT.
    """
    parts: dict[str, Part] = {}
    for name, variable in variables.items():
        first = name.partition(".")[2].partition("/")[0]
        size = math.prod(variable.shape)
        before = parts.get(first, Part(0, 0, False))
        parts[first] = Part(
            before.parameters + size,
            before.trainable + (size if variable.trainable else 0),
            before.acts or name in acting,
        )
    return parts
