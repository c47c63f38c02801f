from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.explorations import Linear
from axonrl.models import optimizers


def test_gradients_are_scaled_down_together() -> None:
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = optimizers.clip_by_global_norm(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[0], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [[0.8]], rtol=1e-6)


@pytest.mark.parametrize("max_norm", [None, 5.0, 6.0])
def test_gradients_within_the_norm_are_left(max_norm: float | None) -> None:
    clipped, norm = optimizers.clip_by_global_norm([tf.constant([3.0, 4.0])], max_norm)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[0], [3.0, 4.0], rtol=1e-6)


def test_zero_gradients_stay_zero() -> None:
    clipped, norm = optimizers.clip_by_global_norm([tf.zeros(2)], 1.0)
    assert float(norm) == 0
    assert clipped[0].numpy().tolist() == [0.0, 0.0]


def test_the_learning_rate_follows_the_step() -> None:
    variable = keras.Variable([1.0])
    for step, expected in enumerate([0.5, 0.25, 0.25]):  # 1 -> 0.5 at 0.5; then 0.25 each
        rate = optimizers.learning_rate_at(Linear(0.5, 0.25, 1), tf.constant(step, tf.int64))
        assert rate.dtype == tf.float32
        assert float(rate) == expected
        before = float(variable[0])
        optimizers.make_optimizer("sgd", rate).apply([tf.constant([1.0])], [variable])
        assert float(variable[0]) == pytest.approx(before - expected)


@pytest.mark.parametrize("name", sorted(optimizers.OPTIMIZERS))
def test_every_optimizer_moves_against_the_gradient(name: str) -> None:
    variable = keras.Variable(np.ones((2, 2), np.float32))
    optimizer: Any = optimizers.make_optimizer(name, tf.constant(0.1))
    for _ in range(3):
        optimizer.apply([tf.ones((2, 2))], [variable])
    assert float(tf.reduce_max(variable.value)) < 1
    assert not any("learning_rate" in v.name for v in optimizer.variables)  # it is the graph's, not a variable


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"optimizer must be one of .*; got 'Adam' \(did you mean 'adam'\?\)"):
        optimizers.make_optimizer("Adam", tf.constant(0.1))
    with pytest.raises(ValueError, match=r"learning_rate must stay in 0 \.\. inf, got -1"):
        optimizers.learning_rate_at(-1, tf.constant(0, tf.int64))
