"""Conjugate gradients against numpy.linalg, and which step a line search takes."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks import trust_region

F32 = np.float32


def positive_definite(size: int) -> tuple[Any, Any]:
    """A matrix with eigenvalues 1 .. size, and a vector."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return (basis * np.arange(1, size + 1)) @ basis.T, rng.normal(size=size)


def solved(matrix: Any, target: Any, iterations: int) -> Any:
    matrix = tf.constant(matrix, tf.float32)
    product = lambda vector: tf.linalg.matvec(matrix, vector)  # noqa: E731
    return trust_region.conjugate_gradient(product, tf.constant(target, tf.float32), iterations)


def test_conjugate_gradients_solve() -> None:
    matrix, target = positive_definite(6)
    np.testing.assert_allclose(solved(matrix, target, 6), np.linalg.solve(matrix, target), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(solved(matrix, target, 50), np.linalg.solve(matrix, target), rtol=1e-4, atol=1e-5)


def test_fewer_iterations_are_the_best_of_their_krylov_space() -> None:
    """After k iterations x is what of b, H b, ..., H^(k-1) b is nearest to the solution, in the norm of H."""
    matrix, target = positive_definite(6)
    krylov = np.stack([np.linalg.matrix_power(matrix, k) @ target for k in range(3)], axis=1)
    expected = krylov @ np.linalg.solve(krylov.T @ matrix @ krylov, krylov.T @ target)
    np.testing.assert_allclose(solved(matrix, target, 3), expected, rtol=1e-4)
    assert np.abs(expected - np.linalg.solve(matrix, target)).max() > 0.01


@pytest.mark.parametrize("target", [[0.0, 0.0], [np.inf, 1.0]])
def test_nothing_solves_what_is_zero_or_not_finite(target: Any) -> None:
    assert solved(np.eye(2), target, 5).numpy().tolist() == [0, 0]


START = np.array([0.1, -0.3], F32)
STEP = np.array([8.0, 0.0], F32)


def searched(gain: Any, step: Any = STEP, **settings: Any) -> trust_region.Step:
    """From START; the divergence is the distance."""

    def evaluate(weights: Any) -> Any:
        tried.append(weights.numpy())
        distance = tf.norm(weights - START)
        return gain(distance), distance

    tried: list[Any] = []
    settings = {"max_kl": 100.0, "steps": 4, "shrink": 0.5, **settings}
    found = trust_region.line_search(evaluate, tf.constant(START), tf.constant(step, tf.float32), **settings)
    assert len(tried) <= settings["steps"]
    return found


@pytest.mark.parametrize(
    ("max_kl", "highest", "fraction"),
    [
        (100, 100, 1.0),
        (100, 5, 0.5),  # ... and gains nothing
        (3, 1.5, 0.125),
    ],
)
def test_the_longest_step_that_improves_within_the_region(max_kl: float, highest: float, fraction: float) -> None:
    found = searched(lambda distance: 1.0 if distance < highest else 0.0, max_kl=max_kl)
    assert found.fraction == fraction
    np.testing.assert_array_equal(found.weights, START + F32(fraction) * STEP)
    assert found.gain == 1
    assert float(found.kl) == pytest.approx(8 * fraction, rel=1e-5)


@pytest.mark.parametrize(
    ("gain", "step", "settings"),
    [
        (lambda distance: 0.0 * distance, STEP, {}),  # no gain is none
        (lambda distance: 1.0, STEP, {"max_kl": 0.9}),
        (lambda distance: 1.0 if distance < 2.5 else -1.0, STEP, {"steps": 2}),
        (lambda distance: np.nan, STEP, {}),
        (lambda distance: 1.0, [np.inf, 0], {}),
    ],
)
def test_where_nothing_is_found_the_weights_are_what_they_were(gain: Any, step: Any, settings: Any) -> None:
    found = searched(gain, step, **settings)
    assert found.weights.numpy().tobytes() == START.tobytes()
    assert (found.fraction, found.gain, found.kl) == (0, 0, 0)


def test_steps_may_become_shorter_by_equal_parts() -> None:
    found = searched(lambda distance: 1.0 if distance < 4 else 0.0, shrink=0.3, linear=True)
    assert found.fraction.numpy() == pytest.approx(0.4)  # of 1, 0.7, 0.4 and 0.1
    found = searched(lambda distance: 1.0 if 0 < distance < 1 else 0.0, shrink=0.6, linear=True)
    assert found.fraction == 0  # of 1, 0.4 and 0: never backwards
