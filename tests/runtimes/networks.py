from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from axonrl.core.protocols import EstimatorSpec, Modes

Make = Callable[..., Any]
COUNTERS = {"global_step": 0, "global_timestep": 0, "progress": 0.0}
START = [[1.0, -1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 1.0]]


def linear(features: Any) -> tuple[Any, Any]:
    """A weight with values known beforehand, and Q values [B, 2]."""
    weight = tf.Variable(START, name="weight")
    return weight, features @ weight


def predict(q: Any) -> EstimatorSpec:
    return EstimatorSpec(Modes.PREDICT, {"action": tf.argmax(q, -1, output_type=tf.int32), "q": q})


def learning(train: Callable[[Any, Any, Any], EstimatorSpec]) -> Callable[..., EstimatorSpec]:
    """A linear model whose TRAIN is ``train(weight, q, labels)``."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight, q = linear(features)
        return predict(q) if mode == Modes.PREDICT else train(weight, q, labels)

    return model_fn


def minimize(loss: Any, variables: list[Any]) -> EstimatorSpec:
    keras.optimizers.SGD(0.1, name="sgd").apply(tf.gradients(loss, [v.value for v in variables]), variables)
    return EstimatorSpec(Modes.TRAIN, loss=loss)


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
