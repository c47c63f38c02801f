"""IMPALA against a version in NumPy, on networks that are one matrix."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import impala
from axonrl.tests.models.executed import LINEAR, Model

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-9, 9, (2,)), action_space=spaces.Discrete(2))
PLAIN = {**LINEAR, "max_gradient_norm": None}
LENGTH, COPIES = 3, 2
RNG = np.random.default_rng(0)
TERMINATED = np.array([[0, 0], [0, 1], [0, 0]], F32)
BATCH: dict[str, Any] = {
    "observation": RNG.normal(size=(LENGTH, COPIES, 2)).astype(F32),
    "next_observation": RNG.normal(size=(LENGTH, COPIES, 2)).astype(F32),
    "action": np.array([[0, 1], [1, 1], [0, 0]], np.int32),
    "reward": np.array([[1, -1], [0.5, 2], [-2, 0]], F32),
    "terminated": TERMINATED,
    "truncated": np.array([[0, 0], [1, 0], [0, 0]], F32),
    "discount": (0.9 * (1 - TERMINATED)).astype(F32),
    "log_prob": np.log([[0.3, 0.5], [0.9, 0.2], [0.6, 0.5]]).astype(F32),
}
WEIGHTS: dict[str, Any] = {
    "policy/head/kernel": np.array([[0.5, -0.5], [0.2, 0.3]]),
    "policy/head/bias": np.array([0.1, 0.0]),
    "value/head/kernel": np.array([[0.7], [-0.4]]),
    "value/head/bias": np.array([0.2]),
}
COEFFICIENTS = {"value_coefficient": 0.7, "entropy_coefficient": 0.03}


def stepped(
    weights: dict[str, Any], rho_clip: float, c_clip: float, lambda_: float, total: bool, policy: float = 1
) -> Any:
    """Loss, and the weights after a step of gradient descent."""
    kernel, bias, value_kernel, value_bias = weights.values()
    observation = BATCH["observation"].astype(np.float64)
    logits = observation @ kernel + bias
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    one_hot = np.eye(2)[BATCH["action"]]
    log_prob = np.log((p * one_hot).sum(-1))
    ratio = np.exp(log_prob - BATCH["log_prob"])
    value = (observation @ value_kernel + value_bias)[..., 0]
    next_value = (BATCH["next_observation"] @ value_kernel + value_bias)[..., 0]
    target, advantage = np.zeros((2, LENGTH, COPIES))
    above = np.zeros(COPIES)
    for t in reversed(range(LENGTH)):
        goes_on = 1 - BATCH["truncated"][t]
        next_target = next_value[t] + goes_on * above
        advantage[t] = np.minimum(policy, ratio[t]) * (
            BATCH["reward"][t] + BATCH["discount"][t] * next_target - value[t]
        )
        td_error = np.minimum(rho_clip, ratio[t]) * (
            BATCH["reward"][t] + BATCH["discount"][t] * next_value[t] - value[t]
        )
        above = td_error + BATCH["discount"][t] * goes_on * lambda_ * np.minimum(c_clip, ratio[t]) * above
        target[t] = value[t] + above
    scale = 1 if total else 1 / value.size
    entropy = -(p * np.log(p)).sum(-1)
    losses = -log_prob * advantage + 0.7 * 0.5 * (target - value) ** 2 - 0.03 * entropy
    # Of the logits: of -log pi(a) A, and of the entropy, whose gradient is -p (log p + H).
    towards = -(one_hot - p) * advantage[..., None] + 0.03 * p * (np.log(p) + entropy[..., None])
    of_value = 0.7 * (value - target)[..., None]
    rows = observation.reshape(-1, 2)
    towards, of_value = scale * towards.reshape(-1, 2), scale * of_value.reshape(-1, 1)
    gradients = [rows.T @ towards, towards.sum(0), rows.T @ of_value, of_value.sum(0)]
    after = {name: old - 0.1 * new for (name, old), new in zip(weights.items(), gradients, strict=True)}
    return scale * losses.sum(), after, ratio


def made(runtime: str, **params: Any) -> Model:
    return Model(impala.model_fn, {**PLAIN, **COEFFICIENTS, **params}, CONFIG, BATCH, runtime)


def test_an_update_in_numpy() -> None:
    model = made("litert")
    model.set(WEIGHTS)
    result = model.train()
    loss, after, ratio = stepped(WEIGHTS, 1, 1, 1, total=False)
    assert result["loss"] == pytest.approx(loss, rel=1e-5)
    assert result["ratio_mean"] == pytest.approx(ratio.mean(), rel=1e-5)
    assert result["clip_fraction"] == pytest.approx((ratio > 1).mean())
    assert 0 < result["clip_fraction"] < 1
    assert result["kl"] == pytest.approx((ratio - 1 - np.log(ratio)).mean(), rel=1e-4)
    model.check(after, 1e-4, 1e-6)


def test_clips_lambda_and_sums() -> None:
    model = made("tensorflow", rho_clip=None, c_clip=0.8, trace_lambda=0.5, reduction="sum")
    model.set(WEIGHTS)
    assert model.train()["clip_fraction"] == 0
    _, after, _ = stepped(WEIGHTS, np.inf, 0.8, 0.5, total=True)
    model.check(after, 1e-4, 1e-6)


def test_every_step_on_a_rollout_has_targets_of_its_own() -> None:
    model = made("tensorflow", epochs=2, policy_rho_clip=None)
    model.set(WEIGHTS)
    result = model.train()
    first, between, _ = stepped(WEIGHTS, 1, 1, 1, total=False, policy=np.inf)
    second, after, _ = stepped(between, 1, 1, 1, total=False, policy=np.inf)
    assert result["loss"] == pytest.approx((first + second) / 2, rel=1e-5)
    model.check(after, 1e-4, 1e-6)
