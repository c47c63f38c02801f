"""The beta and digamma functions, against scipy's."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks import gamma

special = pytest.importorskip("scipy.special")

GRID = np.array([0.3, 1.0, 1.001, 1.5, 3.0, 20.0, 400.0, 1e5], np.float32)
A, B = (part.reshape(-1) for part in np.meshgrid(GRID, GRID))


def derivatives(function: Any, order: int, x: Any) -> Any:
    variable = tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(variable)
        with tf.GradientTape() as inner:
            inner.watch(variable)
            value = function(variable)
        first = inner.gradient(value, variable)
    return first if order == 1 else outer.gradient(first, variable)


def test_log_beta_and_digamma() -> None:
    assert gamma.log_beta(tf.constant(1.0), tf.constant(1.0)).numpy() == pytest.approx(0, abs=1e-6)
    assert gamma.log_beta(tf.constant(2.0), tf.constant(3.0)).numpy() == pytest.approx(-np.log(12), abs=2e-6)
    np.testing.assert_allclose(gamma.log_beta(A, B), special.betaln(A.astype(float), B), rtol=2e-6, atol=3e-6)
    assert gamma.digamma(tf.constant(1.0)).numpy() == pytest.approx(-np.euler_gamma, abs=1e-6)
    np.testing.assert_allclose(gamma.digamma(GRID), special.digamma(GRID.astype(float)), rtol=2e-6, atol=1e-6)


def test_derivatives_of_log_beta_are_polygamma_functions() -> None:
    x = GRID[:6]
    first = special.digamma(x.astype(float)) - special.digamma(x.astype(float) + 2)
    second = special.polygamma(1, x.astype(float)) - special.polygamma(1, x.astype(float) + 2)
    function = lambda a: gamma.log_beta(a, tf.fill(a.shape, 2.0))  # noqa: E731
    np.testing.assert_allclose(derivatives(function, 1, x), first, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(derivatives(function, 2, x), second, rtol=1e-3, atol=1e-6)
