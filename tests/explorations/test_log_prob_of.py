"""Log-probabilities of actions that somebody else took."""

import math
from typing import Any

import gymnasium
import numpy as np
import pytest

from axonrl.explorations import Categorical, Gaussian, SquashedGaussian

DISCRETE = gymnasium.spaces.Discrete(3, start=5)
BOX = gymnasium.spaces.Box(np.array([0, -2], np.float32), np.array([1, 2], np.float32))
LOGITS = {"logits": np.log(np.array([[1, 2, 5], [4, 4, 2]], np.float32))}
NORMAL = {"mean": np.array([[0.5, 1.0]], np.float32), "log_std": np.log(np.array([[0.5, 2.0]], np.float32))}


def test_an_illegal_action_has_none() -> None:
    masked = {**LOGITS, "action_mask": np.array([[True, True, False], [True, True, True]])}
    found = Categorical(DISCRETE).log_prob_of(masked, np.array([7, 6], np.int32))
    assert found[0] == -np.inf
    assert math.exp(found[1]) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("made", "predictions"),
    [
        (Categorical(DISCRETE), LOGITS),
        (Gaussian(BOX), NORMAL),
        (SquashedGaussian(BOX, log_prob=True), NORMAL),
    ],
)
def test_it_is_what_drawing_returns(made: Any, predictions: dict[str, Any]) -> None:
    action, extras = made(predictions, 0, np.random.default_rng(0))
    np.testing.assert_allclose(made.log_prob_of(predictions, action), extras["log_prob"], rtol=1e-6)
