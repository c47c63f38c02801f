"""Rows of rollouts, and passes over them in minibatches; PPO's tests run them with a network."""

import numpy as np
import pytest
import tensorflow as tf

from axonrl.errors import ArgumentError
from axonrl.models.blocks import rollouts


def test_normalized() -> None:
    np.testing.assert_allclose(rollouts.normalize(tf.constant([3.0, 1.0, 1.0, 3.0])), [1, -1, -1, 1], rtol=1e-6)
    for equal in ([5.0, 5.0], [1e6, np.nextafter(np.float32(1e6), np.float32(2e6)), 1e6]):  # but for rounding
        assert rollouts.normalize(tf.constant(equal)).numpy().tolist() == [0.0] * len(equal)
    with pytest.raises(ArgumentError, match="leaves nothing to learn from 1 timestep: make") as error:
        rollouts.normalize(tf.constant([5.0]))
    assert error.value.argument == "normalize_advantages"


@pytest.mark.parametrize(("value", "explained"), [([1, 2, 3, 3], 0.85), ([7, 7, 7, 7], 0)])
def test_explained_variance(value: list[float], explained: float) -> None:
    values, returns = (
        tf.constant(value, tf.float32),
        tf.constant([1.0, 2, 3, 4]),
    )  # of variance 1.25; case 2 leaves 0.1875
    assert float(rollouts.explained_variance(values, returns)) == pytest.approx(explained)
    assert float(rollouts.explained_variance(values, tf.fill([4], 0.1))) == 0


def test_minibatches_divide_the_rollout() -> None:
    for size in (3, 8):
        with pytest.raises(ArgumentError, match=f"must divide the rollout of 4 timesteps, got {size}") as error:
            rollouts.over_minibatches(dict, {"x": tf.range(4.0)}, ["sum"], 1, size, stop_above=("sum", None))
        assert error.value.argument == "minibatch_size"
