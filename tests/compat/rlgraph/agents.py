"""What the tests of RLgraph's interface share: small agents, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event

from axonrl.compat.rlgraph import RLGraphError
from axonrl.compat.rlgraph.agents import DQNAgent
from axonrl.compat.rlgraph.spaces import BoolBox, BoxSpace, FloatBox, IntBox
from axonrl.core.protocols import Array

DQN: dict[str, Any] = {
    "state_space": {"type": "float", "shape": (2,)},
    "action_space": {"type": "int", "low": 0, "high": 3},
    "discount": 0.5,
    "network_spec": [{"type": "dense", "units": 8, "activation": "tanh"}],
    "dueling_q": False,
    "memory_spec": {"type": "replay", "capacity": 100},
    "update_spec": {"batch_size": 4, "update_interval": 4, "sync_interval": 8},
    "optimizer_spec": {"type": "adam", "learning_rate": 0.01},
    "execution_spec": {"seed": 3},
}


def make_dqn(**more: Any) -> DQNAgent:
    """A DQNAgent with two floats as state and three actions."""
    return DQNAgent(**{**DQN, **more})


def records(count: int, *, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "states": rng.normal(size=(count, 2)),
        "actions": rng.integers(3, size=count),
        "rewards": rng.normal(size=count),
        "terminals": rng.random(count) < 0.3,
        "next_states": rng.normal(size=(count, 2)),
    }


def box(
    shape: tuple[int, ...] = (), dtype: Any = "float32", low: Any = None, high: Any = None, num_categories: int = 0
) -> BoxSpace:
    """A space of numbers of this dtype."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return BoolBox(shape)
    if kind == "f":
        return FloatBox(low, high, shape)
    low, high = (0, num_categories) if low is None and num_categories else (low, high)
    return IntBox(low, high, shape, dtype)


def equal(first: dict[str, Array], second: dict[str, Array]) -> bool:
    """The same names and bits."""
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> RLGraphError:
    """The error with which a call is refused; it is a ValueError, too."""
    with pytest.raises(RLGraphError) as caught:
        call(*args, **kwargs)
    assert isinstance(caught.value, ValueError)
    return caught.value


def scalars(folder: Path) -> list[tuple[int, dict[str, float]]]:
    """Of every event its step and numbers."""
    (path,) = folder.glob("events.*")
    events = [Event.FromString(record) for record in RawEventFileLoader(str(path)).Load()]
    return [
        (event.step, {value.tag: round(value.simple_value, 5) for value in event.summary.value})
        for event in events
        if event.HasField("summary")
    ]
