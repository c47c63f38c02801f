"""A small network that learns, for the tests of executors."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from axonrl.contracts import EstimatorSpec, Modes


def network(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    net = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    q = net(features)
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"q": q, "action": tf.argmax(q, -1, output_type=tf.int32)})
    error = labels["reward"] + labels["discount"] - tf.gather(q, labels["action"], axis=1, batch_dims=1)
    loss = tf.reduce_mean(tf.square(error))
    variables = net.trainable_variables
    keras.optimizers.Adam(0.01).apply(tf.gradients(loss, [v.value for v in variables]), variables)
    metrics = {"timestep": tf.cast(labels["global_timestep"], tf.float32) / 2**40, "step": labels["global_step"]}
    return EstimatorSpec(mode, loss=loss, td_error=error, metrics=metrics)
