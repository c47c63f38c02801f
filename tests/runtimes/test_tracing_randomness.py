"""Randomness in a model_fn: initial values that follow from the seed, noise as inputs, and what is not exact."""

import contextlib
import random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import noise
from axonrl.contracts import EstimatorSpec, Modes
from axonrl.noise import Request
from axonrl.runs.programs import shared
from axonrl.runtimes.choosing import choose
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.runtimes.networks import COUNTERS, Make, learning, minimize, predict


class Late(keras.layers.Layer):  # type: ignore[misc]
    """Its inner layer is built by its first call, which Keras does outside the graph in a functional model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.layers.Dense(3, kernel_initializer=lambda shape, dtype: tf.random.normal(shape, dtype=dtype))

    def call(self, x: Any) -> Any:
        return self.inner(x)


def much_random(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """Initial values from every source: Keras, TensorFlow's ops, NumPy, Python."""
    net = keras.Sequential([keras.Input((4,)), Late(), keras.layers.Dense(2)])
    q = net(features)
    q += tf.Variable(tf.random.normal([2]), name="op") + tf.Variable(lambda: tf.random.uniform([2]), name="call")
    q += tf.Variable(np.random.normal(size=2).astype("f"), name="numpy") * tf.Variable(random.random(), name="python")  # noqa: NPY002
    if mode == Modes.PREDICT:
        return predict(q)
    spec = minimize(tf.reduce_sum(q), net.trainable_variables)
    tf.Variable(tf.random.normal([3]), name="later")
    return spec


def initial(trace: Make, specs: Any, seed: int) -> dict[str, Any]:
    program = trace(much_random, seed=seed)
    program.trace_train(specs)
    return TensorFlowExecutor(program).get_weights()


def test_initial_weights_follow_from_the_seed_alone(trace: Make, batch_specs: Make) -> None:
    first = initial(trace, batch_specs(3), 1)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    tf.random.set_seed(5)
    tf.random.normal([3])
    again, other = initial(trace, batch_specs(3), 1), initial(trace, batch_specs(3), 2)
    assert list(again) == list(first)
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value)
    drawn = [name for name in first if not name.endswith(("bias", "iteration", "learning_rate"))]
    assert [name.split(".")[1] for name in drawn] == [
        "sequential/late/kernel",
        "sequential/dense/kernel",
        "op",
        "call",
        "numpy",
        "python",
        "later",
    ]
    assert [name for name in drawn if np.array_equal(other[name], first[name])] == []


@pytest.mark.parametrize("fails", [False, True])
def test_the_callers_generators_are_left_as_they_were(fails: bool, trace: Make) -> None:
    def numbers() -> list[float]:
        return [random.random(), np.random.random(), float(tf.random.uniform([]))]  # noqa: NPY002

    def seed_all() -> None:
        random.seed(5)
        np.random.seed(5)  # noqa: NPY002
        tf.random.set_seed(5)

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = much_random(features, labels, mode)
        if fails:
            raise RuntimeError("mine")
        return spec

    seed_all()
    expected = numbers() + numbers()
    seed_all()
    found = numbers()
    with pytest.raises(RuntimeError, match="mine") if fails else contextlib.nullcontext():
        trace(model_fn)
    assert found + numbers() == expected


def noisy(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
    normal = noise.normal([2])
    order = noise.permutation(3)
    uniform = noise.uniform([], 5, 6)
    tf.Variable(0.0, name="count").assign_add(1.0)  # what creates variables is called twice
    weight.assign_sub(0.5 * weight)
    metrics, td_error = {"normal": normal[1], "uniform": uniform, "first": order[0]}, tf.gather(labels["reward"], order)
    return EstimatorSpec(Modes.TRAIN, loss=tf.reduce_sum(normal), metrics=metrics, td_error=td_error)


@pytest.mark.parametrize("runtime", ["tensorflow", "litert"])
def test_noise_becomes_inputs(runtime: str, trace: Make, batch_specs: Make, batch_of: Make) -> None:
    specs = batch_specs(3)
    program = trace(learning(noisy))
    train = program.trace_train(specs)
    assert train.noise == (Request("normal", (2,)), Request("permutation", (3,)), Request("uniform", (), 5.0, 6.0))
    assert train.metrics == ("normal", "uniform", "first")
    assert train.not_exact == ()
    executor, batch = choose(program, train, runtime, None, shared)[0], batch_of(specs)
    draws = [np.array([1.5, 2.5], np.float32), np.array([2, 0, 1], np.int32), np.array(5.25, np.float32)]
    result = executor.train(batch, COUNTERS, draws)
    assert result.scalars.tolist() == [4, 2.5, 5.25, 2]
    assert result.td_error is not None
    np.testing.assert_array_equal(result.td_error, batch["reward"][draws[1]])


def test_noise_of_unknown_size_is_refused(trace: Make, batch_specs: Make) -> None:
    def train(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        return EstimatorSpec(Modes.TRAIN, loss=noise.normal([tf.shape(q)[0]]))

    with pytest.raises(ValueError, match="needs a static shape of positive integers"):
        trace(learning(train)).trace_train(batch_specs(3))


@pytest.mark.parametrize("later", [[], [3]])
def test_noise_that_changes_from_call_to_call_is_refused(later: list[int], trace: Make, batch_specs: Make) -> None:
    calls: list[int] = []

    def train(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        calls.append(1)
        for n in [2] if len(calls) == 1 else later:  # TRAIN creates no variable: one call asks, the next one is fed
            noise.normal([n])
        weight.assign_sub(weight)
        return EstimatorSpec(Modes.TRAIN, loss=tf.reduce_sum(q))

    with pytest.raises(ValueError, match="must request the same noise at every call: first"):
        trace(learning(train)).trace_train(batch_specs(3))


def test_stateful_random_ops_are_named_but_not_unused_initial_values(trace: Make, batch_specs: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(tf.random.truncated_normal([4, 2]), name="weight")
        q = features @ weight
        if mode == Modes.PREDICT:
            return predict(q)
        loss = tf.reduce_sum(q + tf.random.normal(q.shape))
        weight.assign_sub(tf.gradients(loss, [weight])[0])
        return EstimatorSpec(mode, loss=loss, metrics={"first": tf.random.shuffle(labels["reward"])[0]})

    program = trace(model_fn)
    assert program.predict.not_exact == ()
    assert program.trace_train(batch_specs(3)).not_exact == ("RandomShuffle", "RandomStandardNormal")
