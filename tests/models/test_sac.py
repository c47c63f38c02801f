"""SAC against numbers worked out by hand, on networks that are one matrix: Q(s, a) = [s a] w + b."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Agent, RunConfig, noise
from axonrl.core.protocols import Modes
from axonrl.explorations.squashed import SquashedGaussian
from axonrl.memories import ReplayMemory
from axonrl.models import sac
from axonrl.tests.models.bandits import SteepBandit
from axonrl.tests.models.executed import LINEAR, Model, layers, traced, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(0, 4, (1,)))
# Actions are -0.5 and 0.5 in -1 .. 1
BATCH = transitions(
    np.array([[1], [2]], F32),
    np.array([[1], [3]], F32),
    [1, -1],
    next_observation=np.array([[2], [3]], F32),
    weight=[1, 0.25],
)
NOISE = [np.array([[0.5], [-1.0]], F32), np.array([[1.0], [0.2]], F32)]  # the actor's, the next action's
ACTOR = {"mean/kernel": 0.25, "mean/bias": -0.5, "log_std/kernel": 0.1, "log_std/bias": -0.7}
CRITICS = {  # by observation, by action, bias
    "critic1": [0.5, 2.0, 0.1],
    "critic2": [0.4, 1.0, 0.3],
    "target1": [0.3, -1.0, 0.0],
    "target2": [0.2, 0.5, 0.2],
}
ALPHA = 0.5


def critic_weights(values: dict[str, Any]) -> dict[str, Any]:
    return layers({f"{name}/q_value": (value[:-1], value[-1]) for name, value in values.items()})


def linear(runtime: str = "tensorflow", **params: Any) -> Model:
    """All its networks hold ACTOR and CRITICS. Equal ones share a trace: plain SGD has no memory."""
    model = traced(sac.model_fn, {**LINEAR, **params}, CONFIG, BATCH, runtime)
    weights = {f"actor/{name}": value for name, value in ACTOR.items()} | critic_weights(CRITICS)
    model.set(weights if "temperature" in params else {**weights, "log_temperature": np.log(ALPHA)})
    return model


class ByHand:
    """One update of LINEAR in float64: gradients from paper and pencil, no automatic differentiation."""

    def __init__(self, alpha: float = ALPHA, rate: float = 0.005, lr: float = 0.1) -> None:
        weight = BATCH["weight"]
        s, a = BATCH["observation"][:, 0], np.array([-0.5, 0.5])
        w = {name: np.array(value) for name, value in CRITICS.items()}
        for i in (1, 2):
            w[f"target{i}"] = w[f"target{i}"] + rate * (w[f"critic{i}"] - w[f"target{i}"])
        u, _, log_prob = self.act(BATCH["next_observation"][:, 0], NOISE[1][:, 0])
        value = np.minimum(*[self.q(w[f"target{i}"], np.array([2, 3]), np.tanh(u)) for i in (1, 2)])
        target = BATCH["reward"] + BATCH["discount"] * (value - alpha * log_prob)
        q_values = [self.q(w[f"critic{i}"], s, a) for i in (1, 2)]
        errors = [target - q for q in q_values]
        self.q_mean = np.mean(q_values)
        self.td_error = np.mean(errors, axis=0)
        self.critic_loss = np.mean(weight * (errors[0] ** 2 + errors[1] ** 2) / 2)
        # d (weight e^2 / 2) / d (w_s, w_a, b) is -weight e (s, a, 1).
        for i, error in enumerate(errors, start=1):
            w[f"critic{i}"] = w[f"critic{i}"] + lr * np.mean(weight * error * np.array([s, a, np.ones(2)]), axis=1)
        self.critics = w
        u, std, log_prob = self.act(s, NOISE[0][:, 0])
        action = np.tanh(u)
        values = [self.q(w[f"critic{i}"], s, action) for i in (1, 2)]
        self.actor_loss = np.mean(alpha * log_prob - np.minimum(*values))
        self.entropy = -np.mean(log_prob)
        slope = np.where(values[0] < values[1], w["critic1"][1], w["critic2"][1])  # d min Q / d a
        # log p = -noise^2 / 2 - log_std - log(1 - tanh(u)^2) + constant; its derivative by u is 2 tanh(u).
        by_u = alpha * 2 * action - slope * (1 - action**2)
        by_log_std = -alpha + by_u * std * NOISE[0][:, 0]
        gradients = np.array([by_u * s, by_u, by_log_std * s, by_log_std]).mean(axis=1)
        self.actor = {name: value - lr * g for (name, value), g in zip(ACTOR.items(), gradients, strict=True)}
        self.log_temperature = np.log(alpha) - lr * (self.entropy - (-1)) if alpha else None  # one component: -1

    @staticmethod
    def act(s: Any, z: Any) -> tuple[Any, Any, Any]:
        std = np.exp(0.1 * s - 0.7)
        u = 0.25 * s - 0.5 + std * z
        log_prob = -(z**2) / 2 - np.log(std) - np.log(2 * np.pi) / 2 - np.log(1 - np.tanh(u) ** 2)
        return u, std, log_prob

    @staticmethod
    def q(w: Any, s: Any, a: Any) -> Any:
        return w[0] * s + w[1] * a + w[2]


def check(model: Model, result: dict[str, Any], expected: ByHand) -> None:
    assert result["loss"] == pytest.approx(expected.critic_loss, rel=1e-5)
    assert result["actor_loss"] == pytest.approx(expected.actor_loss, rel=1e-5)
    assert result["entropy"] == pytest.approx(expected.entropy, rel=1e-5)
    assert result["q_mean"] == pytest.approx(expected.q_mean, rel=1e-5)
    np.testing.assert_allclose(result["td_error"], expected.td_error, rtol=1e-5)
    model.check(critic_weights(expected.critics) | {f"actor/{name}": value for name, value in expected.actor.items()})


def test_one_update_by_hand() -> None:
    model = linear("litert")
    result = model.train(1, NOISE)
    expected = ByHand()
    check(model, result, expected)
    assert result["temperature"] == pytest.approx(ALPHA)  # the one that was used
    assert result["learning_rate"] == pytest.approx(0.1)
    assert model.weights["log_temperature"] == pytest.approx(expected.log_temperature)


def test_a_fixed_temperature_is_no_variable() -> None:
    model = linear(temperature=0.0)
    assert "log_temperature" not in model.weights
    result = model.train(1, NOISE)
    check(model, result, ByHand(alpha=0.0))
    assert result["temperature"] == 0


def test_targets_begin_as_copies_and_follow_at_their_rate() -> None:
    model = linear(target_update_rate=0.25)
    model.train(0, NOISE)
    weights = critic_weights({f"target{i}": CRITICS[f"critic{i}"] for i in (1, 2)})
    model.check(weights, 1e-6)
    critics = {name: value for name, value in model.weights.items() if name.startswith("critic")}
    model.train(1, NOISE)
    for name, value in critics.items():
        theirs = weights[name.replace("critic", "target")]
        expected = 0.75 * np.ravel(theirs) + 0.25 * value.ravel()
        np.testing.assert_allclose(model.weights[name.replace("critic", "target")].ravel(), expected, rtol=1e-5)


def test_the_temperature_begins_where_it_is_told() -> None:
    model = traced(sac.model_fn, {**LINEAR, "initial_temperature": 0.2}, CONFIG, BATCH)
    assert model.weights["log_temperature"] == pytest.approx(np.log(0.2))
    assert sac.SACParams().initial_temperature == 1


def test_predictions_are_greedy_in_the_environments_units() -> None:
    model = linear()
    predictions, _ = model.executor.act(np.array([[1], [40]], F32))
    np.testing.assert_allclose(predictions["mean"], [[-0.25], [9.5]])
    np.testing.assert_allclose(predictions["log_std"], [[-0.6], [2.0]], rtol=1e-6)  # 3.3, clipped
    np.testing.assert_allclose(predictions["action"], [[2 + 2 * np.tanh(-0.25)], [4.0]], rtol=1e-6)
    low, _ = model.executor.act(np.array([[-1000]], F32))
    assert low["log_std"].tolist() == [[-20.0]]


def test_predict_has_the_actor_only_and_records_nothing() -> None:
    model = linear()
    assert list(model.program.store.predict_variables()) == [
        "0000.actor/mean/kernel",
        "0001.actor/mean/bias",
        "0002.actor/log_std/kernel",
        "0003.actor/log_std/bias",
    ]
    assert isinstance(model.program.predict.exploration, SquashedGaussian)
    assert model.program.predict.record == ()
    order = [name.partition(".")[2].partition("/")[0] for name in model.program.store.variables()]
    assert list(dict.fromkeys(order))[:6] == ["actor", "critic1", "critic2", "target1", "target2", "log_temperature"]
    assert [request.shape for request in model.train_program.noise] == [(2, 1), (2, 1)]


def test_eval_is_the_critics_loss() -> None:
    draws = iter(tf.constant(z) for z in NOISE)
    labels = {name: tf.constant(value) for name, value in BATCH.items() if name != "observation"}
    params = {**LINEAR, "initializer": "zeros", "initial_temperature": ALPHA}
    with noise.supplying(lambda request: next(draws)):
        spec = sac.model_fn(tf.constant(BATCH["observation"]), labels, Modes.EVAL, params, CONFIG)
    # All Q are 0, mean 0, std 1: the first target is 1 - 0.5 * alpha * log p of u = 1, the second -1.
    log_prob = -0.5 - np.log(2 * np.pi) / 2 - np.log(1 - np.tanh(1.0) ** 2)
    expected = np.mean([(1 - 0.5 * ALPHA * log_prob) ** 2, 0.25])  # half the square, twice; weights 1 and 0.25
    assert spec.loss.numpy() == pytest.approx(expected, rel=1e-6)
    assert spec.train_op is None
    assert spec.metrics == {}


@pytest.mark.learning
def test_it_finds_the_best_action_and_keeps_the_target_entropy(tmp_path: Path) -> None:
    params = {"hidden": (32, 32), "learning_rate": 5e-3, "target_update_rate": 0.05, "target_entropy": -0.5}
    agent = Agent(sac.model_fn, ReplayMemory(2000, 64), tmp_path, RunConfig(seed=1, runtime="tensorflow"), params)
    agent.train(SteepBandit(), first_update=64, update_frequency=1, max_timesteps=1500)
    predictions = agent.predict(np.array([[-1], [1]], F32))
    np.testing.assert_allclose(predictions["action"], [[0], [2]], atol=0.15)
    rng = np.random.default_rng(0)
    u = predictions["mean"] + np.exp(predictions["log_std"]) * rng.standard_normal((2, 20_000)).astype(F32)
    log_prob = -0.5 * ((u - predictions["mean"]) / np.exp(predictions["log_std"])) ** 2 - predictions["log_std"]
    entropy = -np.mean(log_prob - np.log(2 * np.pi) / 2 - np.log(1 - np.tanh(u) ** 2))
    assert entropy == pytest.approx(-0.5, abs=0.3)  # a wrong sign of the temperature leads to -20 or to log 2
