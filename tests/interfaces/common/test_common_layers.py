"""Initial values of layers that are given: outputs by hand."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.errors import ArgumentError
from axonrl.interfaces.common.layers.layer import Layer, Step
from axonrl.interfaces.common.layers.layers import Convolution2d, Dense, Linear
from axonrl.interfaces.common.value_specs import ValueSpec

VECTOR = ValueSpec("", "float", (3,))
IMAGE = ValueSpec("", "float", (3, 4, 2))


def output(layer: Layer, x: Any) -> Any:
    return layer(tf.constant(x, tf.float32), Step(training=False)).numpy().tolist()


def test_numbers_arrays_and_a_convolution() -> None:
    layer = Dense("d", VECTOR, 2, activation=None, kernel_initializer=0.5, bias_initializer=np.array([1, -1]))
    assert output(layer, [[1, 2, 3]]) == [[4.0, 2.0]]  # 0.5 * 6, and the bias
    kernel = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    assert output(Linear("d", VECTOR, 2, bias=False, kernel_initializer=kernel), [[1, 10, 100]]) == [[301.0, 20.0]]
    moving = Convolution2d(
        "c", IMAGE, 1, 2, (1, 2), "valid", kernel_initializer=1.0, bias_initializer=-7, activation="relu"
    )
    x = np.arange(24).reshape(1, 3, 4, 2)
    sums = [[x[0, i : i + 2, j : j + 2].sum() - 7.0 for j in (0, 2)] for i in (0, 1)]
    assert output(moving, x) == [[[[one] for one in row] for row in sums]]
    assert sums[0][0] == 0 + 1 + 2 + 3 + 8 + 9 + 10 + 11 - 7


@pytest.mark.parametrize(
    ("argument", "given"),
    [("kernel_initializer", np.zeros((3, 1))), ("kernel_initializer", float("nan")), ("bias_initializer", "zeros")],
)
def test_values_that_do_not_fit_are_refused(argument: str, given: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        Dense("d", VECTOR, 2, **{argument: given})
    assert caught.value.argument == f"d: {argument}"
