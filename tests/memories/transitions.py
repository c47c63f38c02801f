"""What the transitions of these tests look like, and how they are drawn."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from axonrl.core.protocols import ArraySpec, SpecTree
from axonrl.errors import ArgumentError
from axonrl.memories import Memory


class NewestMemory(Memory):
    """The example of Memory's docstring."""

    def sample(self) -> Any:
        return self.gather(np.arange(len(self) - self.batch_size, len(self)))


def specs_of(observation: SpecTree) -> dict[str, SpecTree]:
    """Specs of transitions with such observations and discrete actions."""
    return {
        "observation": observation,
        "action": ArraySpec((), np.int32),
        "reward": ArraySpec((), np.float32),
        "terminated": ArraySpec((), np.bool_),
        "truncated": ArraySpec((), np.bool_),
        "next_observation": observation,
    }


def timestep(now: Any, following: Any, **changes: Any) -> dict[str, Any]:
    """What a memory's ``step`` takes; and ``extend``, if ``changes`` have arrays for the rest."""
    rest = {"action": 0, "reward": 0.0, "terminated": False, "truncated": False}
    return {"observation": now, "next_observation": following, **rest, **changes}


def timesteps(now: Any, following: Any, lanes: int | None = None, **changes: Any) -> dict[str, Any]:
    """What ``extend`` takes: the same for each lane. Of dictionaries say how many these are."""
    rest = dict.fromkeys(("action", "reward", "terminated", "truncated"), np.zeros(lanes or len(now)))
    return timestep(now, following, **{**rest, **changes})


class Draws:
    """In place of a generator: hands out these numbers of [0, 1), an array for each call."""

    def __init__(self, *draws: Any) -> None:
        self.draws = [np.array(draw, np.float64) for draw in draws]

    def random(self, size: int) -> Any:
        draw = self.draws.pop(0)
        assert draw.shape == (size,)
        return draw


def in_order(number: int) -> Draws:
    """Draws so many of as many, the oldest first."""
    return Draws((np.arange(number) + 0.5) / number)


def numbers(values: Any) -> list[Any]:
    flat: list[Any] = np.asarray(values).reshape(-1).tolist()
    return flat


@contextlib.contextmanager
def refused(argument: str, *fragments: str) -> Iterator[None]:
    """An ArgumentError is raised that names this argument, and whose message has these parts."""
    with pytest.raises(ArgumentError) as caught:
        yield
    assert caught.value.argument == argument
    assert [fragment for fragment in fragments if fragment not in str(caught.value)] == []
