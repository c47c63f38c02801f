"""A part of an update that runs only where it is due."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from axonrl import EstimatorSpec, RunConfig
from axonrl.models.blocks.conditional import run_if
from axonrl.tests.models.executed import Model

CONFIG = RunConfig(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2))


def model_fn(features: Any, labels: Mapping[str, Any] | None, mode: str, params: Any) -> EstimatorSpec:
    """Adds the reward to ``total`` where the period divides global_step, by a gradient."""
    total = keras.Variable(np.float32(10), name="total")
    if labels is None:
        return EstimatorSpec(mode, {"action": tf.cast(features[:, 0] * total.value, tf.int32)})
    optimizer = keras.optimizers.SGD(1.0)
    optimizer.build([total])
    reward = tf.reduce_sum(labels["reward"])

    def learn() -> list[Any]:
        (gradient,) = tf.gradients(-reward * total.value, [total.value])
        optimizer.apply([gradient], [total])
        return [reward * 2, tf.stack([reward, -reward])]

    due = tf.equal(labels["global_step"] % params["period"], 0)
    one, two = run_if(due, learn, [tf.constant(-1.0), tf.constant([8.0, 9.0])])
    run_if(due, lambda: [])
    return EstimatorSpec(mode, loss=one, metrics={"first": two[0], "second": two[1], "total": total.value})


def test_it_runs_where_it_is_due_and_changes_nothing_elsewhere() -> None:
    batch = {"observation": np.zeros((2, 1), np.float32), "action": np.zeros(2, np.int32)}
    batch |= {name: np.full(2, 1.5, np.float32) for name in ("reward", "terminated", "truncated", "discount")}
    batch["next_observation"] = batch["observation"]
    model = Model(model_fn, {"period": 3}, CONFIG, batch, "litert")
    found = [list(model.train(step).values())[:4] for step in range(5)]
    rested = [-1, 8, 9]
    assert found == [[6, 3, -3, 13], [*rested, 13], [*rested, 13], [6, 3, -3, 16], [*rested, 16]]
    assert [int(value) for name, value in model.weights.items() if "iteration" in name] == [2]
