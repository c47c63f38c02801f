"""TRPO against a version in NumPy, on networks that are one matrix."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Modes, RunConfig
from axonrl.models import trpo
from axonrl.tests.models.executed import WHOLE, Model, traced

F32 = np.float32
ROWS = 12
COMPOSITE = spaces.Dict(
    {
        "arm": spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary((2, 1)), spaces.Box(-1, 1, (1,))]),
        "gear": spaces.Discrete(3, start=5),
        "keys": spaces.MultiDiscrete([2, 3]),
    }
)
SPACES = {"Discrete": spaces.Discrete(3), "Box": spaces.Box(-1, 1, (2,))}
WEIGHTS: dict[str, dict[str, Any]] = {
    "Discrete": {"kernel": [[0.5, -0.5, 0.1], [0.2, 0.3, -0.7]], "bias": [0.1, 0.0, -0.2]},
    "Box": {"kernel": [[0.5, -0.5], [0.2, 0.3]], "bias": [0.1, -0.2], "log_std": [-0.5, 0.3]},
}
FAR = {"max_kl": 0.5, "damping": 0.05, "line_search_shrink": 0.7, "cg_iterations": 12}
SEEDS = {"Discrete": 31, "Box": 5}
"""Of rollouts whose full step leads too far: beyond the region, or to where the objective is lower."""
VALUE = np.array([0.7, -0.4, 0.2])  # kernel and bias


def batch(kind: str, **changes: Any) -> dict[str, Any]:
    """A rollout [12, 1], of which every timestep is an episode."""
    rng = np.random.default_rng(SEEDS[kind])
    rows: dict[str, Any] = {name: rng.normal(size=(ROWS, 1)).astype(F32) for name in ("reward", "value")}
    rows |= {name: np.zeros((ROWS, 1), F32) for name in ("discount", "truncated")}
    rows["observation"] = rows["next_observation"] = rng.normal(size=(ROWS, 1, 2)).astype(F32)
    action = rng.integers(3, size=(ROWS, 1), dtype=np.int32)
    rows |= {"action": action if kind == "Discrete" else rng.normal(size=(ROWS, 1, 2)).astype(F32)}
    return {**rows, "terminated": np.ones((ROWS, 1), F32), **changes}


def prepared(kind: str, runtime: str = "tensorflow", **params: Any) -> Model:
    config = RunConfig(observation_space=spaces.Box(-9, 9, (2,)), action_space=SPACES[kind])
    model = traced(trpo.model_fn, {**WHOLE, **params}, config, batch(kind), runtime)
    policy = {f"policy/{name if name == 'log_std' else f'head/{name}'}": v for name, v in WEIGHTS[kind].items()}
    model.set({**policy, "value/head/kernel": VALUE[:2], "value/head/bias": VALUE[2:]})
    return model


def policy_of(model: Model) -> Any:
    return np.concatenate([value.ravel() for name, value in model.weights.items() if name.startswith("policy")])


class NumPyTRPO:
    """The policy of one matrix, with its Fisher information written out. Weights: kernel, bias, log_std of a Box."""

    def __init__(self, kind: str, rows: Mapping[str, Any]) -> None:
        self.discrete = kind == "Discrete"
        self.action = rows["action"][:, 0] if self.discrete else rows["action"][:, 0].astype(float)
        self.advantage = (rows["reward"] - rows["value"])[:, 0].astype(float)
        observation = rows["observation"][:, 0].astype(float)
        self.inputs = np.concatenate([observation, np.ones((ROWS, 1))], axis=1)  # [B, 3]
        self.outputs = 3 if self.discrete else 2

    def described(self, weights: Any) -> tuple[Any, Any]:
        matrix, log_std = np.split(np.asarray(weights, float), [3 * self.outputs])
        return self.inputs @ matrix.reshape(3, self.outputs), log_std

    def log_prob(self, weights: Any) -> Any:
        mean, log_std = self.described(weights)
        if self.discrete:
            return log_softmax(mean)[np.arange(ROWS), self.action]
        z = (self.action - mean) / np.exp(log_std)
        return (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)

    def kl(self, old: Any, new: Any) -> float:
        (mean, log_std), (other, other_log_std) = self.described(old), self.described(new)
        if self.discrete:
            one, two = log_softmax(mean), log_softmax(other)
            return float((np.exp(one) * (one - two)).sum(1).mean())
        variance, other_variance = np.exp(2 * log_std), np.exp(2 * other_log_std)
        each = other_log_std - log_std + (variance + (mean - other) ** 2) / (2 * other_variance) - 0.5
        return float(each.sum(1).mean())

    def gradient_and_fisher(self, weights: Any) -> tuple[Any, Any]:
        """Gradient of mean(A log pi), and the mean of the Fisher information of each row."""
        mean, log_std = self.described(weights)
        size = len(weights)
        gradient, fisher = np.zeros(size), np.zeros((size, size))
        for i in range(ROWS):
            by_weights: Any = np.zeros((self.outputs, size))  # the derivatives of this row's logits or means
            for k in range(self.outputs):
                by_weights[k, k : 3 * self.outputs : self.outputs] = self.inputs[i]
            if self.discrete:
                p = np.exp(log_softmax(mean[i]))
                score = np.eye(3)[self.action[i]] - p
                information = np.diag(p) - np.outer(p, p)
            else:
                by_weights = np.concatenate([by_weights, np.eye(size)[-2:]])
                z = (self.action[i] - mean[i]) / np.exp(log_std)
                score = np.concatenate([z / np.exp(log_std), z**2 - 1])
                information = np.diag([*np.exp(-2 * log_std), 2, 2])
            gradient += self.advantage[i] * by_weights.T @ score / ROWS
            fisher += by_weights.T @ information @ by_weights / ROWS
        return gradient, fisher

    def update(self, weights: Any, max_kl: float, damping: float, shrink: float) -> tuple[Any, float, float, float]:
        """The weights after a step, its fraction, the gain of the surrogate objective, and the divergence."""
        gradient, fisher = self.gradient_and_fisher(weights)
        damped = fisher + damping * np.eye(len(weights))
        direction = np.linalg.solve(damped, gradient)
        step = np.sqrt(2 * max_kl / (direction @ damped @ direction)) * direction
        for fraction in shrink ** np.arange(10):
            new = weights + fraction * step
            ratio = np.exp(self.log_prob(new) - self.log_prob(weights))
            gain, kl = ((ratio - 1) * self.advantage).mean(), self.kl(weights, new)
            if gain > 0 and kl <= max_kl:
                return new, fraction, gain, kl
        raise AssertionError


def log_softmax(logits: Any) -> Any:
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize(("kind", "runtime"), [("Discrete", "tensorflow"), ("Box", "litert")])
def test_an_update_in_numpy(kind: str, runtime: str) -> None:
    rows = batch(kind)
    model = prepared(kind, runtime, **FAR)
    before = policy_of(model)
    result = model.train()
    reference = NumPyTRPO(kind, rows)
    expected, fraction, gain, kl = reference.update(before, FAR["max_kl"], FAR["damping"], 0.7)
    assert fraction < 1
    np.testing.assert_allclose(policy_of(model), expected, rtol=1e-3, atol=1e-4)
    assert result["step_fraction"] == pytest.approx(fraction, rel=1e-5)
    assert result["policy_loss"] == pytest.approx(-gain, rel=1e-3)
    assert result["kl"] == pytest.approx(kl, rel=1e-3)
    assert result["kl"] <= FAR["max_kl"]
    # The value: a step of gradient descent on mean((v - return)^2); every return is the reward.
    error = reference.inputs @ VALUE - rows["reward"][:, 0]
    after = np.concatenate([model.weights["value/head/kernel"].ravel(), model.weights["value/head/bias"]])
    np.testing.assert_allclose(after, VALUE - 0.1 * 2 * reference.inputs.T @ error / ROWS, rtol=1e-4)
    assert result["value_loss"] == pytest.approx((error**2).mean(), rel=1e-4)
    assert result["loss"] == pytest.approx(result["policy_loss"] + result["value_loss"])


ONCE = {**FAR, "line_search_steps": 1}
SEVENS = np.full((ROWS, 1), 7, F32)


@pytest.mark.parametrize(
    ("params", "changes", "runtime"),
    [
        (ONCE, {}, "tensorflow"),  # the only step that is tried is too long
        (ONCE, {"reward": SEVENS, "value": SEVENS}, "litert"),  # every advantage is 0
        ({**ONCE, "normalize_advantages": True}, {"reward": SEVENS, "value": SEVENS / 7}, "tensorflow"),  # becomes 0
        (ONCE, {"reward": SEVENS * F32(np.nan)}, "litert"),
        (ONCE, {"reward": SEVENS * F32(4e37)}, "tensorflow"),  # whose square is infinite
    ],
)
def test_a_search_that_finds_nothing_keeps_the_policy_and_says_so(params: Any, changes: Any, runtime: str) -> None:
    model = prepared("Discrete", runtime, **params)
    before, value = policy_of(model), model.weights["value/head/bias"]
    result = model.train(**changes)
    assert policy_of(model).tobytes() == before.tobytes()
    assert result["step_fraction"] == 0
    assert model.weights["value/head/bias"] != value  # it is fitted all the same
    if np.abs(changes.get("reward", SEVENS)).max() == 7:
        assert (result["policy_loss"], result["kl"]) == (0, 0)
        assert all(np.isfinite(value) for value in result.values() if value is not None)
    else:
        assert not np.isfinite([result["loss"], result["advantage_std"]]).any()


def test_eval_is_the_error_of_the_value() -> None:
    labels = {name: tf.constant(value) for name, value in batch("Box").items()}
    config = RunConfig(observation_space=spaces.Box(-9, 9, (2,)), action_space=SPACES["Box"])
    params = {**WHOLE, "initializer": "zeros"}
    spec = trpo.model_fn(labels["observation"], labels, Modes.EVAL, params, config)
    assert float(spec.loss) == pytest.approx(np.square(batch("Box")["reward"]).mean())
    assert {name: float(value) for name, value in (spec.eval_metric_ops or {}).items()} == pytest.approx(
        {"value_loss": float(spec.loss), "entropy": 1 + np.log(2 * np.pi)}
    )


SMALL_STEP = {"max_kl": 1e-3, "damping": 1e-5, "line_search_shrink": 0.97, "epochs": 1, "minibatch_size": None}
"""The divergence is that of its second derivative here, and the step so long that it is max_kl."""


def rollout(length: int, copies: int, observation: Any, action: Any) -> dict[str, Any]:
    """A rollout of random rewards, for observations and actions [T, N, ...]."""
    rng = np.random.default_rng(0)
    rows = {name: np.zeros((length, copies), F32) for name in ("discount", "truncated", "terminated", "value")}
    rows |= {"observation": observation, "next_observation": observation, "action": action}
    return {**rows, "reward": rng.normal(size=(length, copies)).astype(F32)}


def small_step(space: Any, rows: dict[str, Any], runtime: str, **params: Any) -> tuple[Any, Any]:
    """The weights before and after an update, whose divergence must be what was asked for."""
    size = rows["observation"].shape[-1]
    config = RunConfig(observation_space=spaces.Box(-9, 9, (size,)), action_space=space)
    model = Model(trpo.model_fn, {**SMALL_STEP, "initializer": "he_normal", **params}, config, rows, runtime)
    before = model.weights
    result = model.train()
    assert 0.9e-3 < result["kl"] <= 1e-3
    assert result["policy_loss"] < -0.01
    return before, model.weights


def test_the_step_is_as_long_as_it_may_be_whatever_the_actions() -> None:
    """All kinds of actions together, behind a hidden layer."""
    rng = np.random.default_rng(0)
    action = {
        "arm/0": rng.normal(size=(32, 1, 2)).astype(F32),
        "arm/1": rng.integers(2, size=(32, 1, 2, 1)).astype(np.int8),
        "arm/2": rng.normal(size=(32, 1, 1)).astype(F32),
        "gear": rng.integers(5, 8, size=(32, 1)).astype(np.int32),
        "keys": rng.integers(2, size=(32, 1, 2)).astype(np.int32),
    }
    rows = rollout(32, 1, rng.normal(size=(32, 1, 3)).astype(F32), action)
    before, after = small_step(COMPOSITE, rows, "litert", hidden=(8,))
    assert [name for name in after if name.startswith("policy") and (after[name] == before[name]).any()] == []


def test_the_step_is_as_long_through_an_lstm() -> None:
    rng = np.random.default_rng(2)  # whose first step is not refused
    rows = rollout(4, 3, rng.normal(size=(4, 3, 2)).astype(F32), rng.integers(3, size=(4, 3), dtype=np.int32))
    rows["terminated"][2, 1] = 1
    names = ("hidden", "cell", "value_hidden", "value_cell")
    rows["state"] = {name: rng.normal(size=(4, 3, 2)).astype(F32) for name in names}
    before, after = small_step(SPACES["Discrete"], rows, "tensorflow", hidden=(), lstm=2, sequence_length=2)
    kernel = "policy/lstm/recurrent_kernel"
    assert np.abs(after[kernel] - before[kernel]).max() > 1e-4
