"""PREDICT's variables are TRAIN's first variables; what breaks that is refused with words that say what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import noise
from axonrl.contracts import EstimatorSpec, Modes
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.runtimes.tracing.variables import relative_name

Trace = Callable[..., Any]
ORDER = "every mode must first create PREDICT's variables, in the same order (the online network before the target"


def predict(q: Any) -> EstimatorSpec:
    return EstimatorSpec(Modes.PREDICT, {"action": tf.argmax(q, -1)})


def minimize(loss: Any, variables: list[Any]) -> EstimatorSpec:
    keras.optimizers.SGD(0.1, name="sgd").apply(tf.gradients(loss, [v.value for v in variables]), variables)
    return EstimatorSpec(Modes.TRAIN, loss=loss)


def online_and_target(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    online = keras.layers.Dense(2, name="online")
    q = online(features)
    if mode == Modes.PREDICT:
        return predict(q)
    target = keras.layers.Dense(2, name="target")
    loss = tf.reduce_mean(tf.square(q - tf.stop_gradient(target(labels["next_observation"]))))
    return minimize(loss, online.trainable_variables)


def test_the_trained_variables_are_those_that_act(trace: Trace, batch_specs: Trace, batch_of: Trace) -> None:
    program = trace(online_and_target)
    executor = TensorFlowExecutor(program, program.trace_train(batch_specs(8)))
    assert list(executor.get_weights()) == [
        "0000.online/kernel",
        "0001.online/bias",
        "0002.target/kernel",
        "0003.target/bias",
        "0004.sgd/iteration",
        "0005.sgd/learning_rate",
    ]
    assert list(executor.get_predict_weights()) == ["0000.online/kernel", "0001.online/bias"]
    before = executor.get_weights()
    executor.train(batch_of(batch_specs(8)), {"global_step": 0, "global_timestep": 0, "progress": 0.0}, [])
    after = executor.get_weights()
    changed = [name for name in before if not np.array_equal(before[name], after[name])]
    assert changed == ["0000.online/kernel", "0001.online/bias", "0004.sgd/iteration"]


def test_target_and_online_network_begin_with_different_numbers(trace: Trace, batch_specs: Trace) -> None:
    program = trace(online_and_target)
    program.trace_train(batch_specs(8))
    weights = TensorFlowExecutor(program).get_weights()
    assert not np.array_equal(weights["0000.online/kernel"], weights["0002.target/kernel"])


def target_first(features: Any, labels: Any, mode: str, target_name: str, target_units: int) -> EstimatorSpec:
    if mode == Modes.TRAIN:
        goal = keras.layers.Dense(target_units, name=target_name)(labels["next_observation"])
    online = keras.layers.Dense(2, name="net")
    q = online(features)
    if mode == Modes.PREDICT:
        return predict(q)
    loss = tf.reduce_mean(q) - tf.reduce_mean(goal)
    return minimize(loss, online.trainable_variables)


@pytest.mark.parametrize(
    ("name", "units", "created"),
    [("net", 3, "net/kernel float32(4, 3)"), ("target", 2, "target/kernel float32(4, 2)")],
)
def test_a_target_built_before_the_online_network(
    name: str, units: int, created: str, trace: Trace, batch_specs: Trace
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return target_first(features, labels, mode, name, units)

    message = (
        f"{model_fn.__module__}.{model_fn.__qualname__} in mode 'train' creates {created} as its variable number 0,"
        f" where mode 'predict' created net/kernel float32(4, 2): {ORDER}"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        trace(model_fn).trace_train(batch_specs(8))


def test_an_extra_variable_before_those_of_predict(trace: Trace, batch_specs: Trace) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if mode == Modes.TRAIN:
            tf.Variable(1.0, name="temperature")
        return online_and_target(features, labels, mode)

    created = "creates temperature float32() as its variable number 0, where mode 'predict' created online/kernel "
    with pytest.raises(ValueError, match=f"{re.escape(created)}.*{re.escape(ORDER)}"):
        trace(model_fn).trace_train(batch_specs(8))


def test_a_variable_of_another_dtype(trace: Trace, batch_specs: Trace) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        step = tf.Variable(0, name="step", dtype=tf.int64 if mode == Modes.PREDICT else tf.int32)
        if mode == Modes.PREDICT:
            return predict(features * tf.cast(step, tf.float32))
        step.assign_add(1)
        return EstimatorSpec(mode, loss=0.0)

    with pytest.raises(ValueError, match=r"creates step int32\(\) .* where mode 'predict' created step int64\(\)"):
        trace(model_fn).trace_train(batch_specs(8))


def test_a_variable_missing_in_predict(trace: Trace, batch_specs: Trace) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if mode == Modes.TRAIN:
            features = keras.layers.Dense(4, name="body")(features)
        online = keras.layers.Dense(2, name="head")
        q = online(features)
        return predict(q) if mode == Modes.PREDICT else minimize(tf.reduce_mean(q), online.trainable_variables)

    with pytest.raises(ValueError, match=r"creates body/kernel .* where mode 'predict' created head/kernel"):
        trace(model_fn).trace_train(batch_specs(8))


def test_a_variable_missing_in_train(trace: Trace, batch_specs: Trace) -> None:
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


def in_closure(layer: Any) -> Callable[..., EstimatorSpec]:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        q = layer(features)
        if mode == Modes.PREDICT:
            return predict(q)
        return minimize(tf.reduce_mean(q), layer.trainable_variables)

    return model_fn


def test_an_unbuilt_layer_in_a_closure(trace: Trace, batch_specs: Trace) -> None:
    model_fn = in_closure(keras.layers.Dense(2, name="own"))
    message = "creates sgd/iteration int64() as its variable number 0, where mode 'predict' created own/kernel"
    with pytest.raises(ValueError, match=re.escape(message) + ".*build layers inside model_fn"):
        trace(model_fn).trace_train(batch_specs(8))
    with pytest.raises(ValueError, match="uses the variable own/kernel:0 that it did not create: build layers inside"):
        trace(model_fn)


def test_a_built_layer_in_a_closure(trace: Trace) -> None:
    layer = keras.layers.Dense(2, name="own")
    layer.build((None, 4))
    message = "in mode 'predict' uses the variable own/kernel:0 that it did not create: build layers inside model_fn"
    with pytest.raises(ValueError, match=message):
        trace(in_closure(layer))


def test_a_target_network_in_a_closure(trace: Trace, batch_specs: Trace) -> None:
    target = keras.layers.Dense(2, name="target")

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        online = keras.layers.Dense(2, name="online")
        q = online(features)
        if mode == Modes.PREDICT:
            return predict(q)
        return minimize(tf.reduce_mean(q - target(features)), online.trainable_variables)

    trace(model_fn).trace_train(batch_specs(8))  # what it has created is this program's
    program = trace(model_fn)
    with pytest.raises(ValueError, match="uses the variable target/kernel:0 that it did not create: build layers"):
        program.trace_train(batch_specs(8))


@pytest.mark.parametrize("inner", [False, True])
def test_a_variable_created_outside(inner: bool, trace: Trace) -> None:
    outside = tf.Variable(tf.ones([4, 2]), name="outside")

    def product(x: Any) -> Any:
        return x @ outside

    call = tf.function(product) if inner else product  # also where only a function that it calls uses it

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(call(features))

    with pytest.raises(ValueError, match="uses the variable outside:0 that it did not create: build layers inside"):
        trace(model_fn)


def test_a_variable_handed_to_an_inner_function_is_its_own(trace: Trace) -> None:
    product = tf.function(lambda x, weight: x @ weight)

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(product(features, tf.Variable(tf.ones([4, 2]), name="weight")))

    assert list(trace(model_fn).store.variables()) == ["0000.weight"]


def test_other_variables_at_the_second_call(trace: Trace) -> None:
    """PREDICT is called again where it draws noise."""
    calls: list[str] = []

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        calls.append(mode)
        q = keras.layers.Dense(1 + len(calls), name="net")(features)
        return EstimatorSpec(mode, {"action": tf.argmax(q, -1), "noisy": q + noise.normal(q.shape[1:])})

    message = (
        r"creates net/kernel float32\(4, 3\) as its variable number 0, where an earlier call in the same mode created"
        r" net/kernel float32\(4, 2\): every call must create the same variables"
    )
    with pytest.raises(ValueError, match=message):
        trace(model_fn)


@pytest.mark.parametrize("of", ["features", "variable"])
def test_an_initial_value_that_depends_on_something(of: str, trace: Trace) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(tf.ones([4, 2]), name="weight")
        tf.Variable(features[0] if of == "features" else weight, name="other")
        return predict(features @ weight)

    with pytest.raises(ValueError, match="in mode 'predict' computes the initial value of other float32"):
        trace(model_fn)


def test_keras_random_numbers_without_a_generator_of_their_own(trace: Trace) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(features + keras.random.normal([4]))

    for _ in range(2):  # Keras keeps what the first trace made
        with pytest.raises(ValueError, match=r"use axonrl\.noise, or give keras.random a SeedGenerator that is made"):
            trace(model_fn)
    keras.utils.clear_session()


def test_tracing_again_begins_training_anew(trace: Trace, batch_specs: Trace, batch_of: Trace) -> None:
    program = trace(online_and_target)
    executor = TensorFlowExecutor(program, program.trace_train(batch_specs(8)))
    first = executor.get_weights()
    executor.train(batch_of(batch_specs(8)), {"global_step": 0, "global_timestep": 0, "progress": 0.0}, [])
    trained = executor.get_weights()

    executor = TensorFlowExecutor(program, program.trace_train(batch_specs(16)))
    again = executor.get_weights()
    assert list(again) == list(first)
    for name in first:
        expected = trained if name.startswith(("0000", "0001")) else first
        np.testing.assert_array_equal(again[name], expected[name])
    executor.train(batch_of(batch_specs(16)), {"global_step": 0, "global_timestep": 0, "progress": 0.0}, [])


def test_a_trace_that_failed_leaves_nothing_behind(trace: Trace, batch_specs: Trace) -> None:
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
        ("", "w", "w"),
        ("", None, "Variable"),
        ("sequential_3/dense_12", "kernel", "sequential/dense/kernel"),
        ("adam", "dense_12_kernel_momentum", "adam/dense_kernel_momentum"),
        ("net", "q1", "net/q1"),
        ("block/2", "conv2d", "block/2/conv2d"),
        ("a_1_2", "b", "a/b"),
    ],
)
def test_names_have_no_numbers_that_keras_appended(scope: str, name: str | None, expected: str) -> None:
    assert relative_name(scope, name) == expected
