"""Rainbow: all parts in one update by hand, and each switched off."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.explorations import EpsilonGreedy, Noisy
from axonrl.models import c51, dqn, rainbow
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2, start=5))
SGD = {**LINEAR, "optimizer_epsilon": None}
ATOMS = {"atoms": 2, "v_min": 0, "v_max": 1}
BATCH = transitions(np.zeros((2, 1), F32), np.array([5, 6], np.int32), [0.25, 1], weight=[1, 0.5])


def noise_of(u: float, *columns: float) -> Any:
    """Draws whose noise f(x) = sgn(x) sqrt(abs(x)) is this: of the input, then of each output."""
    wanted = np.array([u, *columns])
    return (np.sign(wanted) * wanted**2).astype(F32)


def logits(value: Any, advantage: Any) -> Any:
    return np.asarray(value) + np.asarray(advantage) - np.mean(advantage, axis=0)


def softmax(x: Any) -> Any:
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def test_one_update_with_all_parts_by_hand() -> None:
    """Observations are 0, so logits are the heads' biases, with noise in those of the advantages of action 1."""
    model = Model(rainbow.model_fn, {**SGD, **ATOMS}, CONFIG, BATCH, "litert")
    advantage, value = np.array([[0.0, 1.0], [0.5, 1.0]]), np.array([0.5, 0.25])
    target_advantage, target_value = np.array([[0.0, 0.5], [1.0, 0.0]]), np.array([0.0, 0.0])
    model.set(
        {
            "online/advantage/bias": advantage,
            "online/advantage/bias_sigma": [0, 0, 0, 1],
            "online/value/bias": value,
            "target/advantage/bias": target_advantage,
            "target/value/bias": target_value,
        }
    )
    quiet_advantage, quiet_value = noise_of(0, 0, 0, 0, 0), noise_of(0, 0, 0)
    plain = softmax(logits(value, advantage))[:, 1]  # Q: the probability of atom 1
    assert plain[0] > plain[1]  # the advantages of atom 1 are equal, that of atom 0 is higher for action 1
    noisy = np.array([[0.0, 1.0], [0.5, 2.0]])  # with noise 1
    assert softmax(logits(value, noisy))[1, 1] > softmax(logits(value, noisy))[0, 1]
    predictions = model.act(np.zeros((1, 1), F32), [noise_of(0, 0, 0, 0, 1), quiet_value])
    np.testing.assert_allclose(predictions["q_values"], [plain], rtol=1e-5)
    assert (predictions["action"].tolist(), predictions["noisy_action"].tolist()) == ([5], [6])
    assert type(model.program.predict.exploration) is Noisy
    assert model.act(np.zeros((1, 1), F32))["noisy_action"].tolist() == [5]  # without draws noise is zero
    # In the update only the network that selects the next action has noise: it prefers action 1, whose probabilities
    # the target network gives.
    draws = [quiet_advantage, quiet_value, quiet_advantage, quiet_value, noise_of(0, 0, 0, 0, 1), quiet_value]
    result = model.train(draws=draws)
    next_p = softmax(logits(target_value, target_advantage))[1]
    m = np.array([[next_p[0] * 0.75 + next_p[1] * 0.25, next_p[0] * 0.25 + next_p[1] * 0.75], [0, 1]])  # 0.25, 0.75
    log_p = np.log(softmax(logits(value, advantage)))
    cross_entropy = -(m * log_p).sum(1)
    entropy = -(m * np.log(np.where(m > 0, m, 1))).sum(1)
    np.testing.assert_allclose(result["td_error"], cross_entropy - entropy, rtol=1e-4, atol=1e-6)
    assert result["loss"] == pytest.approx((cross_entropy[0] + 0.5 * cross_entropy[1]) / 2, rel=1e-5)
    gradient = np.array([[1.0], [0.5]]) * (np.exp(log_p) - m) / 2  # p - m: of the logits of each transition's action
    weights = model.weights
    np.testing.assert_allclose(weights["online/value/bias"], value - 0.1 * gradient.sum(0), rtol=1e-5)
    spread = np.array([gradient[0] - gradient[1], gradient[1] - gradient[0]]) / 2  # less the mean over actions
    np.testing.assert_allclose(
        weights["online/advantage/bias"].reshape(2, 2), advantage - 0.1 * spread, rtol=1e-5, atol=1e-7
    )
    np.testing.assert_array_equal(weights["online/advantage/bias_sigma"], [0, 0, 0, 1])  # there was no noise in it


# Each switch is off in one of them, beside the other algorithm's own parameter: one that did nothing would differ.
SWITCHES: list[tuple[dict[str, Any], Any, dict[str, Any]]] = [
    ({"distributional": False}, dqn, {"noisy": True, "dueling": "mean", "double": True}),
    (
        {"noisy": False, "double": False, "dueling": None},
        c51,
        {**ATOMS, "double": False, "epsilon": {"kind": "linear", "start": 1, "stop": 0.01, "duration": 10_000}},
    ),
]


@pytest.mark.parametrize(("off", "other", "same"), SWITCHES)
def test_each_part_can_be_switched_off(off: dict[str, Any], other: Any, same: dict[str, Any]) -> None:
    made = [
        Model(rainbow.model_fn, {**SGD, **ATOMS, **off}, CONFIG, BATCH, "tensorflow"),
        Model(other.model_fn, {**SGD, **same, "max_gradient_norm": None}, CONFIG, BATCH, "tensorflow"),
    ]
    results = []
    for model in made:
        rng = np.random.default_rng(0)
        draws = [request.draw(rng) for request in model.train_program.noise]
        results.append((model.train(draws=draws), model.weights, model.act()))
    (ours, our_weights, our_predictions), (theirs, their_weights, their_predictions) = results
    np.testing.assert_equal(ours, theirs)
    np.testing.assert_equal(our_weights, their_weights)
    np.testing.assert_equal(our_predictions, their_predictions)
    noisy = off.get("noisy", True)
    assert type(made[0].program.predict.exploration) is (Noisy if noisy else EpsilonGreedy)
