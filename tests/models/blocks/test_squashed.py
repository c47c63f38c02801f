"""The squashed Gaussian, also with state-dependent noise, against scipy and a change of variables done by hand."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from axonrl.models.blocks import squashed
from axonrl.models.blocks.state_dependent import marginal_log_std, scaled_features

F32 = np.float32


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


RNG = np.random.default_rng(0)
FEATURES, LOG_STD = RNG.normal(size=(3, 4)).astype(F32), RNG.normal(-0.5, 0.3, (4, 2)).astype(F32)


def test_scaled_features() -> None:
    expected = np.einsum("bw,wd->bwd", FEATURES, np.exp(LOG_STD))
    np.testing.assert_allclose(scaled_features(FEATURES, LOG_STD), expected, rtol=1e-6)


def test_the_squashed_density_with_it_is_that_of_scipy() -> None:
    mean, noise = RNG.normal(size=(2, 3, 2)).astype(F32)
    variance = np.square(FEATURES.astype(np.float64)) @ np.exp(2 * LOG_STD.astype(np.float64)) + 1e-6
    action, log_prob = squashed.sample(mean, marginal_log_std(FEATURES, LOG_STD), noise)
    u = mean + np.sqrt(variance) * noise
    expected = stats.norm.logpdf(u, mean, np.sqrt(variance)) - np.log(1 - np.tanh(u) ** 2)
    np.testing.assert_allclose(action, np.tanh(u), rtol=1e-5)
    np.testing.assert_allclose(log_prob, expected.sum(1), rtol=1e-4)


def test_features_that_are_all_zero_leave_everything_finite() -> None:
    with tf.GradientTape() as tape:
        features, log_std = tf.zeros((1, 4)), tf.constant(LOG_STD)
        tape.watch([features, log_std])
        value = marginal_log_std(features, log_std)
    assert value.numpy() == pytest.approx(0.5 * np.log(1e-6))
    assert all(not np.any(gradient) for gradient in tape.gradient(value, [features, log_std]))
