"""Noisy layers against numbers worked out by hand."""

from typing import Any

import numpy as np
import tensorflow as tf

from axonrl import noise
from axonrl.errors import ArgumentError
from axonrl.models.blocks.networks import Network
from axonrl.models.blocks.noisy import NoisyNetworkParams
from axonrl.models.blocks.noisy_dense import NoisyDense
from axonrl.tests.raising import raised

X = tf.constant([[1.0, 2.0], [0.0, -1.0]])
DRAWN = tf.constant([4.0, -1.0, 9.0])  # of two inputs and one output; f(x) = sgn(x) sqrt(abs(x)): 2, -1 and 3


def layer() -> Any:
    made = NoisyDense(1, sigma=0.5)
    made.build((None, 2))
    for variable, value in zip(made.trainable_variables, [[[1], [2]], [[0.1], [0.2]], [0.5], [0.3]], strict=True):
        variable.assign(np.array(value, np.float32))
    return made


def test_outputs_and_gradients_for_given_noise() -> None:
    made = layer()
    assert [variable.name for variable in made.trainable_variables] == ["kernel", "kernel_sigma", "bias", "bias_sigma"]
    np.testing.assert_allclose(made(X), [[5.5], [-1.5]])  # no noise: x W + b
    with tf.GradientTape() as tape, noise.supplying(lambda request: DRAWN):
        outputs = made(X, training=True)
    # Noise of the kernel 2 * 3 and -1 * 3, of the bias 3: W = 1.6 and 1.4, b = 1.4.
    np.testing.assert_allclose(outputs, [[1.6 + 2.8 + 1.4], [-1.4 + 1.4]], rtol=1e-6, atol=1e-6)
    kernel, kernel_sigma, bias, bias_sigma = tape.gradient(outputs, [v.value for v in made.trainable_variables])
    np.testing.assert_allclose(kernel, [[1], [1]])  # the sums of the inputs
    np.testing.assert_allclose(kernel_sigma, [[6], [-3]])  # times their noise
    np.testing.assert_allclose((bias, bias_sigma), [[2], [6]])


def test_initial_values() -> None:
    made = NoisyDense(50, sigma=0.5)
    made.build((None, 100))
    kernel, kernel_sigma, bias, bias_sigma = [variable.numpy() for variable in made.trainable_variables]
    for mean in (kernel, bias):
        assert 0.08 < np.abs(mean).max() <= 0.1  # uniform within 1 / sqrt(100)
    np.testing.assert_allclose(kernel_sigma, 0.05)
    np.testing.assert_allclose(bias_sigma, 0.05)
    zeros = NoisyDense(2, sigma=0)
    zeros.build((None, 3))
    assert not any(variable.numpy().any() for variable in zeros.trainable_variables)


def test_an_initializer_of_zeros_would_leave_no_noise() -> None:
    assert NoisyNetworkParams(initializer="zeros").initializer == "zeros"
    error = raised(ArgumentError, NoisyNetworkParams, initializer="zeros", noisy=True)
    assert (error.argument, error.value) == ("initializer", "zeros")


def test_all_dense_layers_of_a_network_are_noisy() -> None:
    network = Network("online", (2,), {"q": 2, "v": 1}, NoisyNetworkParams(noisy=True, hidden=(3, 4)))
    names = [variable.path.removeprefix("online/").removeprefix("mlp/") for variable in network.variables]
    kernels = [name for name in names if name.endswith("/kernel")]
    assert len(kernels) == 4
    assert [name for name in names if "sigma" in name] == [
        f"{name.removesuffix('/kernel')}/{part}" for name in kernels for part in ("kernel_sigma", "bias_sigma")
    ]
