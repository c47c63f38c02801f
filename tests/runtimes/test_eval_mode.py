"""EVAL is traced when it is asked for, with the variables that PREDICT and TRAIN created, and changes none of them."""

import re
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import EstimatorSpec, Modes
from axonrl.runtimes.tensorflow import TensorFlowEval, TensorFlowExecutor
from axonrl.tests.runtimes.networks import Make, minimize, predict

COUNTERS = {"global_step": 3, "global_timestep": 7, "progress": 0.0}


def dense(name: str) -> Any:
    return keras.layers.Dense(1, kernel_initializer="ones", name=name)


def online_and_target(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """In EVAL the target comes after the online network and a temperature that only TRAIN has is left out."""
    online = dense("online")
    q = online(features)
    if mode == Modes.PREDICT:
        return predict(q)
    if mode == Modes.TRAIN:
        temperature = tf.Variable(2.0, name="temperature")
    target = dense("target")(labels["next_observation"])
    error = tf.reduce_mean(target - q)
    if mode == Modes.EVAL:
        metrics = {
            "step": labels["global_step"],
            "timestep": labels["global_timestep"],
            "reward": tf.reduce_sum(labels["reward"]),
        }
        return EstimatorSpec(mode, loss=error, eval_metric_ops=metrics)
    return minimize(error * temperature, online.trainable_variables)


def prepared(program: Any, specs: Any) -> tuple[TensorFlowExecutor, Any]:
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    return executor, program.trace_eval()


def test_loss_and_metrics_of_the_weights_that_it_is_handed(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    program = trace(online_and_target)
    executor, traced = prepared(program, batch_specs(3))
    assert (traced.metrics, traced.noise) == (("step", "timestep", "reward"), ())
    run = TensorFlowEval(program, traced)
    batch = batch_of(batch_specs(3))
    weights = executor.get_weights()
    assert list(weights)[:5] == [
        *("0000.online/kernel", "0001.online/bias"),
        *("0002.temperature", "0003.target/kernel", "0004.target/bias"),
    ]
    weights["0001.online/bias"] = np.array([10], np.float32)
    weights["0003.target/kernel"] = np.full((4, 1), 2, np.float32)
    weights["0004.target/bias"] = np.array([100], np.float32)
    run.set_weights(weights)
    q = batch["observation"].sum(axis=1) + 10
    target = 2 * batch["next_observation"].sum(axis=1) + 100
    expected = [(target - q).mean(), 3, 7, batch["reward"].sum()]
    assert run(batch, COUNTERS, []) == pytest.approx(expected, rel=1e-5)
    assert run(batch, COUNTERS, []).dtype == np.float32


def test_it_is_traced_once_when_it_is_asked_for_and_sees_what_train_sees(
    trace: Make, batch_specs: Make, batch_of: Make
) -> None:
    seen: dict[str, Any] = {}

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        types = {key: (value.dtype, tuple(value.shape)) for key, value in (labels or {}).items()}
        seen.setdefault(mode, []).append((features.dtype, tuple(features.shape), types))
        return online_and_target(features, labels, mode)

    program = trace(model_fn)
    program.trace_train(batch_specs(2, 3))
    assert Modes.EVAL not in seen
    run = TensorFlowEval(program, program.trace_eval())
    for _ in range(2):
        run(batch_of(batch_specs(2, 3)), COUNTERS, [])
    assert seen[Modes.EVAL] == seen[Modes.TRAIN][:1]


def test_twins_of_one_path_are_handed_over_in_their_order(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    """Keras numbers layers of one name; numbers say nothing in another trace."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        online = dense("online")
        q = online(features)
        if mode == Modes.PREDICT:
            return predict(q)
        first, second = (tf.Variable(0.0, name="bound") for _ in range(2))
        if mode == Modes.EVAL:
            return EstimatorSpec(mode, loss=first, eval_metric_ops={"second": second})
        return minimize(tf.reduce_mean(q) + first + second, online.trainable_variables)

    program = trace(model_fn)
    executor, traced = prepared(program, batch_specs(3))
    weights = executor.get_weights()
    weights["0002.bound"], weights["0003.bound"] = np.array(5, np.float32), np.array(6, np.float32)
    run = TensorFlowEval(program, traced)
    run.set_weights(weights)
    assert run(batch_of(batch_specs(3)), COUNTERS, []).tolist() == [5, 6]


def in_eval(make: Callable[[Any, Any], EstimatorSpec]) -> Any:
    """A model of one layer and, in TRAIN, two variables ``bound``, whose EVAL is ``make(features, labels)``."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if mode == Modes.EVAL:
            return make(features, labels)
        online = dense("online")
        q = online(features)
        if mode == Modes.PREDICT:
            return predict(q)
        bounds = [tf.Variable(0.0, name="bound") for _ in range(2)]
        return minimize(tf.reduce_mean(q) + sum(bounds), online.trainable_variables)

    return model_fn


def spec(loss: Any, **others: Any) -> EstimatorSpec:
    return EstimatorSpec(Modes.EVAL, loss=loss, **others)


def learns(features: Any, labels: Any) -> EstimatorSpec:
    online = dense("online")
    loss = tf.reduce_mean(online(features))
    for variable in online.trainable_variables:
        variable.assign_sub(variable.value)
    return spec(loss)


def counts(features: Any, labels: Any) -> EstimatorSpec:
    loss = tf.reduce_mean(dense("online")(features))
    return spec(loss + tf.Variable(0.0, name="total"))


def measures_text(features: Any, labels: Any) -> EstimatorSpec:
    return spec(tf.reduce_mean(dense("online")(features)), eval_metric_ops={"q": "high"})


def one_of_two(features: Any, labels: Any) -> EstimatorSpec:
    return spec(tf.reduce_mean(dense("online")(features)) + tf.Variable(0.0, name="bound"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (learns, "in mode 'eval' assigns variables, but an evaluation must not change what is trained"),
        (counts, "in mode 'eval' creates total float32(), which mode 'train' did not create: EVAL has the variables"),
        (one_of_two, "creates 1 of the 2 variables bound float32() of mode 'train', and it is unclear which ones"),
        (measures_text, "eval_metric_ops['q'] must be a scalar number, got string of shape ()"),
        (lambda *_: spec(None), "EstimatorSpec(mode='eval') needs a loss, a scalar tensor; got None"),
    ],
)
def test_what_is_refused(make: Any, message: str, trace: Make, batch_specs: Make) -> None:
    program = trace(in_eval(make))
    program.trace_train(batch_specs(3))
    with pytest.raises(ValueError, match=re.escape(message)):
        program.trace_eval()


def test_train_comes_first(trace: Make, batch_specs: Make) -> None:
    program = trace(online_and_target)
    with pytest.raises(RuntimeError, match="uses TRAIN's variables and batches: trace TRAIN first"):
        program.trace_eval()
