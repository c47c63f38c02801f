"""QR-DQN against numbers worked out by hand: two actions, two quantiles, and a network that is a bias."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.explorations import EpsilonGreedy
from axonrl.models import qr_dqn
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-1, 1, (2,)), action_space=spaces.Discrete(2, start=5))
PARAMS = {**LINEAR, "optimizer_epsilon": None, "quantiles": 2}
ONLINE = np.array([[0.0, 1.0], [1.0, 2.0]])  # Q 0.5 and 1.5
TARGET = np.array([[3.0, 5.0], [-1.0, 1.0]])  # Q 4 and 0
BATCH = transitions(np.zeros((2, 2), F32), np.array([5, 6], np.int32), [0.5, 0.5], weight=[1, 0.5])


@pytest.mark.parametrize(
    ("double", "kappa", "error", "gradient", "runtime"),
    [
        # The target's best action 0: targets 2 and 3, so the errors of the first row are [2, 3] and [1, 2]. Those of
        # the second, whose targets are the reward, are -0.5 and -1.5. Weights 1/4 above and 3/4 below for the first
        # quantile, 3/4 and 1/4 for the second; the gradient is the clipped error.
        (
            False,
            1.0,
            [0.25 * (1.5 + 2.5) / 2 + 0.75 * (0.5 + 1.5) / 2, 0.75 * 0.125 + 0.25 * 1],
            [[-0.25, -0.75], [0.75 * 0.5, 0.25 * 1]],
            "litert",
        ),
        # The online network's best action 1: targets 0 and 1, errors [0, 1] and [-1, 0].
        (
            True,
            1.0,
            [0.25 * 0.5 / 2 + 0.25 * 0.5 / 2, 0.75 * 0.125 + 0.25 * 1],
            [[-0.25 / 2, 0.25 / 2], [0.75 * 0.5, 0.25 * 1]],
            "tensorflow",
        ),
        (False, 0.0, [0.25 * 2.5 + 0.75 * 1.5, 0.75 * 0.5 + 0.25 * 1.5], [[-0.25, -0.75], [0.75, 0.25]], "litert"),
    ],
)
def test_one_update_by_hand(double: bool, kappa: float, error: Any, gradient: Any, runtime: str) -> None:
    model = Model(qr_dqn.model_fn, {**PARAMS, "double": double, "kappa": kappa}, CONFIG, BATCH, runtime)
    model.set({"online/quantiles/bias": ONLINE, "target/quantiles/bias": TARGET})
    predictions = model.act()
    np.testing.assert_allclose(predictions["q_values"], [[0.5, 1.5]] * 2, rtol=1e-6)
    np.testing.assert_allclose(predictions["quantiles"], [ONLINE] * 2, rtol=1e-6)
    assert predictions["action"].tolist() == [6, 6]
    assert isinstance(model.program.predict.exploration, EpsilonGreedy)
    result = model.train()
    np.testing.assert_allclose(result.pop("td_error"), error, rtol=1e-6)
    weighted = np.array([[1.0], [0.5]]) * np.array(gradient) / 2
    numbers = {
        "loss": (error[0] + 0.5 * error[1]) / 2,
        "q_mean": (0.5 + 1.5) / 2,
        "gradient_norm": np.linalg.norm(weighted),
        "learning_rate": 0.1,
    }
    assert result == pytest.approx(numbers, rel=1e-6)
    np.testing.assert_allclose(model.weights["online/quantiles/bias"].reshape(2, 2), ONLINE - 0.1 * weighted, rtol=1e-6)


def test_branches_share_the_mixture_of_their_next_quantiles() -> None:
    """Two branches of 2 and 3 choices with a mask, one quantile each, which is therefore the median."""
    space = spaces.MultiDiscrete([2, 3], start=[0, 10])
    observation = spaces.Dict({"x": spaces.Box(-1, 1, (1,)), "action_mask": spaces.MultiBinary(5)})
    config = RunConfig(observation_space=observation, action_space=space)
    seen = {"x": np.zeros((1, 1), F32), "action_mask": np.array([[1, 1, 1, 0, 1]], np.int8)}
    batch = transitions(seen, np.array([[1, 12]], np.int32), [1], [0.5])
    model = Model(qr_dqn.model_fn, {**PARAMS, "quantiles": 1}, config, batch, "litert")
    model.set({"online/quantiles/bias": [1, 0, 2, 9, 3], "target/quantiles/bias": [2, 1, 4, 9, 6]})
    predictions = model.act()
    assert predictions["action"].tolist() == [[0, 12]]  # the choice worth 9 is illegal
    assert predictions["action_mask"].tolist() == [[True, True, True, False, True]]
    result = model.train()
    # Next quantiles 2 and 6: targets 2 and 4 for both branches, which predict 0 and 3; weights 1/2.
    first, second = 0.5 * (1.5 + 3.5) / 2, 0.5 * (0.5 + 0.5) / 2
    assert result["loss"] == pytest.approx((first + second) / 2)
    np.testing.assert_allclose(result["td_error"], [first + second], rtol=1e-6)
    # The first gradient is -1/2: both targets are above it. The second is 0: one is above, one below.
    np.testing.assert_allclose(model.weights["online/quantiles/bias"], [1, 0.1 * 0.5 / 2, 2, 9, 3], rtol=1e-6)
