"""Stochastic policies: draws, log-probabilities and errors."""

import math
import re
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from axonrl.core.protocols import Exploration
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.explorations import Bernoulli, Categorical, Composite, Gaussian, MultiCategorical, SquashedGaussian
from axonrl.models.blocks.box_actions import SquashedBox
from axonrl.tests.explorations.scripted import Scripted
from axonrl.tests.raising import raised

LARGEST = float(np.finfo(np.float32).max)
BELOW_ONE = 1 - 2**-53
"""The largest number that a generator draws."""
BOX = Box(-1, 1, (2,))


def floats(values: Any) -> Any:
    return np.array(values, np.float32)


def logits(*rows: Any) -> Any:
    return {"logits": floats(rows)}


def drawn(policy: Any, predictions: Any, numbers: Any) -> tuple[Any, Any]:
    """Actions and log-probabilities, from these random numbers."""
    rng: Any = Scripted(numbers)
    actions, extras = policy(predictions, 0, rng)
    assert list(extras) == ["log_prob"]
    assert (extras["log_prob"].dtype, extras["log_prob"].shape) == (np.float32, (len(actions),))
    np.testing.assert_allclose(policy.log_prob_of(predictions, actions), extras["log_prob"], rtol=1e-6)
    return actions, extras["log_prob"]


def test_categorical_inverts_the_cumulative_sum() -> None:
    """Equal logits: the sum over four actions passes u at 0.25, 0.5, 0.75 and 1."""
    rows = logits(*[[7.0, 7.0, 7.0, 7.0]] * 8)
    numbers = [0.0, 0.2499, 0.25, 0.4999, 0.5, 0.7499, 0.75, BELOW_ONE]
    actions, log_prob = drawn(Categorical(Discrete(4)), rows, numbers)
    assert (actions.tolist(), actions.dtype) == ([0, 0, 1, 1, 2, 2, 3, 3], np.int32)
    np.testing.assert_allclose(log_prob, [-math.log(4)] * 8, rtol=1e-7)


@pytest.mark.parametrize(("row", "action"), [([-1e9, 0, -1e9], 1), ([LARGEST, -LARGEST, 0], 0)])
def test_huge_logits_are_certain(row: Any, action: int) -> None:
    """Neither end of the interval reaches an action of probability 0."""
    actions, log_prob = drawn(Categorical(Discrete(3)), logits(row, row, row), [0.0, 0.5, BELOW_ONE])
    assert (actions.tolist(), log_prob.tolist()) == ([action] * 3, [0] * 3)


def test_gaussian_adds_scaled_noise_and_does_not_clip() -> None:
    predictions = {"mean": floats([[1, -2], [0, 10]]), "log_std": floats([[0, math.log(2)], [math.log(0.5), 0]])}
    rng: Any = Scripted([[1, -3], [4, 0]])
    actions, extras = Gaussian(BOX)(predictions, 0, rng)
    assert rng.asked == [("standard_normal", (2, 2))]
    np.testing.assert_allclose(actions, [[2, -8], [2, 10]], rtol=1e-6)
    assert actions.dtype == np.float32
    # Of each component -z^2 / 2 - log_std - log(2 pi) / 2: z is 1 and -3, then 4 and 0
    constant = math.log(2 * math.pi)
    expected = [-(1 + 9) / 2 - math.log(2) - constant, -(16 + 0) / 2 + math.log(2) - constant]
    np.testing.assert_allclose(extras["log_prob"], expected, rtol=1e-6)


def test_gaussian_log_prob_is_of_the_action_as_it_was_rounded() -> None:
    """Next to 4096 float32 has steps of 2^-11: a standard deviation of 2^-12 and noise of 0.8 lead to no other."""
    predictions = {"mean": floats([[4096.0]]), "log_std": floats([[-12 * math.log(2)]])}
    actions, log_prob = drawn(Gaussian(Box(-1, 1, (1,))), predictions, [[0.8]])
    assert actions.tolist() == [[4096.0]]
    np.testing.assert_allclose(log_prob, [12 * math.log(2) - 0.5 * math.log(2 * math.pi)], rtol=1e-6)


@pytest.mark.parametrize(
    ("policy", "space", "needs"),
    [
        (Categorical, BOX, "a Discrete action space"),
        (MultiCategorical, Discrete(4), "a MultiDiscrete action space"),
        (Gaussian, Box(0, 9, (2,), np.uint8), "a Box of floats as action space"),
    ],
)
def test_another_space_is_refused(policy: Any, space: Any, needs: str) -> None:
    caught = raised(ArgumentError, policy, space)
    assert (caught.argument, caught.value) == ("action_space", space)
    assert str(caught) == f"{policy.__name__} needs {needs}, got {space!r}"


ACTION = np.zeros((2, 2), np.float32)
ACTION.flags.writeable = False


@pytest.mark.parametrize(
    ("policy", "predictions", "name", "problem"),
    [
        (Gaussian(BOX), {"action": ACTION, "mean": ACTION}, "log_std", "; the model predicts action, mean"),
        (MultiCategorical(MultiDiscrete([2, 3])), {"logits": ACTION}, "logits", " of shape [N, 5], got [2, 2]"),
        (Gaussian(BOX), {"mean": ACTION, "log_std": ACTION[0]}, "log_std", " of shape [N, 2], got [2]"),
    ],
)
def test_a_prediction_that_is_missing_or_of_another_shape_is_named(
    policy: Any, predictions: Any, name: str, problem: str
) -> None:
    caught = raised(ArgumentError, policy, predictions, 0, np.random.default_rng(0))
    assert caught.argument == f"predictions[{name!r}]"
    assert str(caught) == f"{type(policy).__name__} needs predictions[{name!r}]{problem}"


@pytest.mark.parametrize(
    ("policy", "name", "others", "bad"),
    [
        (MultiCategorical(MultiDiscrete([1, 1])), "logits", (), math.inf),
        (Gaussian(BOX), "log_std", ("mean",), -math.inf),
    ],
)
def test_numbers_that_are_not_finite_are_named(policy: Any, name: str, others: Any, bad: float) -> None:
    predictions = dict.fromkeys(others, ACTION) | {name: floats([[0, 0], [0, bad]])}
    message = f"{type(policy).__name__}: predictions['{name}'] has NaN or infinity: [[0.0, 0.0], [0.0, {bad}]]"
    raised(NonFiniteError, policy, predictions, 0, np.random.default_rng(0), match=f"^{re.escape(message)}$")


@pytest.mark.parametrize(("mean", "log_std"), [(0, -200), (LARGEST, 88)], ids=lambda value: f"{value:g}")
def test_a_deviation_that_float32_cannot_hold_is_refused(mean: float, log_std: float) -> None:
    predictions = {"mean": floats([[mean]]), "log_std": floats([[log_std]])}
    message = "exp(predictions['log_std']) is 0 or infinite in float32"
    with pytest.raises(NonFiniteError, match=re.escape(message)) as caught:
        drawn(Gaussian(Box(-1, 1, (1,))), predictions, [[2.0]])
    assert f"log_std is in {log_std:g} .. {log_std:g}, mean in {mean:g} .. {mean:g}" in str(caught.value)


def test_a_space_is_told_by_its_attributes_alone() -> None:
    discrete = SimpleNamespace(n=2, start=3)
    assert drawn(Categorical(discrete), logits([0, 9]), [0.5])[0].tolist() == [4]
    several = SimpleNamespace(nvec=[1, 2], start=[3, 3])
    assert drawn(MultiCategorical(several), logits([0, 0, 9]), [0.5, 0.5])[0].tolist() == [[3, 4]]
    box = SimpleNamespace(low=floats([-1]), high=floats([1]), dtype=np.dtype(np.float32))
    assert drawn(Gaussian(box), {"mean": floats([[1]]), "log_std": floats([[0]])}, [[2]])[0].tolist() == [[3]]
    box.high = floats([3])
    squashed = SquashedGaussian(box, log_prob=True)
    assert isinstance(squashed, Exploration)
    assert drawn(squashed, {"mean": floats([[0]]), "log_std": floats([[0]])}, [[0]])[0].tolist() == [[1]]


def test_predictions_are_left_alone() -> None:
    predictions = {"mean": ACTION, "log_std": ACTION}
    Gaussian(BOX)(predictions, 0, np.random.default_rng(0))[0][:] = 5  # what it returns belongs to the caller
    assert not ACTION.any()


def test_bits_are_drawn_independently() -> None:
    policy = Bernoulli(MultiBinary((2, 1)))
    predictions = logits(*[[[np.log(3)], [-np.log(3)]]] * 3)  # probabilities of 1: 3/4 and 1/4
    actions, log_prob = drawn(policy, predictions, [[[0.24], [0.74]], [[0.26], [0.76]], [[0.26], [0.0]]])
    assert actions.dtype == np.int8
    assert actions.tolist() == [[[0], [0]], [[1], [1]], [[1], [0]]]
    np.testing.assert_allclose(log_prob, np.log([3 / 16, 3 / 16, 9 / 16]), rtol=1e-6)
    extreme, log_prob = drawn(policy, logits([[LARGEST], [-LARGEST]]), [[[0.5], [BELOW_ONE]]])
    assert (extreme.tolist(), log_prob.tolist()) == ([[[1], [0]]], [0])


def test_parts_are_drawn_from_their_own_predictions_and_log_probabilities_add() -> None:
    space = Dict(
        {"arm": Tuple([MultiDiscrete([2, 2]), MultiBinary(1)]), "gear": Discrete(2, start=5), "k": Box(-1, 1, (1,))}
    )
    predictions = {
        "logits/arm/0": floats([[0, 0, np.log(3), 0]] * 2),
        "logits/arm/1": floats([[0]] * 2),
        "logits/gear": floats([[0, np.log(3)]] * 2),
        "mean/k": floats([[0.5]] * 2),
        "log_std/k": floats([[0]] * 2),
    }
    actions, extras = Composite(space)(predictions, 0, np.random.default_rng(0))
    np.testing.assert_allclose(Composite(space).log_prob_of(predictions, actions), extras["log_prob"], rtol=1e-6)
    shapes: dict[str, Any] = {name: (value.shape, value.dtype) for name, value in actions.items()}
    assert shapes == {
        "arm/0": ((2, 2), np.int32),
        "arm/1": ((2, 1), np.int8),
        "gear": ((2,), np.int32),
        "k": ((2, 1), np.float32),
    }
    expected = np.log(0.5) + np.where(actions["arm/0"][:, 1] == 0, np.log(0.75), np.log(0.25)) + np.log(0.5)
    expected += np.where(actions["gear"] == 6, np.log(0.75), np.log(0.25))
    expected += [math.log(NormalDist(0.5, 1).pdf(value)) for value in actions["k"].ravel().tolist()]
    np.testing.assert_allclose(extras["log_prob"], expected, rtol=1e-5)
    del predictions["logits/gear"]
    with pytest.raises(
        ArgumentError, match=r"Composite needs predictions\['logits/gear'\]; the model predicts logits/arm"
    ):
        Composite(space)(predictions, 0, np.random.default_rng(0))


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
