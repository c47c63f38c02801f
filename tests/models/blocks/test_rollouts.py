"""Rows of rollouts, and passes over them in minibatches; PPO's tests run them with a network."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl import noise
from axonrl.errors import ArgumentError
from axonrl.models.blocks import rollouts


def test_rows_are_ordered_by_timestep_and_then_by_environment() -> None:
    tree = {"a": tf.reshape(tf.range(12), [3, 2, 2]), "b": {"c": tf.constant([[1, 2], [3, 4], [5, 6]])}}
    found = rollouts.rows(tree)
    assert found["a"].numpy().tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    assert found["b"]["c"].numpy().tolist() == [1, 2, 3, 4, 5, 6]


def test_normalized() -> None:
    np.testing.assert_allclose(rollouts.normalized(tf.constant([3.0, 1.0, 1.0, 3.0])), [1, -1, -1, 1], rtol=1e-6)
    for equal in ([5.0, 5.0], [1e6, np.nextafter(np.float32(1e6), np.float32(2e6)), 1e6]):  # but for rounding
        assert rollouts.normalized(tf.constant(equal)).numpy().tolist() == [0.0] * len(equal)
    with pytest.raises(ArgumentError, match="leaves nothing to learn from minibatches of 1 timestep") as error:
        rollouts.normalized(tf.constant([5.0]))
    assert error.value.argument == "minibatch_size"


@pytest.mark.parametrize(("value", "explained"), [([1, 2, 3, 3], 0.85), ([7, 7, 7, 7], 0)])
def test_explained_variance(value: list[float], explained: float) -> None:
    values, returns = (
        tf.constant(value, tf.float32),
        tf.constant([1.0, 2, 3, 4]),
    )  # of variance 1.25; case 2 leaves 0.1875
    assert float(rollouts.explained_variance(values, returns)) == pytest.approx(explained)
    assert float(rollouts.explained_variance(values, tf.fill([4], 0.1))) == 0


@pytest.mark.parametrize(
    ("epochs", "limit", "visited", "mean"),
    [
        (2, None, [[3, 0], [2, 1], [0, 1], [2, 3]], (3 + 3 + 1 + 5) / 4),
        (2, 2.5, [[3, 0]], 3),  # the first update is already above
        (2, 4.0, [[3, 0], [2, 1], [0, 1], [2, 3]], 3),  # the last one is
    ],
)
def test_minibatches_are_parts_of_permutations(epochs: int, limit: Any, visited: Any, mean: float) -> None:
    orders = iter([[3, 0, 2, 1], [0, 1, 2, 3]])
    seen = tf.Variable(tf.fill([4, 2], -1.0), shape=[4, 2])
    count = tf.Variable(0)

    def update(rows: Any) -> Any:
        seen.scatter_nd_update([[count]], [rows["x"]])
        count.assign_add(1)
        return {"sum": tf.reduce_sum(rows["x"]), "other": tf.constant(1.0)}

    with noise.supplying(lambda request: tf.constant(next(orders))):
        found = rollouts.over_minibatches(
            update, {"x": tf.range(4.0)}, ["sum", "other"], epochs, 2, stop_above=("sum", limit)
        )
    assert seen.numpy()[: len(visited)].tolist() == visited
    assert {name: float(value) for name, value in found.items()} == {
        "sum": mean,
        "other": 1.0,
        "optimizer_steps": len(visited),
    }


def test_minibatches_divide_the_rollout() -> None:
    for size in (3, 8):
        with pytest.raises(ArgumentError, match=f"must divide the rollout of 4 timesteps, got {size}") as error:
            rollouts.over_minibatches(dict, {"x": tf.range(4.0)}, ["sum"], 1, size, stop_above=("sum", None))
        assert error.value.argument == "minibatch_size"
