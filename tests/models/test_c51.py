"""C51 against numbers worked out by hand: two actions, the atoms 0, 1 and 2, and logits that are a bias."""

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.explorations import EpsilonGreedy
from axonrl.models import c51
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-1, 1, (2,)), action_space=spaces.Discrete(2, start=5))
PARAMS = {**LINEAR, "atoms": 3, "v_min": 0, "v_max": 2}
ONLINE = np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]])  # Q 0.75 and 1
TARGET = np.log([[0.2, 0.3, 0.5], [0.5, 0.25, 0.25]])  # Q 1.3 and 0.75
BATCH = transitions(np.zeros((2, 2), F32), np.array([5, 6], np.int32), [0.25, 0.5], weight=[1, 0.5])


@pytest.mark.parametrize(
    ("double", "first", "runtime"),
    [
        (False, [0.225, 0.65, 0.125], "litert"),  # the target's best action 0; values 0.25, 0.75, 1.25
        # The online network's: 1.
        (True, [0.5 * 0.75 + 0.25 * 0.25, 0.5 * 0.25 + 0.25 * 0.75 * 2, 0.25 * 0.25], "tensorflow"),
    ],
)
def test_one_update_by_hand(double: bool, first: list[float], runtime: str) -> None:
    model = Model(c51.model_fn, {**PARAMS, "double": double}, CONFIG, BATCH, runtime)
    model.set({"online/logits/bias": ONLINE, "target/logits/bias": TARGET})
    predictions = model.act()
    np.testing.assert_allclose(predictions["q_values"], [[0.75, 1]] * 2, rtol=1e-6)
    np.testing.assert_allclose(predictions["probabilities"], [np.exp(ONLINE)] * 2, rtol=1e-6)
    assert predictions["action"].tolist() == [6, 6]
    assert isinstance(model.program.predict.exploration, EpsilonGreedy)
    result = model.train()
    m = np.array([first, [0.5, 0.5, 0]])  # the second has terminated with a reward of 0.5
    cross_entropy = -(m * ONLINE).sum(1)
    entropy = -(m * np.log(np.where(m > 0, m, 1))).sum(1)
    np.testing.assert_allclose(result.pop("td_error"), cross_entropy - entropy, rtol=1e-5)
    gradient = np.array([np.exp(ONLINE[0]) - m[0], 0.5 * (np.exp(ONLINE[1]) - m[1])]) / 2  # p - m, weighted, the mean
    numbers = {
        "loss": (cross_entropy[0] + 0.5 * cross_entropy[1]) / 2,
        "q_mean": (0.75 + 1) / 2,
        "gradient_norm": np.linalg.norm(gradient),
        "learning_rate": 0.1,
    }
    assert result == pytest.approx(numbers, rel=1e-5)
    np.testing.assert_allclose(model.weights["online/logits/bias"].reshape(2, 3), ONLINE - 0.1 * gradient, rtol=1e-5)
