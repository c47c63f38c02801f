"""IQL against its paper's losses in NumPy, on networks that are one matrix: Q(s, a) = [s a] w + b, V(s) = w s + b."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import iql
from axonrl.tests.models.executed import LINEAR, traced, transitions

F32 = np.float32
SEEN, NEXT_SEEN = np.array([1.0, 2, -1]), np.array([2.0, 3, -2])
REWARD, DISCOUNT, WEIGHT = np.array([1, -1, 0.5]), np.array([0.5, 0, 0.9]), np.array([1, 0.5, 0.25])
PARAMS = {**LINEAR, "expectile": 0.8, "inverse_temperature": 2.0, "target_update_rate": 0.25, "max_gradient_norm": 1e9}
VALUE = np.array([0.3, -0.2])
ONES = np.ones(3)


def updated(space: Any, action: Any, inputs: Any, actor: dict[str, Any]) -> tuple[Any, dict[str, Any], Any]:
    """A model after one update in LiteRT, its results, and the weights 1[..] exp(beta (Q - V)) [B] of imitation.

    Critics and value, their metrics and weights are checked here; ``inputs`` [B, A] are actions as critics see them.
    """
    config = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=space)
    seen, following = SEEN[:, None].astype(F32), NEXT_SEEN[:, None].astype(F32)
    batch = transitions(seen, action, REWARD, DISCOUNT, next_observation=following, weight=WEIGHT)
    model = traced(iql.model_fn, PARAMS, config, batch, "litert")
    rng = np.random.default_rng(0)
    size = 1 + inputs.shape[1]
    critics, targets = (rng.normal(size=(2, size + 1)) for _ in range(2))
    named: dict[str, Any] = {"value/value/kernel": VALUE[0], "value/value/bias": VALUE[1], **actor}
    for i in (0, 1):
        named |= {f"critic{i + 1}/q_value/kernel": critics[i, :-1], f"critic{i + 1}/q_value/bias": critics[i, -1]}
        named |= {f"target{i + 1}/q_value/kernel": targets[i, :-1], f"target{i + 1}/q_value/bias": targets[i, -1]}
    model.set(named)
    found = model.train()
    of_critics = np.column_stack([SEEN, inputs, ONES])  # [B, size + 1]
    targets = 0.25 * critics + 0.75 * targets
    lowest = (targets @ of_critics.T).min(axis=0)
    of_value = np.array([SEEN, ONES])
    u = lowest - VALUE @ of_value
    share = np.where(u < 0, 0.2, 0.8)
    by_value = -(WEIGHT * share * 2 * u * of_value).mean(axis=1)
    value = VALUE - 0.1 * by_value
    q_values = critics @ of_critics.T  # [2, B]
    errors = REWARD + DISCOUNT * (value @ np.array([NEXT_SEEN, ONES])) - q_values
    by_critics = -(WEIGHT * errors)[:, :, None] * of_critics / 3
    numbers = {
        "loss": np.mean(WEIGHT * (errors**2 / 2).sum(axis=0)),
        "value_loss": np.mean(WEIGHT * share * u**2),
        "q_mean": q_values.mean(),
        "learning_rate": 0.1,
        "value_gradient_norm": np.linalg.norm(by_value),
        "critic_gradient_norm": np.linalg.norm(by_critics.sum(axis=1)),
    }
    np.testing.assert_allclose(found.pop("td_error"), errors.mean(axis=0), rtol=1e-5)
    assert {name: found.pop(name) for name in numbers} == pytest.approx(numbers, rel=1e-5)
    after = critics - 0.1 * by_critics.sum(axis=1)
    named = {"value/value/kernel": value[0], "value/value/bias": value[1]}
    for i in (0, 1):
        named |= {f"critic{i + 1}/q_value/kernel": after[i, :-1], f"critic{i + 1}/q_value/bias": after[i, -1]}
    model.check(named)
    return model, found, np.minimum(np.exp(2 * (lowest - value @ of_value)), 100)


def test_one_update_for_a_box_by_hand() -> None:
    action = np.array([[1], [3], [2]], F32)
    names = ("policy/head/kernel", "policy/head/bias", "policy/log_std")
    actor = dict(zip(names, (0.5, 1.0, -0.5), strict=True))
    model, found, weight = updated(spaces.Box(0, 4, (1,)), action, action / 2 - 1, actor)
    z = (action[:, 0] - (0.5 * SEEN + 1.0)) / np.exp(-0.5)  # mean and deviation are in the environment's units
    log_prob = -(z**2) / 2 + 0.5 - np.log(2 * np.pi) / 2
    by = -(WEIGHT * weight * np.array([z * SEEN / np.exp(-0.5), z / np.exp(-0.5), z**2 - 1])).mean(axis=1)
    wanted = {"actor_loss": -np.mean(WEIGHT * weight * log_prob), "actor_gradient_norm": np.linalg.norm(by)}
    assert found == pytest.approx(wanted, rel=1e-5)
    model.check({name: actor[name] - 0.1 * step for name, step in zip(names, by, strict=True)})


def test_one_update_for_discrete_actions_by_hand() -> None:
    kernel, bias = np.array([0.5, -0.5]), np.array([0.1, 0.2])
    actor = {"policy/head/kernel": kernel, "policy/head/bias": bias}
    one_hot = np.array([[1.0, 0], [0, 1], [0, 1]])
    model, found, weight = updated(spaces.Discrete(2, start=5), np.array([5, 6, 6], np.int32), one_hot, actor)
    logits = SEEN[:, None] * kernel + bias
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    by_logits = (WEIGHT * weight)[:, None] * (p - one_hot) / 3
    by_kernel, by_bias = SEEN @ by_logits, by_logits.sum(axis=0)
    wanted = {
        "actor_loss": -np.mean(WEIGHT * weight * np.log((p * one_hot).sum(axis=1))),
        "actor_gradient_norm": np.linalg.norm([by_kernel, by_bias]),
    }
    assert found == pytest.approx(wanted, rel=1e-5)
    model.check({"policy/head/kernel": kernel - 0.1 * by_kernel, "policy/head/bias": bias - 0.1 * by_bias})


def test_critics_and_value_see_images_through_convolutions() -> None:
    space, action = spaces.Box(0, 4, (1,)), np.array([[1], [3]], F32)  # -0.5 and 0.5 for the critics
    config = RunConfig(observation_space=spaces.Box(0, 255, (3, 3, 1), np.uint8), action_space=space)
    image = np.full((2, 3, 3, 1), 51, np.uint8)  # 0.2 after encoding
    image[1] = 0
    batch = transitions(image, action, [1, -1], [0.5, 0])
    model = traced(iql.model_fn, {**PARAMS, "network": "minatar_cnn"}, config, batch, "tensorflow")
    filters = np.zeros((3, 3, 1, 16))
    filters[..., 0] = 0.5  # the feature is 9 * 0.2 * 0.5 = 0.9, or 0
    of_feature, of_both = np.eye(16)[0], np.eye(17)[0] + np.eye(17)[16]
    weights = {"value/minatar_cnn/convolution1/kernel": filters, "value/value/kernel": of_feature}
    for i in (1, 2):
        weights |= {f"critic{i}/part1_convolution1/kernel": filters, f"critic{i}/q_value/kernel": i * of_both}
        weights |= {f"target{i}/part1_convolution1/kernel": filters, f"target{i}/q_value/kernel": i * of_both}
    model.set(weights)
    found = model.train()
    # Q = i (feature + action) = i (0.4, 0.5); V = (0.9, 0), so that u = (-0.5, 0.5).
    assert found["q_mean"] == pytest.approx(1.5 * 0.45)
    assert found["value_loss"] == pytest.approx((0.2 + 0.8) * 0.25 / 2)
