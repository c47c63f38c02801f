"""Distributions over returns, on the atoms 0, 1, 2 and by quantiles, against numbers worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks import distributional, quantiles

ATOMS = distributional.support(0.0, 2.0, 3)
P = [0.2, 0.3, 0.5]  # of 0, 1 and 2 after the next observation

# (reward, discount, target)
TARGETS: dict[str, tuple[float, float, list[float]]] = {
    "nothing changes": (0.0, 1.0, P),
    "every value on an atom": (1.0, 0.5, [0.0, 0.2 + 0.3 / 2, 0.3 / 2 + 0.5]),  # values 1, 1.5, 2
    "between two atoms": (0.25, 0.5, [0.2 * 0.75 + 0.3 * 0.25, 0.2 * 0.25 + 0.3 * 0.75 + 0.5 * 0.75, 0.5 * 0.25]),
    "terminated": (0.25, 0.0, [0.75, 0.25, 0.0]),  # all values are the reward
    "terminated on an atom": (1.0, 0.0, [0.0, 1.0, 0.0]),
    "truncated": (0.5, 1.0, [0.1, 0.1 + 0.15, 0.15 + 0.5]),  # bootstraps; values 0.5, 1.5, 2.5, clipped to 2
    "above all atoms": (5.0, 1.0, [0.0, 0.0, 1.0]),
    "below all atoms": (-3.0, 0.5, [1.0, 0.0, 0.0]),
    "on the bounds": (2.0, 0.0, [0.0, 0.0, 1.0]),
    "three steps": (1.5, 0.125, [0.0, 0.2 * 0.5 + 0.3 * 0.375 + 0.5 * 0.25, 0.2 * 0.5 + 0.3 * 0.625 + 0.5 * 0.75]),
}


def test_the_projected_target() -> None:
    rewards, discounts, expected = zip(*TARGETS.values(), strict=True)
    reward, discount, p = inputs = [tf.constant(x) for x in (rewards, discounts, [P] * len(TARGETS))]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        found = distributional.projected_target(reward, discount, p, ATOMS)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(tf.reduce_sum(found, axis=-1), 1, atol=1e-6)
    assert tape.gradient(found, inputs) == [None] * 3


PREDICTED = np.array([[0.0, 2.0], [1.0, 1.0]], np.float32)
SAMPLES = np.array([[0.5, 1.0, 4.0], [1.0, 1.0, -2.0]], np.float32)
FRACTIONS = np.array([0.25, 0.75], np.float32)
# target - quantile: [[0.5, 1, 4], [-1.5, -1, 2]] and twice [0, 0, -3]
# kappa 1: Huber [[0.125, 0.5, 3.5], [1, 0.5, 1.5]] and [0, 0, 2.5]; weights 1/4 (above) and 3/4 (below) for the first
# quantile, 3/4 and 1/4 for the second
HUBER = [0.25 * (0.125 + 0.5 + 3.5) / 3 + (0.25 * (1 + 0.5) + 0.75 * 1.5) / 3, (0.75 + 0.25) * 2.5 / 3]
# kappa 2, divided by it: Huber [[0.125, 0.5, 6], [1.125, 0.5, 2]] and [0, 0, 4]
WIDE = [(0.25 * (0.125 + 0.5 + 6) + 0.25 * (1.125 + 0.5) + 0.75 * 2) / 6, 4 / 6]
PLAIN = [0.25 * (0.5 + 1 + 4) / 3 + (0.25 * (1.5 + 1) + 0.75 * 2) / 3, 3 / 3]


@pytest.mark.parametrize(("kappa", "expected"), [(1.0, HUBER), (2.0, WIDE), (0.0, PLAIN)])
def test_the_quantile_loss(kappa: float, expected: list[float]) -> None:
    found = quantiles.quantile_loss(tf.constant(PREDICTED), FRACTIONS, tf.constant(SAMPLES), kappa)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_each_row_may_have_fractions_of_its_own() -> None:
    fractions = tf.constant([[0.25, 0.75], [0.5, 0.1]])
    found = quantiles.quantile_loss(tf.constant(PREDICTED), fractions, tf.constant(SAMPLES), 1.0)
    np.testing.assert_allclose(found, [HUBER[0], (0.5 + 0.9) * 2.5 / 3], rtol=1e-6)
