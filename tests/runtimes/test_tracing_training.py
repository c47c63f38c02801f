"""Optimizers, gradients and train ops in a traced model_fn, and that tracing happens once."""

import gc
import re
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from axonrl.contracts import EstimatorSpec, Modes
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.runtimes.networks import START, Make, learning, linear, minimize, network, predict


def trained(program: Any, specs: Any, *batches: Any, step: int = 0) -> TensorFlowExecutor:
    """An executor after an update with each of the batches."""
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    for index, batch in enumerate(batches):
        executor.train(batch, {"global_step": step + index, "global_timestep": 10 * index, "progress": 0.0}, [])
    return executor


def with_gradients(loss: Callable[[], Any], weight: Any) -> Any:
    return tf.gradients(loss(), [weight])[0]


def with_tape(loss: Callable[[], Any], weight: Any) -> Any:
    with tf.GradientTape() as tape:
        value = loss()
    return tape.gradient(value, weight)


@pytest.mark.parametrize("differentiate", [with_gradients, with_tape])
def test_one_step_of_gradient_descent(differentiate: Make, trace: Make, batch_specs: Make, batch_of: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight, q = linear(features)
        if mode == Modes.PREDICT:
            return predict(q)
        gradient = differentiate(lambda: tf.reduce_sum(features @ weight), weight)
        return EstimatorSpec(mode, loss=tf.reduce_sum(q), train_op=weight.assign_sub(0.5 * gradient))

    specs = batch_specs(3)
    batch = batch_of(specs)
    weights = trained(trace(model_fn), specs, batch).get_weights()
    # The loss is the sum of x W: its gradient is the sum of the rows of x, in both columns.
    gradient = batch["observation"].sum(axis=0)[:, None]
    np.testing.assert_allclose(weights["0000.weight"], np.array(START, np.float32) - 0.5 * gradient, rtol=1e-6)


def test_a_training_that_assigns_nothing_is_refused(trace: Make, batch_specs: Make) -> None:
    def train(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        keras.optimizers.SGD(0.1)  # made, but not applied
        return EstimatorSpec(Modes.TRAIN, loss=tf.reduce_sum(q), train_op="a tensor")

    message = re.escape(
        "in mode 'train' assigns no variable, with or without a train_op: it would never learn; call opt"
    )
    with pytest.raises(ValueError, match=message):
        trace(learning(train)).trace_train(batch_specs(3))


def test_updates_call_nothing_again(
    trace: Make, batch_specs: Make, batch_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    inner_traces: list[int] = []

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        calls.append(mode)
        weight = tf.Variable(START, name="weight")

        def inner(x: Any) -> Any:
            inner_traces.append(1)
            return x @ weight

        q = tf.function(inner, autograph=False)(features)
        if mode == Modes.PREDICT:
            return predict(q)
        weight.assign_sub(0.001 * weight)
        return EstimatorSpec(mode, loss=tf.reduce_sum(q))

    specs = batch_specs(2)
    batch = batch_of(specs)
    executor = trained(trace(model_fn), specs)
    assert calls == ["predict", "train"]
    before = list(calls), list(inner_traces)
    monkeypatch.setattr(tf, "function", None)
    for step in range(20):
        executor.train(batch, {"global_step": step, "global_timestep": step, "progress": 0.0}, [])
        executor.act(batch["observation"][: 1 + step % 2])
    assert (calls, inner_traces) == before


def test_nothing_of_keras_is_kept(trace: Make, batch_specs: Make) -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        net = keras.layers.Dense(2)
        alive.add(net)
        q = net(features)
        if mode == Modes.PREDICT:
            return predict(q)
        return minimize(tf.reduce_sum(q), net.trainable_variables)

    program = trace(model_fn)
    trained(program, batch_specs(3))
    gc.collect()
    assert list(alive) == []
    old = [weakref.ref(v) for v in list(program.store.variables().values())[2:]]
    assert old
    program.trace_train(batch_specs(3))
    gc.collect()
    assert [ref() for ref in old] == [None] * len(old)


def test_a_program_that_is_dropped_leaves_no_graph_behind(trace: Make, batch_specs: Make) -> None:
    def graphs() -> int:
        gc.collect()
        return sum(isinstance(one, FuncGraph) for one in gc.get_objects())

    before = graphs()
    program = trace(network)
    program.trace_train(batch_specs(3))
    assert graphs() > before
    del program
    assert graphs() == before
