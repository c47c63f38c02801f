"""Critics: an ensemble is what as many networks would be."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks.critics import CriticEnsemble
from axonrl.models.blocks.networks import DenseParams

PARAMS = DenseParams(hidden=(5, 4), activation="tanh")


@pytest.mark.parametrize("outputs", [None, 3])
def test_an_ensemble_values_as_networks_of_the_same_weights(outputs: int | None) -> None:
    rng = np.random.default_rng(0)
    ensemble = CriticEnsemble("critics", 3, PARAMS, 4, outputs=outputs)
    for variable in ensemble.variables:
        variable.assign(rng.normal(size=variable.shape))
    observation, action = rng.normal(size=(6, 2)), rng.normal(size=(6, 1))
    inputs = np.concatenate([observation, action], axis=1)
    given: list[Any] = [tf.constant(value, tf.float32) for value in (observation, action, inputs)]
    found = ensemble(given[2]) if outputs else ensemble(*given[:2])
    assert len(found) == 4
    weights = [variable.numpy().astype(np.float64) for variable in ensemble.variables]
    for i, values in enumerate(found):
        w1, b1, w2, b2, w3, b3 = (weight[i] for weight in weights)
        expected = np.tanh(np.tanh(inputs @ w1 + b1) @ w2 + b2) @ w3 + b3
        np.testing.assert_allclose(values, expected if outputs else expected[:, 0], rtol=1e-4, atol=1e-6)


def test_each_critic_begins_as_a_network_of_its_own_and_targets_at_zero() -> None:
    kernels = [variable.numpy() for variable in CriticEnsemble("critics", 300, PARAMS, 3).variables[::2]]
    assert [kernel.shape for kernel in kernels] == [(3, 300, 5), (3, 5, 4), (3, 4, 1)]
    for kernel in kernels:
        limit = np.sqrt(6 / sum(kernel.shape[1:]))  # glorot_uniform's of one network
        assert 0.5 * limit < np.abs(kernel).max() < limit
        assert not (kernel[0] == kernel[1]).any()
        assert not (kernel[1] == kernel[2]).any()
    targets = CriticEnsemble("targets", 300, PARAMS, 3, zeros=True).variables
    assert all(not keras.ops.any(variable) for variable in targets)
