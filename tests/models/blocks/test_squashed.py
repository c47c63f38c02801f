"""The squashed Gaussian against scipy, and against the change of variables done by hand in float64."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from axonrl.models.blocks import squashed

F32 = np.float32


def test_the_log_probability_is_that_of_scipy_after_a_change_of_variables() -> None:
    rng = np.random.default_rng(0)
    mean, log_std, noise = (rng.normal(0, scale, (50, 3)).astype(F32) for scale in (1.0, 0.7, 1.0))
    action, log_prob = squashed.sample(tf.constant(mean), tf.constant(log_std), tf.constant(noise))
    u = mean.astype(np.float64) + np.exp(log_std.astype(np.float64)) * noise
    density = stats.norm.logpdf(u, mean, np.exp(log_std.astype(np.float64))) - np.log(1 - np.tanh(u) ** 2)
    np.testing.assert_allclose(action, np.tanh(u), atol=1e-6)
    np.testing.assert_allclose(log_prob, density.sum(axis=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("u", [1e-4, -1.0, 1e6])
def test_the_slope_where_one_less_the_square_is_zero(u: float) -> None:
    # log(1 - tanh(u)^2) = log(4) - 2 |u| - 2 log(1 + exp(-2 |u|)), as 1 - tanh(u)^2 = 1 / cosh(u)^2.
    expected = np.log(4) - 2 * abs(u) - 2 * np.log1p(np.exp(-2 * abs(u)))
    assert squashed.log_slope(tf.constant(u, tf.float32)).numpy() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(("mean", "log_std"), [(-20.0, -20.0), (500.0, 0.0)])
def test_extreme_samples_have_finite_exact_log_probabilities_and_gradients(mean: float, log_std: float) -> None:
    noise = 3.0
    inputs = [tf.constant([[value]], tf.float32) for value in (mean, log_std)]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        action, log_prob = squashed.sample(inputs[0], inputs[1], tf.constant([[noise]], tf.float32))
    u = float(F32(mean) + F32(np.exp(F32(log_std))) * F32(noise))  # what float32 leaves of it
    log_slope = np.log(4) - 2 * abs(u) - 2 * np.log1p(np.exp(-2 * abs(u)))
    expected = stats.norm.logpdf(noise) - log_std - log_slope
    assert log_prob.numpy()[0] == pytest.approx(expected, rel=1e-5)
    assert action.numpy()[0, 0] == pytest.approx(np.tanh(u), abs=1e-6)
    # d log p / d mean is 2 tanh(u); d log p / d log_std is -1 + 2 tanh(u) * std * noise.
    by_mean, by_log_std = (gradient.numpy()[0, 0] for gradient in tape.gradient(log_prob, inputs))
    assert by_mean == pytest.approx(2 * np.tanh(u), abs=1e-5)
    assert by_log_std == pytest.approx(-1 + 2 * np.tanh(u) * np.exp(log_std) * noise, rel=1e-5, abs=1e-5)


def test_units() -> None:
    low, high = np.array([-2.0, 10.0], F32), np.array([2.0, 30.0], F32)
    inner = tf.constant([[-1.0, -1.0], [0.0, 0.5], [1.0, 1.0]])
    outer = squashed.to_units(inner, low, high)
    np.testing.assert_allclose(outer, [[-2, 10], [0, 25], [2, 30]])
    np.testing.assert_allclose(squashed.from_units(outer, low, high), inner)
    assert squashed.log_scale(low, high) == pytest.approx(np.log(2 * 10))


def test_the_largest_bounds_do_not_overflow() -> None:
    low, high = np.array([-3e38], F32), np.array([3e38], F32)
    np.testing.assert_allclose(squashed.to_units(tf.constant([[-1.0], [0.0]]), low, high), [[-3e38], [0.0]])
    np.testing.assert_allclose(squashed.from_units(tf.constant([[3e38 / 2]]), low, high), [[0.5]], rtol=1e-6)
