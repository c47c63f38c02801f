"""CQL against numbers worked out by hand, on a network that is its biases."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.core.protocols import Modes
from axonrl.memories import ReplayMemory
from axonrl.models import cql, dqn
from axonrl.models.blocks import losses
from axonrl.tests.models.bandits import HALF, SEEN, Paying, data
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32, I32 = np.float32, np.int32
PARAMS: dict[str, Any] = {
    **LINEAR,
    "max_gradient_norm": None,
    "loss": "squared",
    "target_update_period": 100,
    "conservative_weight": 2.0,
}
BATCH = transitions(np.zeros((2, 1), F32), np.array([1, 0], I32), [1, -1], weight=[1, 0.5])


def config(action: Any, observation: Any = SEEN) -> RunConfig:
    return RunConfig(observation_space=observation, action_space=action)


def test_the_conservative_error_by_hand() -> None:
    values = tf.constant([[0.0, 0.0, np.log(2)], [1.0, 3.0, 1e6]])
    mask = tf.constant([[True, True, True], [True, True, False]])
    np.testing.assert_allclose(losses.conservative(values[:1], tf.constant([2])), [np.log(2)], rtol=1e-6)
    found = losses.conservative(values, tf.constant([0, 1]), mask)
    np.testing.assert_allclose(found, [np.log(4), np.log(1 + np.exp(-2))], rtol=1e-5)


def test_one_update_by_hand() -> None:
    """Values are 0, log 2 and log 5, and so the softmax is 1/8, 2/8 and 5/8; the target network's are 4, 5 and 3."""
    model = Model(cql.model_fn, PARAMS, config(spaces.Discrete(3)), BATCH, "litert")
    q_values = np.log([1, 2, 5])
    model.set({"online/q_values/bias": q_values, "target/q_values/bias": [4, 5, 3]})
    np.testing.assert_allclose(model.act()["q_values"], [q_values] * 2, rtol=1e-6)
    found = model.train()
    td_error = np.array([1 + 0.5 * 3 - q_values[1], -1 - q_values[0]])  # the online network selects action 2
    gap = np.log([4, 8])
    np.testing.assert_allclose(found.pop("td_error"), td_error, rtol=1e-5)
    by_action = [-td_error[0] * np.eye(3)[1], -td_error[1] * np.eye(3)[0]]
    by_softmax = [np.array([1, 2, 5]) / 8 - np.eye(3)[1], np.array([1, 2, 5]) / 8 - np.eye(3)[0]]
    rows = [by_action[k] + 2 * by_softmax[k] for k in (0, 1)]
    gradient = (rows[0] + 0.5 * rows[1]) / 2
    numbers = {
        "loss": (td_error[0] ** 2 / 2 + 2 * gap[0] + 0.5 * (td_error[1] ** 2 / 2 + 2 * gap[1])) / 2,
        "q_mean": q_values[1] / 2,
        "td_error_mean": np.abs(td_error).mean(),
        "conservative_error": gap.mean(),
        "gradient_norm": np.linalg.norm(gradient),
        "learning_rate": 0.1,
    }
    assert found == pytest.approx(numbers, rel=1e-5)
    np.testing.assert_allclose(model.weights["online/q_values/bias"], q_values - 0.1 * gradient, rtol=1e-5)
    assert model.weights["target/q_values/bias"].tolist() == [4, 5, 3]


def test_without_a_weight_it_is_dqn() -> None:
    space, action = spaces.MultiDiscrete([2, 3]), np.array([[1, 0], [0, 2]], I32)
    params = {**PARAMS, "hidden": (4,), "double": False}
    del params["conservative_weight"]
    batch = {**BATCH, "action": action, "observation": np.array([[0.5], [-0.25]], F32)}
    plain = Model(dqn.model_fn, params, config(space), batch, "tensorflow")
    conservative = Model(cql.model_fn, {**params, "conservative_weight": 0.0}, config(space), batch, "tensorflow")
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=value.shape) for name, value in plain.weights.items() if name.startswith("online")}
    for model in (plain, conservative):
        model.set(weights)
    expected, found = plain.train(), conservative.train()
    assert found.pop("conservative_error") > 0
    np.testing.assert_allclose(found.pop("td_error"), expected.pop("td_error"), rtol=1e-5)
    assert found == pytest.approx(expected, rel=1e-5)
    conservative.check(plain.weights)


def loss_of(space: Any, observation_space: Any = SEEN, **batch: Any) -> float:
    """EVAL, with values that are all 0, so that the softmax is uniform."""
    labels = tf.nest.map_structure(tf.constant, {**BATCH, **batch})
    params = {**PARAMS, "initializer": "zeros"}
    spec = cql.model_fn(labels["observation"], labels, Modes.EVAL, params, config(space, observation_space))
    return float(spec.loss)


def test_several_choices_have_the_mean_of_their_errors() -> None:
    gap = (np.log(2) + np.log(4)) / 2
    expected = ((0.5 + 2 * gap) + 0.5 * (0.5 + 2 * gap)) / 2
    found = loss_of(spaces.MultiDiscrete([2, 4]), action=np.array([[1, 3], [0, 2]], I32))
    assert found == pytest.approx(expected, rel=1e-5)


def test_illegal_actions_are_not_among_the_others() -> None:
    space = spaces.Dict({"action_mask": spaces.MultiBinary(3), "x": SEEN})
    mask = np.array([[0, 1, 1], [1, 0, 0]], np.int8)
    seen = {"x": np.zeros((2, 1), F32), "action_mask": mask}
    expected = ((0.5 + 2 * np.log(2)) + 0.5 * 0.5) / 2
    found = loss_of(spaces.Discrete(3), space, observation=seen, next_observation=seen)
    assert found == pytest.approx(expected, rel=1e-5)


def paid(action: Any) -> float:
    """Action 1 is paid 1, action 0 nothing and action 2 takes 5, but no data have it."""
    return (0.0, 1.0, -5.0)[int(action)]


@pytest.mark.learning
def test_it_keeps_to_what_the_data_have_and_learns_on_in_the_environment(tmp_path: Path) -> None:
    space = spaces.Discrete(3)
    params = {"hidden": (16,), "learning_rate": 0.01, "epsilon": 1.0}
    agent = Agent(cql.model_fn, ReplayMemory(1000, 16, sampler="prioritized"), tmp_path, RunConfig(seed=1), params)
    agent.learn(data([np.int32(k % 2) for k in range(40)], paid), (SEEN, space), steps=300)
    zero, one, never = agent.predict(HALF)["q_values"][0]
    assert one > zero > never
    env = Paying(space, paid)
    assert agent.evaluate(env, 3)["episode_return_mean"] == 1.0
    agent.train(env, first_update=1, update_frequency=1, timesteps=100)
    assert (agent.global_step, agent.global_timestep, len(agent.memory or ())) == (400, 100, 140)
    assert agent.evaluate(env, 3)["episode_return_mean"] == 1.0
