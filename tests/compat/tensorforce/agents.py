"""What the tests of Tensorforce's interface share: small agents, a small world, and what is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from axonrl.compat.tensorforce import Agent, Environment, TensorforceError

S = [0.1, -0.2, 0.3]
STATES = dict(type="float", shape=(3,))
ACTIONS = dict(type="int", num_values=3)


class Count(Environment):
    """Counts to ``length``: states are 0, 1, ...; each reward is 1."""

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.length = length
        self.at = 0
        self.closed = 0

    def states(self) -> dict[str, Any]:
        return {"type": "int", "shape": (), "num_values": 1000}

    def actions(self) -> dict[str, Any]:
        return {"type": "int", "num_values": 2}

    def reset(self) -> Any:
        self.at = 0
        return 0

    def execute(self, actions: Any) -> tuple[Any, int, float]:
        self.at += 1
        return self.at, int(self.at == self.length), 1.0

    def close(self) -> None:
        self.closed += 1


def make(agent: Any = "random", **kwargs: Any) -> Any:
    """An agent with three floats as state, three actions and episodes of at most 20 timesteps."""
    given: dict[str, Any] = dict(states=STATES, actions=ACTIONS, max_episode_timesteps=20, seed=1)
    return Agent.create(agent=agent, **{**given, **kwargs})


def generic(**kwargs: Any) -> Any:
    """One that learns: REINFORCE with one layer, after each episode."""
    given: dict[str, Any] = dict(
        update=dict(unit="episodes", batch_size=1),
        objective="policy_gradient",
        reward_estimation=dict(horizon="episode"),
        policy=[dict(type="dense", size=8)],
    )
    return make("tensorforce", **{**given, **kwargs})


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> TensorforceError:
    with pytest.raises(TensorforceError) as caught:
        call(*args, **kwargs)
    return caught.value
