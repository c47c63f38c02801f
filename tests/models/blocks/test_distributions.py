"""Distributions over actions, against numbers worked out by hand, and scipy's where it is installed."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks.distributions import (
    Bernoulli,
    Beta,
    Categorical,
    Gaussian,
    Joint,
    SquashedGaussian,
)
from axonrl.tests.models.blocks.derivatives import gradients

LOGITS = np.log(np.array([[1, 2, 5], [6, 1, 1]], np.float32))  # probabilities 1/8, 2/8, 5/8 and 6/8, 1/8, 1/8
ENTROPY = [np.log(8) - (2 * np.log(2) + 5 * np.log(5)) / 8, np.log(8) - 6 * np.log(6) / 8]
MEAN = np.array([[1, -1], [0, 3]], np.float32)
LOG_STD = np.log(np.array([[0.5, 2], [1, 1]], np.float32))
ACTION = np.array([[2, -1], [-1, 1]], np.float32)


@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_categorical(shift: float) -> None:
    policy = Categorical(tf.constant(LOGITS + np.float32(shift)))
    tolerance = 1e-6 if shift == 0 else 1e-3  # float32 has so many digits
    assert policy.mode().numpy().tolist() == [2, 0]
    assert policy.mode().dtype == tf.int32
    np.testing.assert_allclose(policy.log_prob(tf.constant([1, 0])), np.log([2 / 8, 6 / 8]), rtol=tolerance)
    np.testing.assert_allclose(policy.log_prob(tf.constant([2, 2])), np.log([5 / 8, 1 / 8]), rtol=tolerance)
    np.testing.assert_allclose(policy.entropy(), ENTROPY, rtol=tolerance)


@pytest.mark.parametrize(
    ("logits", "mode", "log_prob", "entropy"),
    [
        ([1e30, -1e30, -1e30], 0, [0, -2e30, -2e30], 0),
        ([1e4, 1e4, -1e4], 0, [-np.log(2), -np.log(2), -2e4 - np.log(2)], np.log(2)),
    ],
)
def test_extreme_logits(logits: list[float], mode: int, log_prob: list[float], entropy: float) -> None:
    policy = Categorical(tf.constant([logits] * 3))
    actions = tf.constant([0, 1, 2])
    assert policy.mode().numpy().tolist() == [mode] * 3
    np.testing.assert_allclose(policy.log_prob(actions), log_prob, rtol=1e-6)
    np.testing.assert_allclose(policy.entropy(), [entropy] * 3, rtol=1e-6)
    for function in (lambda x: Categorical(x).log_prob(actions), lambda x: Categorical(x).entropy()):
        (gradient,) = gradients(function, [logits] * 3)
        assert np.isfinite(gradient).all()
        np.testing.assert_allclose(gradient.sum(1), 0, atol=1e-6)  # a shift of all logits changes nothing


@pytest.mark.parametrize("log_std", [-15.0, 15.0])
def test_gradients_of_extreme_standard_deviations_are_finite(log_std: float) -> None:
    for gradient in gradients(
        lambda m, s: Gaussian(m, s).log_prob(tf.constant(ACTION)), MEAN, np.full((2, 2), log_std)
    ):
        assert np.isfinite(gradient).all()


def test_bernoulli() -> None:
    policy = Bernoulli(tf.math.log([[1.0, 3.0], [1.0, 1 / 3]]))  # probabilities of 1: 1/2, 3/4 and 1/2, 1/4
    assert policy.mode().numpy().tolist() == [[0, 1], [0, 0]]
    log_prob = policy.log_prob(tf.constant([[1.0, 1], [0, 1]]))
    np.testing.assert_allclose(log_prob, np.log([0.375, 0.125]), rtol=1e-6)
    both = np.log(2) - 0.25 * np.log(0.25) - 0.75 * np.log(0.75)
    np.testing.assert_allclose(policy.entropy(), [both, both], rtol=1e-6)
    logits = tf.Variable([[-1e4, 0.0, 1e4]])
    with tf.GradientTape(persistent=True) as tape:
        policy = Bernoulli(logits)
        log_prob, entropy = policy.log_prob(tf.constant([[1.0, 1, 1]])), policy.entropy()
    assert log_prob.numpy() == pytest.approx(-1e4 - np.log(2))
    np.testing.assert_allclose(tape.gradient(log_prob, logits), [[1, 0.5, 0]], atol=1e-6)
    np.testing.assert_allclose(tape.gradient(entropy, logits), [[0, 0, 0]], atol=1e-6)


def test_independent_parts_add() -> None:
    parts: dict[str, Any] = {"a/b": Categorical(tf.math.log([[1.0, 3]])), "c": Bernoulli(tf.zeros([1, 2]))}
    joint = Joint(parts)
    assert {name: mode.numpy().tolist() for name, mode in joint.mode().items()} == {"a/b": [1], "c": [[0, 0]]}
    log_prob = joint.log_prob({"a/b": tf.constant([0]), "c": tf.constant([[1.0, 0]])})
    np.testing.assert_allclose(log_prob, [np.log(1 / 16)], rtol=1e-6)
    entropy = -0.25 * np.log(0.25) - 0.75 * np.log(0.75) + 2 * np.log(2)
    np.testing.assert_allclose(joint.entropy(), [entropy], rtol=1e-6)


@pytest.mark.parametrize(("mean", "std"), [(-1.5, 0.5)])
def test_squashed_gaussian_integrated_by_scipy(mean: float, std: float) -> None:
    """In a Box from -1 to 5, whose volume is 3 times that of -1 .. 1."""
    integrate, stats = pytest.importorskip("scipy.integrate"), pytest.importorskip("scipy.stats")

    def density(action: float) -> float:
        return float(stats.norm.pdf(np.arctanh(action), mean, std) / (1 - action**2) / 3)

    policy = SquashedGaussian(tf.constant([[mean]]), tf.constant([[np.log(std)]], tf.float32), np.log(3))
    np.testing.assert_allclose(policy.mode(), [[np.tanh(mean)]], rtol=1e-6)
    actions = np.tanh(mean + std * np.array([-2, -0.5, 0, 1.3], np.float32))
    many = SquashedGaussian(tf.fill([4, 1], mean), tf.fill([4, 1], np.float32(np.log(std))), np.log(3))
    expected = [np.log(density(action)) for action in actions]
    np.testing.assert_allclose(many.log_prob(tf.constant(actions[:, None], tf.float32)), expected, rtol=1e-4, atol=1e-4)

    def term(u: float) -> float:  # of the entropy, in terms of what is squashed: -log p(a), and p(a) da = N(u) du
        log_density = stats.norm.logpdf(u, mean, std) + 2 * np.log(np.cosh(u)) - np.log(3)
        return float(-log_density * stats.norm.pdf(u, mean, std))

    entropy, _ = integrate.quad(term, mean - 9 * std, mean + 9 * std)
    np.testing.assert_allclose(policy.entropy(), [entropy], rtol=1e-4, atol=1e-4)


def test_squashed_components_add_and_bounds_have_a_density() -> None:
    mean, log_std = tf.constant([[0.5, -1.0]]), tf.constant([[0.1, -0.4]])
    both = SquashedGaussian(mean, log_std, 0.0)
    each = [SquashedGaussian(mean[:, i : i + 1], log_std[:, i : i + 1], 0.0) for i in range(2)]
    action = tf.constant([[1.0, -0.999]])  # the first at the bound
    np.testing.assert_allclose(both.entropy(), sum(one.entropy() for one in each), rtol=1e-6)
    log_prob = both.log_prob(action)
    np.testing.assert_allclose(
        log_prob, sum(one.log_prob(action[:, i : i + 1]) for i, one in enumerate(each)), rtol=1e-6
    )
    assert np.isfinite(log_prob).all()


ONE_FIFTH_OF_FIVE = 0.2 * np.log(0.2 / 0.5) + 0.8 * np.log(0.8 / 0.5)
"""Of a coin that is 1 in a fifth of all throws from a fair one."""


def test_kl_is_among_legal_actions() -> None:
    mask = tf.constant([[True, False, True]])
    one, other = (Categorical(tf.constant(logits), mask) for logits in (LOGITS[:1], LOGITS[1:]))
    np.testing.assert_allclose(one.kl(other), [(np.log(7 / 6 / 6) + 5 * np.log(5 * 7 / 6)) / 6], rtol=1e-5)


def test_kl_of_bernoulli_and_gaussian() -> None:
    one, other = Bernoulli(tf.math.log([[0.25, 1.0]])), Bernoulli(tf.constant([[0.0, 1e4]]))
    np.testing.assert_allclose(one.kl(other), [ONE_FIFTH_OF_FIVE + 0.5 * (1e4 - 2 * np.log(2))], rtol=1e-5)
    assert one.kl(one).numpy().tolist() == [0]
    # log(s2 / s1) + (s1^2 + (m1 - m2)^2) / (2 s2^2) - 1/2, of each component.
    normal, farther = Gaussian(MEAN, LOG_STD), Gaussian(tf.constant(MEAN[::-1]), tf.constant(LOG_STD[::-1]))
    first = np.log(2) + (0.25 + 1) / 2 - 0.5 + np.log(1 / 2) + (4 + 16) / 2 - 0.5
    second = np.log(1 / 2) + (1 + 1) / 0.5 - 0.5 + np.log(2) + (1 + 16) / 8 - 0.5
    np.testing.assert_allclose(normal.kl(farther), [first, second], rtol=1e-5)
    squashed = [
        SquashedGaussian(mean, log_std, np.log(3)) for mean, log_std in ((MEAN, LOG_STD), (MEAN[::-1], LOG_STD[::-1]))
    ]
    np.testing.assert_array_equal(squashed[0].kl(squashed[1]), normal.kl(farther))
    joint = Joint({"bits": one, "throw": Gaussian(MEAN[:1], LOG_STD[:1])})
    others = Joint({"throw": Gaussian(MEAN[1:], LOG_STD[1:]), "bits": other})
    np.testing.assert_allclose(joint.kl(others), one.kl(other) + normal.kl(farther)[:1], rtol=1e-6)


def test_beta() -> None:
    alpha, beta = np.array([[2, 1], [5.5, 300]], np.float32), np.array([[3, 1], [1.5, 200]], np.float32)
    policy = Beta(tf.constant(alpha), tf.constant(beta), -1.0, 3.0)
    np.testing.assert_allclose(policy.mode(), [[-1 + 4 / 3, 1], [-1 + 4 * 4.5 / 5, -1 + 4 * 299 / 498]], rtol=1e-6)
    np.testing.assert_allclose(policy.mean(), -1 + 4 * alpha / (alpha + beta), rtol=1e-5)
    # 12 x (1 - x)^2 of the first component, at x = 1/2; 1 of the second; each over the range of 4
    log_prob = policy.log_prob(tf.constant([[1.0, 0.0], [2.0, 1.5]]))
    assert log_prob[0].numpy() == pytest.approx(np.log(1.5) - 2 * np.log(4), abs=1e-5)
    for edge in (-1.0, 3.0):
        assert np.isfinite(policy.log_prob(tf.fill([2, 2], edge))).all()
    other = Beta(tf.constant(alpha + 1), tf.constant(beta), -1.0, 3.0)
    np.testing.assert_allclose(policy.kl(policy), [0, 0], atol=1e-6)
    assert (policy.kl(other).numpy() > 0).all()
    stats = pytest.importorskip("scipy.stats")
    theirs = stats.beta(alpha.astype(float), beta.astype(float), -1.0, 4.0)
    np.testing.assert_allclose(log_prob, theirs.logpdf([[1.0, 0.0], [2.0, 1.5]]).sum(-1), rtol=1e-5)
    np.testing.assert_allclose(policy.entropy(), theirs.entropy().sum(-1), rtol=1e-4, atol=1e-4)
    draws = theirs.rvs((100_000, 2, 2), random_state=0)
    ratio = theirs.logpdf(draws) - stats.beta(alpha.astype(float) + 1, beta.astype(float), -1.0, 4.0).logpdf(draws)
    np.testing.assert_allclose(policy.kl(other), ratio.mean(0).sum(-1), atol=0.01)
