from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import stats

from axonrl import Agent, RunConfig
from axonrl.core.protocols import Modes
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.models import bc, ppo
from axonrl.tests.estimators.fakes import Counting
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32, I32 = np.float32, np.int32
SEEN = spaces.Box(-1, 1, (1,))


def config(action: Any, observation: Any = SEEN) -> RunConfig:
    return RunConfig(observation_space=observation, action_space=action)


def batch(action: Any, weight: Any = (1, 1)) -> dict[str, Any]:
    return transitions(np.zeros((2, 1), F32), action, [0, 0], [1, 1], weight=weight)


def test_one_update_of_choices_by_hand() -> None:
    """Probabilities are 1/4, 1/4 and 1/2; 3 and 4 were done, of actions that begin at 2."""
    space = spaces.Discrete(3, start=2)
    model = Model(bc.model_fn, LINEAR, config(space), batch(np.array([3, 4], I32), (1, 0.5)), "litert")
    logits = np.log([1, 1, 2])
    model.set({"policy/head/bias": logits})
    np.testing.assert_allclose(model.act()["logits"], [logits] * 2, rtol=1e-6)
    assert model.act()["action"].tolist() == [4, 4]
    found = model.train()
    np.testing.assert_allclose(found["td_error"], np.log([4, 2]), rtol=1e-5)
    gradient = np.array([0.25 + 0.5 * 0.25, -0.75 + 0.5 * 0.25, 0.5 - 0.5 * 0.5]) / 2
    assert {name: value for name, value in found.items() if name != "td_error"} == pytest.approx(
        {
            "loss": (np.log(4) + 0.5 * np.log(2)) / 2,
            "entropy": 0.5 * np.log(4) + 0.5 * np.log(2),
            "accuracy": 0.5,
            "gradient_norm": np.linalg.norm(gradient),
            "learning_rate": 0.1,
        },
        rel=1e-5,
    )
    np.testing.assert_allclose(model.weights["policy/head/bias"], logits - 0.1 * gradient, rtol=1e-5)


def test_one_update_of_numbers_by_hand() -> None:
    """The mean is (1, 0), the standard deviations are (2, 1)."""
    space, action = spaces.Box(-9, 9, (2,)), np.array([[3, 1], [1, -2]], F32)
    model = Model(bc.model_fn, LINEAR, config(space), batch(action), "tensorflow")
    log_std = np.log([2, 1])
    model.set({"policy/head/bias": [1, 0], "policy/log_std": log_std})
    np.testing.assert_allclose(model.act()["action"], [[1, 0]] * 2)
    np.testing.assert_allclose(model.act()["log_std"], [log_std] * 2, rtol=1e-6)
    found = model.train()
    error = -stats.norm.logpdf(action, [1, 0], [2, 1]).sum(axis=1)
    np.testing.assert_allclose(found["td_error"], error, rtol=1e-5)
    assert found["loss"] == pytest.approx(error.mean(), rel=1e-5)
    assert found["squared_error"] == pytest.approx((4 + 1 + 0 + 4) / 4)
    assert found["entropy"] == pytest.approx(stats.norm.entropy(scale=[2, 1]).sum(), rel=1e-5)
    # By the mean -(a - m) / s^2, by the logarithm of s 1 - ((a - m) / s)^2; each the mean of both rows.
    np.testing.assert_allclose(model.weights["policy/head/bias"], [1 + 0.1 * 0.25, 0 - 0.1 * 0.5], rtol=1e-5)
    np.testing.assert_allclose(model.weights["policy/log_std"], log_std - 0.1 * np.array([0.5, -1.5]), rtol=1e-5)


def test_squashed_numbers_against_scipy() -> None:
    """In 0 .. 4, of a Gaussian with the mean 0.5 and the standard deviation 1/2 before squashing."""
    action = np.array([[1], [3.5]], F32)
    params = {**LINEAR, "box_policy": "squashed"}
    model = Model(bc.model_fn, params, config(spaces.Box(0, 4, (1,))), batch(action), "litert")
    model.set({"policy/head/bias": [0.5], "policy/log_std": [-np.log(2)]})
    np.testing.assert_allclose(model.act()["action"], 2 + 2 * np.tanh([[0.5], [0.5]]), rtol=1e-6)
    found = model.train()
    inside = action[:, 0] / 2 - 1
    density = stats.norm.logpdf(np.arctanh(inside), 0.5, 0.5) - np.log(1 - inside**2) - np.log(2)
    np.testing.assert_allclose(found["td_error"], -density, rtol=1e-4)
    assert found["squared_error"] == pytest.approx(((inside - np.tanh(0.5)) ** 2).mean(), rel=1e-4)


def test_where_an_expert_always_does_the_same_the_likelihood_stays_finite() -> None:
    model = Model(bc.model_fn, LINEAR, config(spaces.Box(-9, 9, (1,))), batch(np.zeros((2, 1), F32)), "tensorflow")
    model.set({"policy/log_std": [-50]})
    assert model.train()["loss"] == pytest.approx(-20 + 0.5 * np.log(2 * np.pi), rel=1e-5)
    np.testing.assert_allclose(model.weights["policy/log_std"], [-50])


def evaluated(space: Any, action: Any, observation: Any = SEEN, seen: Any = None) -> Any:
    """EVAL of a policy whose outputs are all 0: nothing but halves, thirds, ... is likely."""
    labels = {key: tf.constant(value) for key, value in batch(np.zeros(2, F32)).items()}
    labels["action"] = action
    features = labels["observation"] if seen is None else seen
    params = {**LINEAR, "initializer": "zeros"}
    return bc.model_fn(features, labels, Modes.EVAL, params, config(space, observation))


def test_several_choices_bits_and_all_of_them_together() -> None:
    several = spaces.MultiDiscrete([2, 4], start=[1, 0])
    choices = tf.constant([[1, 3], [2, 0]])
    spec = evaluated(several, choices)
    assert float(spec.loss) == pytest.approx(np.log(2) + np.log(4))
    assert float(spec.eval_metric_ops["accuracy"]) == 0.5  # the likeliest of equal ones is the first
    bits = tf.constant([[1, 0, 0], [0, 0, 0]], tf.int8)
    spec = evaluated(spaces.MultiBinary(3), bits)
    assert float(spec.loss) == pytest.approx(3 * np.log(2))
    assert float(spec.eval_metric_ops["accuracy"]) == pytest.approx(5 / 6)
    numbers = tf.constant([[1.0], [3.0]])
    both = spaces.Dict({"bits": spaces.MultiBinary(3), "choices": several, "numbers": spaces.Box(-9, 9, (1,))})
    spec = evaluated(both, {"bits": bits, "choices": choices, "numbers": numbers})
    density = -stats.norm.logpdf([1, 3]).mean()
    assert float(spec.loss) == pytest.approx(3 * np.log(2) + np.log(8) + density, rel=1e-5)
    found = {name: float(value) for name, value in spec.eval_metric_ops.items()}
    numbers = {
        "accuracy": (5 / 6 + 0.5) / 2,
        "squared_error": 5.0,
        "entropy": 3 * np.log(2) + np.log(8) + stats.norm.entropy(),
    }
    assert found == pytest.approx(numbers, rel=1e-5)


def test_illegal_actions_have_no_probability() -> None:
    observation = spaces.Dict({"action_mask": spaces.MultiBinary(3), "x": SEEN})
    mask = tf.constant([[1, 1, 0], [0, 0, 1]], tf.int8)
    seen = {"x": tf.zeros((2, 1)), "action_mask": mask}
    spec = evaluated(spaces.Discrete(3), tf.constant([1, 2]), observation, seen)
    assert float(spec.loss) == pytest.approx(np.log(2) / 2)
    assert float(spec.eval_metric_ops["accuracy"]) == 0.5


def expert(rng: np.random.Generator) -> dict[str, Any]:
    """Sees x in -1 .. 1, and does 2 where x is above a half, 1 where it is above minus a half, else 0."""
    x = rng.uniform(-1, 1, (201, 1)).astype(F32)
    truncated = np.zeros(200, np.bool_)
    return {
        "observation": x[:-1],
        "action": ((x[:-1, 0] > 0.5).astype(I32) + (x[:-1, 0] > -0.5)).astype(I32),
        "reward": np.zeros(200, F32),
        "terminated": truncated,
        "truncated": truncated,
        "next_observation": x[1:],
    }


class Seen(Counting):
    observation_space = SEEN

    def observation(self) -> Any:
        return np.array([self.mark], F32)


@pytest.mark.learning
def test_it_does_what_an_expert_does(tmp_path: Path) -> None:
    memory = ReplayMemory(1000, 64, sampler="prioritized")
    agent = Agent(bc.model_fn, memory, tmp_path, RunConfig(seed=1), {"hidden": (32,), "learning_rate": 0.01})
    agent.learn([expert(np.random.default_rng(0))], (SEEN, spaces.Discrete(3)), steps=600)
    assert agent.predict(np.array([[-0.8], [0.0], [0.8]], F32))["action"].tolist() == [0, 1, 2]


def test_ppo_starts_from_its_policy_and_the_deviations_of_a_box(tmp_path: Path, unconverted: None) -> None:
    data = expert(np.random.default_rng(0))
    data["action"] = np.clip(data["observation"], -1, 1)
    box = spaces.Box(-1, 1, (1,))
    cloned = Agent(bc.model_fn, ReplayMemory(1000, 64), tmp_path / "bc", RunConfig(seed=1), {"hidden": (8,)})
    cloned.learn([data], (SEEN, box), steps=50)
    params = {"hidden": (8,), "minibatch_size": 16, "epochs": 1}
    online = Agent(
        ppo.model_fn, BatchMemory(16), tmp_path / "ppo", RunConfig(seed=2), params, warm_start=tmp_path / "bc"
    )
    env = Seen(action_space=box)
    online.check(env)
    x = np.array([[-0.8], [0.3]], F32)
    for name in ("mean", "log_std"):
        assert online.predict(x)[name].tolist() == cloned.predict(x)[name].tolist()
    assert (cloned.predict(x)["log_std"] < 0).all()
    online.train(env, timesteps=16)
    assert online.global_step == 1
