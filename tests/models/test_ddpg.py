"""DDPG against its paper's algorithm in NumPy; what it has in common with TD3 is in test_td3.py."""

from pathlib import Path

import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.memories import HindsightMemory
from axonrl.models import ddpg
from axonrl.tests.models.deterministic import BATCH, CONFIG, ByHand, Reach
from axonrl.tests.models.executed import LINEAR, Model, traced

PARAMS = {**LINEAR, "critic_learning_rate": 0.2, "target_update_rate": 0.25}
CRITIC = [0.5, 2.0, 0.1]  # by observation, by action, bias


def made() -> Model:
    return traced(ddpg.model_fn, PARAMS, CONFIG, BATCH, "litert")


def by_hand() -> ByHand:
    return ByHand([CRITIC], rate=0.25, delay=1, actor_rate=0.1, critic_rate=0.2)


def test_updates_are_those_of_the_paper() -> None:
    model, expected = made(), by_hand()
    model.set(expected.weights(["critic"]) | {"target_actor/mu/bias": 7.0})  # copied over at first
    for step in range(4):
        found, wanted = model.train(step), expected.step(BATCH)
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=f"{name} in step {step}")
        model.check(expected.weights(["critic"]))
    assert found["learning_rate"] == pytest.approx(0.1)
    assert found["critic_learning_rate"] == pytest.approx(0.2)


def test_learning_rates_follow_global_step_and_the_critic_may_have_the_actors() -> None:
    schedule = {"kind": "piecewise_constant", "boundaries": [3], "values": [0.2, 0.1]}
    params = {**PARAMS, "learning_rate": schedule, "critic_learning_rate": None, "updates": 3}
    model = Model(ddpg.model_fn, params, CONFIG, BATCH, "tensorflow")
    assert [model.train(step)["learning_rate"] for step in (2, 3)] == pytest.approx([0.2, 0.1])
    assert "critic_learning_rate" not in model.train_program.metrics


@pytest.mark.learning
def test_it_reaches_goals_from_hindsight(tmp_path: Path) -> None:
    params = {"hidden": (32, 32), "learning_rate": 5e-3, "critic_learning_rate": 5e-3, "sigma": 0.4}
    memory = HindsightMemory(2000, 64, sampler="prioritized")
    agent = Agent(ddpg.model_fn, memory, tmp_path, RunConfig(seed=1), params)
    agent.train(Reach(), first_update=100, update_frequency=1, max_timesteps=1500)
    assert agent.evaluate(Reach(), episodes=50, seed=0)["episode_return_mean"] > -0.2
