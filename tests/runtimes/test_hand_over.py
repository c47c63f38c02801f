"""PREDICT's variables are TRAIN's first variables; what breaks that is refused with words that say what to do."""

import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import EstimatorSpec, Modes
from axonrl.policies.modes import relative_name
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.raising import raised
from axonrl.tests.runtimes.networks import COUNTERS, Make, minimize, predict

ORDER = "every mode must first create PREDICT's variables, in the same order (the online network before the target"


def online_and_target(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    online = keras.layers.Dense(2, name="online")
    q = online(features)
    if mode == Modes.PREDICT:
        return predict(q)
    target = keras.layers.Dense(2, name="target")
    loss = tf.reduce_mean(tf.square(q - tf.stop_gradient(target(labels["next_observation"]))))
    return minimize(loss, online.trainable_variables)


@pytest.mark.parametrize(
    ("name", "dtype", "units"), [("net", "float32", 3), ("net", "float64", 2), ("w", "float32", 2)]
)
def test_a_target_built_before_the_online_network(
    name: str, dtype: str, units: int, trace: Make, batch_specs: Make
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if mode == Modes.TRAIN:
            goal = keras.layers.Dense(units, name=name, dtype=dtype)(labels["next_observation"])
        online = keras.layers.Dense(2, name="net")
        q = online(features)
        if mode == Modes.PREDICT:
            return predict(q)
        return minimize(tf.reduce_mean(q) - tf.cast(tf.reduce_mean(goal), tf.float32), online.trainable_variables)

    message = (
        f"{model_fn.__module__}.{model_fn.__qualname__} in mode 'train' creates {name}/kernel {dtype}(4, {units}) as"
        f" its variable number 0, where mode 'predict' created net/kernel float32(4, 2): {ORDER}"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        trace(model_fn).trace_train(batch_specs(8))


def test_a_variable_missing_in_train(trace: Make, batch_specs: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(tf.ones([4, 2]), name="weight")
        q = features @ weight
        if mode == Modes.PREDICT:
            return predict(q + tf.Variable([0.0, 0.0], name="bias"))
        weight.assign_sub(tf.gradients(tf.reduce_mean(q), [weight])[0])
        return EstimatorSpec(mode, loss=tf.reduce_mean(q))

    message = "in mode 'train' does not create bias float32(2,), which mode 'predict' created as its variable number 1"
    with pytest.raises(ValueError, match=re.escape(message) + ".*build layers inside model_fn"):
        trace(model_fn).trace_train(batch_specs(8))


def test_a_layer_in_a_closure(trace: Make, batch_specs: Make) -> None:
    layer = keras.layers.Dense(2, name="own")

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        q = layer(features)
        return predict(q) if mode == Modes.PREDICT else minimize(tf.reduce_mean(q), layer.trainable_variables)

    message = "creates sgd/iteration int64() as its variable number 0, where mode 'predict' created own/kernel"
    with pytest.raises(ValueError, match=re.escape(message) + ".*build layers inside model_fn"):
        trace(model_fn).trace_train(batch_specs(8))
    with pytest.raises(ValueError, match="in mode 'predict' uses the variable own/kernel:0, which it did not create"):
        trace(model_fn)  # it is built by now


def test_a_variable_created_outside(trace: Make) -> None:
    outside = tf.Variable(tf.ones([4, 2]), name="outside")
    call = tf.function(lambda x: x @ outside)  # also where only a function that it calls uses it

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(call(features))

    with pytest.raises(ValueError, match="uses the variable outside:0, which it did not create: build layers inside"):
        trace(model_fn)


def test_a_variable_handed_to_an_inner_function_is_its_own(trace: Make) -> None:
    product = tf.function(lambda x, weight: x @ weight)

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(product(features, tf.Variable(tf.ones([4, 2]), name="weight")))

    assert list(trace(model_fn).store.variables()) == ["0000.weight"]


@pytest.mark.parametrize("of", ["features", "variable"])
def test_an_initial_value_that_depends_on_something(of: str, trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(tf.ones([4, 2]), name="weight")
        tf.Variable(features[0] if of == "features" else weight, name="other")
        return predict(features @ weight)

    raised(ValueError, trace, model_fn, match="in mode 'predict' computes the initial value of other float32")


def test_keras_random_numbers_without_a_generator_of_their_own(trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(features + keras.random.normal([4]))

    for _ in range(2):  # Keras keeps what the first trace made
        with pytest.raises(ValueError, match=r"use axonrl\.noise, or pass keras.random a SeedGenerator made"):
            trace(model_fn)
    keras.utils.clear_session()


def test_tracing_again_begins_training_anew(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    program = trace(online_and_target)
    executor = TensorFlowExecutor(program, program.trace_train(batch_specs(8)))
    first = executor.get_weights()
    executor.train(batch_of(batch_specs(8)), COUNTERS, [])
    trained = executor.get_weights()
    executor = TensorFlowExecutor(program, program.trace_train(batch_specs(16)))
    again = executor.get_weights()
    assert list(again) == list(first)
    for name in first:
        expected = trained if name.startswith(("0000", "0001")) else first
        np.testing.assert_array_equal(again[name], expected[name])
    executor.train(batch_of(batch_specs(16)), COUNTERS, [])


def test_a_trace_that_failed_leaves_nothing_behind(trace: Make, batch_specs: Make) -> None:
    broken = [True]

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = online_and_target(features, labels, mode)
        if mode == Modes.TRAIN and broken.pop():
            tf.Variable(0.0, name="leftover")
            raise RuntimeError("mine")
        broken.append(False)
        return spec

    program = trace(model_fn)
    broken[:] = [True]
    with pytest.raises(RuntimeError, match="mine"):
        program.trace_train(batch_specs(8))
    assert list(program.store.variables())[-1].endswith("leftover")
    broken[:] = [False]
    program.trace_train(batch_specs(8))
    assert len(program.store.variables()) == 6


@pytest.mark.parametrize(
    ("scope", "name", "expected"),
    [
        ("", None, "Variable"),
        ("sequential_3/dense_12", "kernel", "sequential/dense/kernel"),
        ("adam", "dense_12_kernel_momentum", "adam/dense_kernel_momentum"),
        ("block/2", "conv2d", "block/2/conv2d"),
        ("a_1_2", "q1", "a/q1"),
    ],
)
def test_names_have_no_numbers_that_keras_appended(scope: str, name: str | None, expected: str) -> None:
    assert relative_name(scope, name) == expected
