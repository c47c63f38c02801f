"""It learns: the whole of it together, on tasks whose best return is known."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete

from axonrl import Agent, RunConfig
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import a2c, c51, dqn, iqn, naf, ppo, qr_dqn, rainbow, redq, sac, td3, trpo, vpg
from axonrl.tests.estimators.fakes import Counting
from axonrl.tests.models.bandits import Bandit, Sides

pytestmark = pytest.mark.learning
LENGTH = 6
BEST = 1.0 - 0.1 * (LENGTH - 2)


class Corridor(gymnasium.Env[Any, Any]):
    """Six places in a row; each step costs 0.1, and reaching the last place pays 1 and ends the episode."""

    observation_space = Discrete(LENGTH)
    action_space = Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self.place, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = max(0, self.place + (1 if action == 1 else -1))
        self.steps += 1
        arrived = self.place == LENGTH - 1
        return self.place, 1.0 if arrived else -0.1, arrived, self.steps >= 30 and not arrived, {}


@pytest.mark.parametrize(
    ("algorithm", "params", "n_step"),
    [
        (dqn, {}, 1),
        (dqn, {"double": False, "loss": "squared", "target_update_rate": 0.05}, 3),
        (c51, {"atoms": 21, "v_min": -1, "v_max": 1}, 1),
        (qr_dqn, {"quantiles": 8, "optimizer_epsilon": None}, 1),
        (iqn, {"quantiles": 8, "target_quantiles": 8, "policy_quantiles": 8, "cosines": 16}, 1),
        (rainbow, {"atoms": 21, "v_min": -1, "v_max": 1}, 3),
    ],
    ids=["double", "plain, three steps", "c51", "qr_dqn", "iqn", "rainbow"],
)
def test_it_finds_the_best_way_and_its_values(
    algorithm: Any, params: dict[str, Any], n_step: int, tmp_path: Path
) -> None:
    settings = {"hidden": (32,), "learning_rate": 3e-3, "epsilon": 0.5, **params}
    memory = ReplayMemory(2000, 32, discount=0.9, n_step=n_step)
    agent = Agent(algorithm.model_fn, memory, tmp_path, RunConfig(seed=3), settings)
    agent.train(Corridor(), first_update=100, update_frequency=1, max_timesteps=1500)
    assert agent.evaluate(Corridor(), episodes=2)["episode_return_mean"] == pytest.approx(BEST)
    q_values = agent.predict(np.arange(LENGTH - 1))["q_values"]
    # From place k, going right: -0.1 for each step but the last, discounted by 0.9.
    right = [sum(-0.1 * 0.9**i for i in range(4 - k)) + 0.9 ** (4 - k) for k in range(LENGTH - 1)]
    if n_step == 1:  # n-step returns hold what exploration did on the way, so their values are lower
        np.testing.assert_allclose(q_values[:, 1], right, atol=0.1)


class Throws(Counting):
    """Observes a side and a distance; pays 1 for the right side, less the error of the throw. Chance gets -0.5."""

    observation_space = Box(-1, 1, (2,))

    def __init__(self) -> None:
        super().__init__(10, action_space=Dict({"side": Discrete(2), "throw": Box(-2, 2, (1,))}))
        self.before: Any = np.zeros(2, np.float32)
        self.seen: Any = self.before

    def observation(self) -> Any:
        self.before, self.seen = self.seen, self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.seen

    def reward(self) -> Any:
        (side, distance), action = self.before.tolist(), self.actions[-1]
        return float(action["side"] == (side > 0)) - abs(float(action["throw"][0]) - distance)


@pytest.mark.parametrize(("algorithm", "size"), [(ppo, 256), (a2c, 32)])
def test_composite_actions_are_learned(algorithm: Any, size: int, tmp_path: Path) -> None:
    params = {"hidden": (32,), "learning_rate": 5e-3, "log_std": -0.5}
    memory = BatchMemory(size, discount=0.0)  # what follows does not depend on the action
    agent = Agent(algorithm.model_fn, memory, tmp_path, RunConfig(seed=0), params)
    agent.train(Throws(), max_timesteps=8192)
    assert agent.evaluate(Throws(), episodes=20)["episode_return_mean"] > 7.5


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
