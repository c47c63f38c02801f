"""Noisy layers, seen from outside: who draws noise, who does not, and that a run resumes exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.policies import Policy
from axonrl.tests.estimators.fakes import Counting

PARAMS = {"hidden": (8,), "noisy": True, "noisy_sigma": 5.0}
SEEN = np.array([0.5, -0.5], np.float32)


class Still(Counting):
    observation_space = spaces.Box(-1, 1, (2,))

    def observation(self) -> Any:
        return SEEN


@pytest.mark.usefixtures("traced_once")
def test_only_training_is_noisy_and_it_resumes_exactly(tmp_path: Path) -> None:
    def agent(folder: str) -> Agent:
        memory = ReplayMemory(100, 4)
        return Agent(dqn.model_fn, memory, tmp_path / folder, RunConfig(seed=3, runtime="litert"), PARAMS)

    whole, first, second, evaluated = (Still(7) for _ in range(4))
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
