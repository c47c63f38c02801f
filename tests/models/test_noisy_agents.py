"""Noisy layers, seen from outside: who draws noise, who does not, and that a run resumes exactly."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.policies import Policy

PARAMS = {"hidden": (8,), "noisy": True, "noisy_sigma": 5.0}
SEEN = np.array([0.5, -0.5], np.float32)


class Still(gymnasium.Env[Any, Any]):
    """Always the same observation; writes actions down."""

    observation_space = spaces.Box(-1, 1, (2,))
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.actions: list[int] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = 7
        return SEEN, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(int(action))
        self.left -= 1
        return SEEN, 1.0, self.left == 0, False, {}


@pytest.mark.usefixtures("traced_once")
def test_only_training_is_noisy_and_it_resumes_exactly(tmp_path: Path) -> None:
    def agent(folder: str) -> Agent:
        memory = ReplayMemory(100, 4)
        return Agent(dqn.model_fn, memory, tmp_path / folder, RunConfig(seed=3, runtime="litert"), PARAMS)

    whole, first, second, evaluated = Still(), Still(), Still(), Still()
    one = agent("whole").train(whole, first_update=20, update_frequency=5, timesteps=40)
    agent("parts").train(first, first_update=20, update_frequency=5, timesteps=24)
    other = agent("parts").train(second, first_update=20, update_frequency=5, timesteps=16)
    assert set(whole.actions[:19]) == {0, 1}  # the network is the same before the first update
    assert [*first.actions, *second.actions[-16:]] == whole.actions
    predicted = one.predict(SEEN[None])
    np.testing.assert_equal(other.predict(SEEN[None]), predicted)
    assert predicted["action"].tolist() == predicted["noisy_action"].tolist()
    one.evaluate(evaluated, 2)
    assert set(evaluated.actions) == set(predicted["action"].tolist())
    assert {int(one.act(SEEN, explore=True)) for _ in range(40)} == {0, 1}

    policy = Policy.load(one.export(tmp_path / "exported"))
    assert policy.act(SEEN) == predicted["action"][0]
    with pytest.raises(ValueError, match="Noisy explores by noise that the model draws while it trains"):
        policy.act(SEEN, explore=True)
