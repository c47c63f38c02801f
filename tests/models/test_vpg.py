"""VPG against numbers worked out by hand, on networks that are one matrix, and through the Agent; A2C against PPO."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Agent, Modes, RunConfig
from axonrl.errors import NonFiniteError
from axonrl.memories import BatchMemory
from axonrl.models import a2c, ppo, vpg
from axonrl.tests.models.executed import WHOLE, Model, random_rollout, traced
from axonrl.tests.test_learning import Corridor

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-9, 9, (2,)), action_space=spaces.Discrete(2))
PARAMS = {**WHOLE, "max_gradient_norm": None, "entropy_coefficient": 0.5, "value_learning_rate": 0.2}
# Two timesteps of an episode that terminates, one that is truncated, and one whose episode goes on.
OBSERVATION = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], F32)
BATCH: dict[str, Any] = {
    "observation": OBSERVATION[:, None],
    "next_observation": np.array([[[0, 1]], [[5, 5]], [[2, 0]], [[0, 4]]], F32),
    "action": np.array([[1], [1], [0], [1]], np.int32),
    "reward": np.array([[1], [2], [3], [4]], F32),
    "discount": np.array([[0.5], [0], [0.5], [0.5]], F32),
    "terminated": np.array([[0], [1], [0], [0]], F32),
    "truncated": np.array([[0], [0], [1], [0]], F32),
}
VALUES = np.array([[1], [1], [1], [1]], F32)
POLICY = np.array([[1, 0], [0, 2]], F32)  # logits 1, 0 and 0, 2
SEEN = np.exp([[1, 0], [0, 2], [1, 0], [0, 2]])
P = SEEN / SEEN.sum(1, keepdims=True)
LOG_PROB = np.log(P[np.arange(4), [1, 1, 0, 1]])
ENTROPY = -(P * np.log(P)).sum(1)


def made(baseline: str, runtime: str, **params: Any) -> Model:
    batch = {**BATCH, "value": VALUES} if baseline == "value" else BATCH
    return traced(vpg.model_fn, {**PARAMS, "baseline": baseline, **params}, CONFIG, batch, runtime)


@pytest.mark.parametrize(
    ("baseline", "advantages", "runtime"),
    [
        ("none", [1 + 0.5 * 2, 2, 3, 4], "litert"),  # nothing follows a truncated episode or the end of the rollout
        ("value", [1 + 0.5 * 2 - 1, 2 - 1, 3 + 0.5 * 2 - 1, 4 + 0.5 * 4 - 1], "tensorflow"),  # values 2 and 4 follow
    ],
)
def test_an_update_by_hand(baseline: str, advantages: Any, runtime: str) -> None:
    model = made(baseline, runtime)
    model.set({"policy/head/kernel": POLICY, **({"value/head/kernel": [1, 1]} if baseline == "value" else {})})
    result = model.train()
    weighted = np.array(advantages)
    policy_loss = -(weighted * LOG_PROB).mean()
    expected = {
        "policy_loss": policy_loss,
        "entropy": ENTROPY.mean(),
        "advantage_std": weighted.std(),
        "learning_rate": 0.1,
        "loss": policy_loss - 0.5 * ENTROPY.mean(),
    }
    # Of the logits: A times one-hot less p, and of the entropy -p (log p + H).
    towards = weighted[:, None] * (np.eye(2)[[1, 1, 0, 1]] - P) - 0.5 * P * (np.log(P) + ENTROPY[:, None])
    kernel, bias = OBSERVATION.T @ towards / 4, towards.mean(0)
    np.testing.assert_allclose(model.weights["policy/head/kernel"], POLICY + 0.1 * kernel, rtol=1e-5)
    np.testing.assert_allclose(model.weights["policy/head/bias"], 0.1 * bias, rtol=1e-4, atol=1e-6)
    expected["gradient_norm"] = np.sqrt((kernel**2).sum() + (bias**2).sum())
    if baseline == "value":  # 1 everywhere, and so by the advantage too low
        error = -weighted
        expected |= {"value_loss": (error**2).mean(), "explained_variance": 0}
        expected["loss"] += expected["value_loss"]
        np.testing.assert_allclose(model.weights["value/head/kernel"][:, 0], 1 - 0.4 * OBSERVATION.T @ error / 4)
        np.testing.assert_allclose(model.weights["value/head/bias"], [-0.4 * error.mean()], rtol=1e-6)
    found = {name: value for name, value in result.items() if value is not None}
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_value_is_fitted_in_passes_of_its_own() -> None:
    """The policy takes one step whatever the passes; each minibatch of one row moves the value of its observation."""
    one, two = made("value", "tensorflow"), made("value", "tensorflow", epochs=2, minibatch_size=1)
    for model in (one, two):
        model.set({"policy/head/kernel": POLICY, "value/head/kernel": [1, 1]})
    one.train()
    two.train(draws=[np.array(order, np.int32) for order in ([0, 1, 2, 3], [3, 2, 1, 0])])
    np.testing.assert_allclose(two.weights["policy/head/kernel"], one.weights["policy/head/kernel"], rtol=1e-6)
    kernel, bias, targets = np.array([1.0, 1.0]), 0.0, np.array([2, 2, 4, 6])
    for row in [0, 1, 2, 3, 3, 2, 1, 0]:
        error = kernel[row % 2] + bias - targets[row]
        kernel[row % 2] -= 0.4 * error
        bias -= 0.4 * error
    np.testing.assert_allclose(two.weights["value/head/kernel"][:, 0], kernel, rtol=1e-5)
    np.testing.assert_allclose(two.weights["value/head/bias"], [bias], rtol=1e-5)


def test_advantages_are_normalised_by_default() -> None:
    assert vpg.VPGParams().normalize_advantages
    model = made("none", "tensorflow", normalize_advantages=True)
    model.set({"policy/head/kernel": POLICY})
    returns = np.array([2, 2, 3, 4])
    weighted = (returns - returns.mean()) / returns.std()
    assert model.train()["policy_loss"] == pytest.approx(-(weighted * LOG_PROB).mean(), rel=1e-5)


def test_eval_is_the_loss_of_the_networks_as_they_are() -> None:
    zeros = {"initializer": "zeros", "baseline": "value", "normalize_advantages": False, "entropy_coefficient": 0.5}
    labels = {name: tf.constant(value) for name, value in {**BATCH, "value": VALUES}.items()}
    labels["global_step"] = tf.constant(0, tf.int64)
    spec = vpg.model_fn(labels["observation"], labels, Modes.EVAL, {**PARAMS, **zeros}, CONFIG)
    # Recorded values are 1, those of the network 0: TD errors are 0, 1, 2 and 3, and the first two add up.
    weighted = np.array([0 + 0.5 * 1, 1, 2, 3])
    assert float(spec.loss) == pytest.approx(weighted.mean() * np.log(2) - 0.5 * np.log(2))
    found = {name: float(value) for name, value in (spec.eval_metric_ops or {}).items()}
    returns = weighted + 1
    expected = {"entropy": np.log(2), "policy_loss": weighted.mean() * np.log(2), "value_loss": (returns**2).mean()}
    assert found == pytest.approx(expected)


def test_without_a_baseline_there_is_no_value() -> None:
    spec = vpg.model_fn(tf.zeros((1, 2)), None, Modes.PREDICT, {"baseline": "none"}, CONFIG)
    assert set(spec.predictions or ()) == {"action", "logits"}
    assert spec.record == ()
    assert {name.partition("/")[0] for name in made("none", "tensorflow").weights if "head" in name} == {"policy"}
    spec = vpg.model_fn(tf.zeros((1, 2)), None, Modes.PREDICT, None, CONFIG)
    assert set(spec.predictions or ()) == {"action", "logits", "value"}
    assert spec.record == ("value",)


QUIET = RunConfig(seed=0, progress=False, save_checkpoints_secs=None, runtime="tensorflow")


class Overflowing(Corridor):
    """Rewards whose sum is beyond float32."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, terminated, truncated, info = super().step(action)
        return observation, 3e38, terminated, truncated, info


def test_the_error_names_advantages_that_overflow(tmp_path: Path) -> None:
    agent = Agent(vpg.model_fn, BatchMemory(16), tmp_path, QUIET, {"hidden": (), "baseline": "none"})
    with pytest.raises(NonFiniteError, match="advantage_std"):
        agent.train(Overflowing(), timesteps=100)


A2C_CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2))


def rollout(seed: int) -> dict[str, Any]:
    return {**random_rollout(np.random.default_rng(seed), (5, 2)), "log_prob": np.full((5, 2), np.log(0.5), np.float32)}


def test_it_is_ppo_with_one_step_for_each_rollout() -> None:
    """In each rollout the policy that learns is the one that acted, so that no ratio is clipped: its own are given."""
    params = {"hidden": (4,), "learning_rate": {"kind": "linear", "start": 0.01, "stop": 0.001, "duration": 3}}
    as_ppo = {**WHOLE, **params, "gae_lambda": 1.0, "entropy_coefficient": 0.01, "optimizer": "rmsprop"}
    ours = Model(a2c.model_fn, params, A2C_CONFIG, rollout(0), "tensorflow")
    theirs = Model(ppo.model_fn, as_ppo, A2C_CONFIG, rollout(0), "tensorflow")
    names = ("loss", "policy_loss", "value_loss", "entropy", "gradient_norm", "explained_variance", "learning_rate")
    for step in range(3):
        batch, before = rollout(step), ours.weights
        found, expected = (model.train(step, **batch) for model in (ours, theirs))
        assert found == {name: expected[name] for name in (*names, "td_error")}
        np.testing.assert_equal(ours.weights, theirs.weights)
        assert all((value != before[name]).any() for name, value in ours.weights.items() if "head" in name)
