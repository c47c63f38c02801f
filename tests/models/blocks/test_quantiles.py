"""Quantile regression against numbers worked out by hand."""

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks import quantiles

PREDICTED = np.array([[0.0, 2.0], [1.0, 1.0]], np.float32)
TARGETS = np.array([[0.5, 1.0, 4.0], [1.0, 1.0, -2.0]], np.float32)
FRACTIONS = np.array([0.25, 0.75], np.float32)
# target - quantile: [[0.5, 1, 4], [-1.5, -1, 2]] and twice [0, 0, -3]
# kappa 1: Huber [[0.125, 0.5, 3.5], [1, 0.5, 1.5]] and [0, 0, 2.5]; weights 1/4 (above) and 3/4 (below) for the first
# quantile, 3/4 and 1/4 for the second
HUBER = [0.25 * (0.125 + 0.5 + 3.5) / 3 + (0.25 * (1 + 0.5) + 0.75 * 1.5) / 3, (0.75 + 0.25) * 2.5 / 3]
# kappa 2, divided by it: Huber [[0.125, 0.5, 6], [1.125, 0.5, 2]] and [0, 0, 4]
WIDE = [(0.25 * (0.125 + 0.5 + 6) + 0.25 * (1.125 + 0.5) + 0.75 * 2) / 6, 4 / 6]
PLAIN = [0.25 * (0.5 + 1 + 4) / 3 + (0.25 * (1.5 + 1) + 0.75 * 2) / 3, 3 / 3]


@pytest.mark.parametrize(("kappa", "expected"), [(1.0, HUBER), (2.0, WIDE), (0.0, PLAIN)])
def test_the_loss(kappa: float, expected: list[float]) -> None:
    found = quantiles.quantile_loss(tf.constant(PREDICTED), FRACTIONS, tf.constant(TARGETS), kappa)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_each_row_may_have_fractions_of_its_own() -> None:
    fractions = tf.constant([[0.25, 0.75], [0.5, 0.1]])
    found = quantiles.quantile_loss(tf.constant(PREDICTED), fractions, tf.constant(TARGETS), 1.0)
    np.testing.assert_allclose(found, [HUBER[0], (0.5 + 0.9) * 2.5 / 3], rtol=1e-6)


def test_targets_and_midpoints() -> None:
    inputs = [tf.constant(x) for x in ([1.0, -1.0], [0.5, 0.0], [[2.0, 4.0, -6.0], [1.0, 2.0, 3.0]])]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        found = quantiles.target(*inputs)
    np.testing.assert_allclose(found, [[2, 3, -2], [-1, -1, -1]])
    assert tape.gradient(found, inputs) == [None] * 3
    np.testing.assert_allclose(quantiles.midpoints(4), [0.125, 0.375, 0.625, 0.875])
    assert quantiles.midpoints(3).dtype == np.float32
