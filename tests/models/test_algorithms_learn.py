"""Each learns a small task; tests/test_learning.py has the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from axonrl import Agent, RunConfig
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import naf, redq, sac, td3, trpo, vpg
from axonrl.tests.models.bandits import Bandit, Sides
from axonrl.tests.test_learning import BEST, Corridor

pytestmark = pytest.mark.learning
F32 = np.float32
SEEN = np.array([[-1], [1]], F32)


def trained(algorithm: Any, env: Any, size: int, folder: Path, timesteps: int, params: dict[str, Any]) -> Agent:
    memory = ReplayMemory(1000, size, n_step=2, sampler="prioritized")
    agent = Agent(algorithm.model_fn, memory, folder, RunConfig(seed=1), params)
    return agent.train(env, first_update=100, update_frequency=1, max_timesteps=timesteps)


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [(naf, {"exploration": "gaussian", "sigma": 0.5}), (td3, {"sigma": 0.4, "target_update_rate": 0.05})],
)
def test_the_best_action_of_a_box(algorithm: Any, params: dict[str, Any], tmp_path: Path) -> None:
    params = {"hidden": (32,), "learning_rate": 1e-2, **params}
    predictions = trained(algorithm, Bandit(), 32, tmp_path, 1000, params).predict(SEEN)
    np.testing.assert_allclose(predictions["action"], [[0, 2], [2, 0]], atol=0.2)
    np.testing.assert_allclose(predictions.get("value", 0), 0, atol=0.2)  # NAF predicts it


def test_redq_finds_the_best_choice(tmp_path: Path) -> None:
    params = {"hidden": (16,), "learning_rate": 5e-3, "target_update_rate": 0.05, "updates": 4, "critics": 3}
    assert trained(redq, Sides(), 64, tmp_path, 400, params).predict(SEEN)["action"].tolist() == [5, 7]


def test_sac_finds_the_best_choice_and_keeps_the_target_entropy(tmp_path: Path) -> None:
    params = {"hidden": (32,), "learning_rate": 5e-3, "target_update_rate": 0.05}
    predictions = trained(sac, Sides(), 32, tmp_path, 1000, params).predict(SEEN)
    assert predictions["action"].tolist() == [5, 7]
    p = np.exp(predictions["logits"])
    p /= p.sum(1, keepdims=True)
    assert -np.sum(p * np.log(p), axis=1).mean() == pytest.approx(0.7 * np.log(3), abs=0.15)


@pytest.mark.parametrize(
    ("algorithm", "params", "steps"),
    [(trpo, {"learning_rate": 1e-2, "damping": 1e-2}, 20), (vpg, {"learning_rate": 3e-2}, 40)],
)
def test_the_best_way(algorithm: Any, params: dict[str, Any], steps: int, tmp_path: Path) -> None:
    config = RunConfig(seed=0, progress=False, save_checkpoints_secs=None, runtime="tensorflow")
    agent = Agent(algorithm.model_fn, BatchMemory(128, discount=0.9), tmp_path, config, {"hidden": (32,), **params})
    agent.train(Corridor(), steps=steps)
    assert agent.global_step == steps
    assert agent.evaluate(Corridor(), episodes=2)["episode_return_mean"] == pytest.approx(BEST)
