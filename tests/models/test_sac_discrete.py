"""SAC with Discrete actions against the paper's equations in NumPy, on networks that are one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.explorations import Categorical
from axonrl.models import sac
from axonrl.tests.models.executed import LINEAR, Model, layers, traced, transitions

F32 = np.float32
THREE = spaces.Discrete(3, start=5)
SPACE = spaces.Box(-10, 10, (1,))
MASKED_SPACE = spaces.Dict({"action_mask": spaces.MultiBinary(3), "x": SPACE})
SEEN, NEXT_SEEN = np.array([1, 2, -1, 0.5]), np.array([2, 3, 1, -2.0])
MASK = np.array([[1, 1, 1], [1, 1, 0], [0, 1, 1], [0, 0, 1]])
NEXT_MASK = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])  # the second one is terminal
ACTION = np.array([0, 1, 2, 2])
REWARD, DISCOUNT, WEIGHT = np.array([1, -1, 2, 0.5]), np.array([0.5, 0, 0.9, 0.8]), np.array([1, 0.5, 0.25, 0.75])
ALPHA = 0.5
WEIGHTS: dict[str, Any] = {  # kernel of the only input, bias
    "actor/logits": [[0.5, -0.2, 0.1], [0.1, 0.0, -0.3]],
    "critic1/q_values": [[0.3, -0.4, 0.6], [0.2, 0.5, -0.1]],
    "critic2/q_values": [[0.5, -0.1, 0.2], [-0.2, 0.4, 0.3]],
    "target1/q_values": [[0.1, 0.2, -0.3], [0.0, 0.1, 0.2]],
    "target2/q_values": [[-0.2, 0.3, 0.1], [0.3, 0.0, -0.1]],
}


def batch(masked: bool) -> dict[str, Any]:
    def observation(seen: Any, mask: Any) -> Any:
        x = seen.astype(F32)[:, None]
        return {"action_mask": mask.astype(np.int8), "x": x} if masked else x

    seen, next_seen = observation(SEEN, MASK), observation(NEXT_SEEN, NEXT_MASK)
    action = (ACTION + 5).astype(np.int32)
    return transitions(seen, action, REWARD, DISCOUNT, next_observation=next_seen, weight=WEIGHT)


def linear(runtime: str = "tensorflow", masked: bool = False, **params: Any) -> Model:
    """Its networks hold WEIGHTS. Equal ones share a trace: plain SGD has no memory."""
    config = RunConfig(observation_space=MASKED_SPACE if masked else SPACE, action_space=THREE)
    model = traced(sac.model_fn, {**LINEAR, **params}, config, batch(masked), runtime)
    model.set({**layers(WEIGHTS), "log_temperature": np.log(ALPHA)})
    return model


def policy(seen: Any, mask: Any, actor: Any) -> tuple[Any, Any]:
    """Probabilities and their logarithms, 0 for what is illegal."""
    logits = np.outer(seen, actor[0]) + actor[1]
    weights = np.exp(logits) * mask
    p = weights / np.maximum(weights.sum(1, keepdims=True), 1e-300)
    return p, np.log(np.where(p > 0, p, 1))


class ByHand:
    """One update in float64; gradients from paper and pencil, no automatic differentiation.

    Of some rows of the batch, after the update ``before`` if there is one.
    """

    weights: dict[str, Any]
    log_temperature: Any

    def __init__(self, masked: bool, rows: Any = slice(None), before: ByHand | None = None) -> None:
        rate, lr, share = 0.005, 0.1, 0.7
        w: dict[str, Any] = (
            before.weights if before else {name.partition("/")[0]: np.array(value) for name, value in WEIGHTS.items()}
        )
        alpha: Any = np.exp(before.log_temperature) if before else ALPHA
        seen, next_seen, action, reward, discount, weight = (
            values[rows] for values in (SEEN, NEXT_SEEN, ACTION, REWARD, DISCOUNT, WEIGHT)
        )
        mask, next_mask = (MASK[rows], NEXT_MASK[rows]) if masked else (np.ones((len(seen), 3)),) * 2
        w |= {f"target{i}": w[f"target{i}"] + rate * (w[f"critic{i}"] - w[f"target{i}"]) for i in "12"}
        p, log_p = policy(next_seen, next_mask, w["actor"])
        lowest = np.minimum(*(np.outer(next_seen, w[f"target{i}"][0]) + w[f"target{i}"][1] for i in "12"))
        target = reward + discount * (p * (lowest - alpha * log_p)).sum(1)  # equation 10
        taken = np.eye(3)[action]
        q_values = [(np.outer(seen, w[f"critic{i}"][0]) + w[f"critic{i}"][1]) for i in "12"]
        errors = [target - (q * taken).sum(1) for q in q_values]
        self.td_error = np.mean(errors, axis=0)
        self.critic_loss = np.mean(weight * (errors[0] ** 2 + errors[1] ** 2) / 2)
        self.q_mean = np.mean([(q * taken).sum(1) for q in q_values])
        for i, error in zip("12", errors, strict=True):
            by_value = -(weight * error)[:, None] * taken / len(seen)
            w[f"critic{i}"] = w[f"critic{i}"] - lr * np.array([seen @ by_value, by_value.sum(0)])
        p, log_p = policy(seen, mask, w["actor"])
        lowest = np.minimum(*(np.outer(seen, w[f"critic{i}"][0]) + w[f"critic{i}"][1] for i in "12"))
        cost = alpha * log_p - lowest
        self.actor_loss = (p * cost).sum(1).mean()  # equation 12
        self.entropy = -(p * log_p).sum(1).mean()
        by_logit = p * (cost - (p * cost).sum(1, keepdims=True)) / len(seen)  # alpha's part of d log p sums to 0
        w["actor"] = w["actor"] - lr * np.array([seen @ by_logit, by_logit.sum(0)])
        self.log_temperature = np.log(alpha) - lr * (self.entropy - share * np.log(mask.sum(1)).mean())
        self.weights = w


def check_weights(model: Model, expected: ByHand) -> None:
    model.check(layers({name: expected.weights[name.partition("/")[0]] for name in WEIGHTS}), atol=1e-7)
    assert model.weights["log_temperature"] == pytest.approx(expected.log_temperature, rel=1e-5)


@pytest.mark.parametrize(("runtime", "masked"), [("tensorflow", False), ("litert", True)])
def test_one_update_by_hand(runtime: str, masked: bool) -> None:
    model, expected = linear(runtime, masked), ByHand(masked)
    result = model.train()
    assert result["loss"] == pytest.approx(expected.critic_loss, rel=1e-5)
    assert result["actor_loss"] == pytest.approx(expected.actor_loss, rel=1e-5)
    assert result["entropy"] == pytest.approx(expected.entropy, rel=1e-5)
    assert result["q_mean"] == pytest.approx(expected.q_mean, rel=1e-5)
    assert result["temperature"] == pytest.approx(ALPHA)
    np.testing.assert_allclose(result["td_error"], expected.td_error, rtol=1e-5)
    check_weights(model, expected)
    assert not model.train_program.noise


def test_a_target_entropy_in_nats() -> None:
    model = linear(target_entropy=0.25)
    entropy = model.train()["entropy"]
    assert model.weights["log_temperature"] - np.log(ALPHA) == pytest.approx(-0.1 * (entropy - 0.25), rel=1e-4)


def test_several_gradient_steps_are_that_many_updates_on_the_parts_of_the_batch() -> None:
    model = linear("litert", masked=True, updates=2)
    result = model.train()
    first = ByHand(True, slice(0, 2))
    losses, td_error = [first.critic_loss], first.td_error
    second = ByHand(True, slice(2, 4), first)
    check_weights(model, second)
    np.testing.assert_allclose(result["td_error"], [*td_error, *second.td_error], rtol=1e-5)
    assert result["loss"] == pytest.approx(np.mean([*losses, second.critic_loss]), rel=1e-5)


def test_predictions_are_the_likeliest_legal_action_and_what_is_drawn_from() -> None:
    model = linear(masked=True)
    assert isinstance(model.program.predict.exploration, Categorical)
    seen: dict[str, Any] = {
        "x": np.array([[1], [1], [1]], F32),
        "action_mask": np.array([[1, 1, 1], [0, 1, 1], [0, 0, 0]], np.int8),
    }
    predictions = model.act(seen)
    np.testing.assert_allclose(predictions["logits"], [[0.6, -0.2, -0.2]] * 3, rtol=1e-6)
    assert predictions["action"][:2].tolist() == [5, 6]
    assert predictions["action"][2] < 0
    np.testing.assert_array_equal(predictions["action_mask"], seen["action_mask"] > 0)
