"""NAF against numbers worked out by hand, on a network that is its biases."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.core.protocols import Modes
from axonrl.models import naf
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Box(0, 4, (2,)))
PARAMS = {**LINEAR, "max_gradient_norm": None, "target_update_rate": 0.5}
# Actions are 0.5, -0.5; and 2, which was clipped to 1, and 0
BATCH = transitions(np.zeros((2, 1), F32), np.array([[3, 1], [6, 2]], F32), [1, -1], weight=[1, 0.5])
# mu is (0.5, 0), L is [[1, 0], [0.5, 2]], and so P is [[1, 0.5], [0.5, 4.25]].
BIASES = {"value": [1.0], "mu": [np.arctanh(0.5), 0], "diagonal": [0, np.log(2)], "below": [0.5]}


@pytest.mark.parametrize(
    ("distance", "diagonal", "below", "expected"),
    [
        ([[2.0], [0.0]], [[np.log(3)], [1.0]], None, [-18, 0]),
        ([[0, -0.5], [0.5, 0]], [[0, np.log(2)]] * 2, [[0.5]] * 2, [-0.53125, -0.125]),
        # L^T (u - mu) is (6, 5, 1) and (-2, -4, -1).
        ([[1, 1, 1], [1, 0, -1]], [[0, 0, 0]] * 2, [[2, 3, 4]] * 2, [-31, -10.5]),
    ],
)
def test_the_advantage_by_hand(distance: Any, diagonal: Any, below: Any, expected: Any) -> None:
    given = [None if part is None else tf.constant(part, tf.float32) for part in (distance, diagonal, below)]
    np.testing.assert_allclose(naf.advantage(*given), expected, rtol=1e-6)


def test_one_update_by_hand() -> None:
    model = Model(naf.model_fn, PARAMS, CONFIG, BATCH, "litert")
    # The target's value is half-way to the online network's: 2.
    model.set({"target/value/bias": 3, **{f"online/{head}/bias": bias for head, bias in BIASES.items()}})
    predictions = model.act()
    np.testing.assert_allclose(predictions["action"], [[3, 2]] * 2, rtol=1e-6)
    np.testing.assert_allclose(predictions["value"], [1, 1], rtol=1e-6)
    result = model.train()
    # Q is 1 - 0.53125 and 1 - 0.125; targets are 1 + 0.5 * 2 and -1.
    np.testing.assert_allclose(result.pop("td_error"), [1.53125, -1.875], rtol=1e-5)
    # By Q -1.53125 / 2 and 0.5 * 1.875 / 2, and from there by P (u - mu), or by the entries of L.
    gradients = {
        "value": [-0.765625 + 0.46875],
        "mu": [0.75 * (-0.765625 * -0.25 + 0.46875 * 0.5), -0.765625 * -2.125 + 0.46875 * 0.25],
        "diagonal": [0.46875 * -0.25, -0.765625 * -1],
        "below": [-0.765625 * -0.125],
    }
    numbers = {
        "loss": (1.53125**2 / 2 + 0.5 * 1.875**2 / 2) / 2,
        "q_mean": 0.671875,
        "value_mean": 1.0,
        "td_error_mean": 1.703125,
        "gradient_norm": np.linalg.norm(np.concatenate(list(gradients.values()))),
        "learning_rate": 0.1,
    }
    assert result == pytest.approx(numbers, rel=1e-5)
    after = {f"online/{head}/bias": np.array(BIASES[head]) - 0.1 * np.array(by) for head, by in gradients.items()}
    model.check({**after, "target/value/bias": [2]})


def test_one_component_needs_no_entries_below_the_diagonal() -> None:
    config = RunConfig(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Box(-2, 2, (1,)))
    labels = {key: tf.constant(value) for key, value in {**BATCH, "action": BATCH["action"][:, :1]}.items()}
    spec = naf.model_fn(labels["observation"], labels, Modes.EVAL, {**PARAMS, "initializer": "zeros"}, config)
    # Everything is 0 and L is 1: Q is -1/2 and -1/2, since 3 and 6 are 1 in -1 .. 1; the errors are 1.5 and -0.5.
    assert float(spec.loss) == pytest.approx((1.5**2 / 2 + 0.5 * 0.5**2 / 2) / 2)
