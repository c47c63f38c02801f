from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.explorations.squashed import SquashedGaussian
from axonrl.models.blocks.actions import SquashedBox
from axonrl.tests.explorations.scripted import Scripted
from axonrl.tests.raising import raised


def predictions(mean: Any, log_std: Any) -> dict[str, Any]:
    return {"mean": np.asarray(mean, np.float32), "log_std": np.asarray(log_std, np.float32)}


def test_draws_are_squashed_into_the_bounds_and_log_probabilities_are_those_of_the_rounded_actions() -> None:
    bounds = np.array([-2, 10], np.float32), np.array([2, 30], np.float32)
    policy = SquashedGaussian(spaces.Box(*bounds), log_prob=True)
    rng: Any = Scripted([[1.0, -1.0], [0.0, 2.0]])
    given = predictions([[0.5, 0.0], [-1.0, 50.0]], [[0.0, np.log(2.0)], [1.0, 0.0]])
    drawn, extras = policy(given, 0, rng)
    # u is 0.5 + 1, 0 - 2, -1 and 50 + 2; then -2 + (tanh(u) + 1) / 2 * 4 and 10 + (tanh(u) + 1) / 2 * 20.
    wanted = [[2 * np.tanh(1.5), 20 + 10 * np.tanh(-2.0)], [2 * np.tanh(-1.0), 30.0]]
    np.testing.assert_allclose(drawn, wanted, rtol=1e-6)
    assert drawn.dtype == np.float32
    assert dict(SquashedGaussian(spaces.Box(*bounds))(given, 0, np.random.default_rng(0))[1]) == {}
    # Of 1.5 and -2: -1/2 - log std - log(2 pi) / 2 each, less log(1 - tanh(u)^2) and the log of half the widths, 2, 10.
    slopes = np.log(1 - np.tanh([1.5, 2.0]) ** 2).sum()
    expected = -1 - np.log(2) - np.log(2 * np.pi) - slopes - np.log(20)
    assert extras["log_prob"].dtype == np.float32
    assert extras["log_prob"][0] == pytest.approx(expected, rel=1e-5)
    # Learning computes the same from what was stored, at the bound too, where u is 52 and not to be found again.
    distribution = SquashedBox(spaces.Box(*bounds), "x").distribution(
        {name: tf.constant(v) for name, v in given.items()}
    )
    actions = SquashedBox(spaces.Box(*bounds), "x").from_environment(tf.constant(drawn))
    np.testing.assert_allclose(distribution.log_prob(actions), extras["log_prob"], rtol=1e-5)


def test_a_standard_deviation_that_has_collapsed_is_an_error() -> None:
    policy = SquashedGaussian(spaces.Box(-1, 1, (1,)), log_prob=True)
    with pytest.raises(NonFiniteError, match=r"SquashedGaussian: exp\(predictions\['log_std'\]\) is 0"):
        policy(predictions([[0.5]], [[-200.0]]), 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.Box(-1, np.inf, (2,)),
        spaces.Box(np.array([-1, 2], np.float32), np.array([1, 2], np.float32)),  # nothing to choose
        spaces.Box(-1e300, 1e300, (2,), np.float64),  # infinite in float32
        spaces.Box(0, 255, (2,), np.uint8),
    ],
)
def test_other_spaces_are_refused(space: Any) -> None:
    caught = raised(ArgumentError, SquashedGaussian, space)
    assert (caught.argument, caught.value) == ("action_space", space)
    assert str(caught) == f"SquashedGaussian needs a bounded Box of floats as action space, got {space!r}"
