"""How a target network follows; its parts inside of DQN are tested with DQN."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.errors import ArgumentError
from axonrl.models.blocks.critics import CriticEnsemble
from axonrl.models.blocks.networks import DenseParams
from axonrl.models.blocks.optimizers import LARGE
from axonrl.models.blocks.targets import TargetParams, update_target


def test_one_way_only() -> None:
    assert (TargetParams().target_update_period, TargetParams().target_update_rate) == (100, None)
    soft = TargetParams(target_update_rate=0.005)
    assert (soft.target_update_period, soft.target_update_rate) == (None, 0.005)
    with pytest.raises(ArgumentError, match=r"not both; got 5 and 0\.1") as error:
        TargetParams(target_update_rate=0.1, target_update_period=5)
    assert error.value.argument == "target_update_rate"
    for period, rate in [(None, None), (5, 0.1)]:
        with pytest.raises(ArgumentError, match=f"needs a period or a rate, got {period} and {rate}"):
            update_target([], [], tf.constant(0, tf.int64), period=period, rate=rate)


@pytest.mark.parametrize("size", [4, LARGE])
def test_copies_at_every_period(size: int) -> None:
    """A large target may share the memory of what it is a copy of, until that changes."""
    online, target = (keras.Variable(np.full((2, size // 2), value, np.float32)) for value in (1.0, 9.0))

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def update(step: Any) -> None:
        update_target([online], [target], step, period=2, rate=None)
        online.assign_add(tf.ones_like(online.value))

    found = []
    for step in range(4):
        update(tf.constant(step, tf.int64))
        found.append((float(online.numpy().min()), *np.unique(target.numpy()).tolist()))
    assert found == [(2.0, 1.0), (3.0, 1.0), (4.0, 3.0), (5.0, 3.0)]


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
