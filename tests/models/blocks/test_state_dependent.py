"""State-dependent exploration inside a model: the distribution of its noise, against scipy."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from axonrl.models.blocks import squashed
from axonrl.models.blocks.state_dependent import marginal_log_std, scaled_features

F32 = np.float32
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
