"""What a model_fn sees when it is traced, what is made of what it returns, and what is refused."""

import dataclasses
import re
import traceback
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.contracts import ArraySpec, EstimatorSpec, Modes
from axonrl.errors import ArgumentError
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.runtimes.networks import COUNTERS, Make, learning, linear, minimize, predict


def seeing(seen: list[Any]) -> Callable[..., EstimatorSpec]:
    """A model_fn that notes the features and labels of each call and learns something."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        seen.append((features, labels))
        count = tf.Variable(0.0, name="count")
        if mode == Modes.PREDICT:
            some = next(iter(features.values())) if isinstance(features, dict) else features
            return EstimatorSpec(mode, {"action": tf.zeros(tf.shape(some)[0])})
        count.assign_add(1.0)
        return EstimatorSpec(mode, loss=count)

    return model_fn


def test_labels(trace: Make, batch_specs: Make) -> None:
    seen: list[Any] = []
    more = {
        "terminated": ArraySpec((), np.bool_),
        "reward": ArraySpec((), np.float64),
        "weight": ArraySpec((), np.float64),
        "log_prob": ArraySpec((2,), np.float64),
        "greedy": ArraySpec((), np.bool_),
        "state": ArraySpec((7,), np.float32),  # recorded under this name; the model is not recurrent
    }
    trace(seeing(seen)).trace_train(batch_specs(5, **more))
    assert [labels for _, labels in seen if labels is None], "None in PREDICT"
    features, labels = seen[-1]
    assert tuple(features.shape) == (5, 4)
    assert {name: (value.dtype.name, tuple(value.shape)) for name, value in labels.items()} == {
        "action": ("int32", (5,)),
        "reward": ("float32", (5,)),
        "terminated": ("float32", (5,)),
        "truncated": ("float32", (5,)),
        "discount": ("float32", (5,)),
        "weight": ("float32", (5,)),
        "log_prob": ("float64", (5, 2)),
        "greedy": ("float32", (5,)),
        "state": ("float32", (5, 7)),
        "next_observation": ("float32", (5, 4)),
        "global_step": ("int64", ()),
        "global_timestep": ("int64", ()),
        "progress": ("float32", ()),
    }


def test_batches_of_a_rollout_keep_both_axes(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        net = keras.layers.Dense(2, name="net")
        q = net(features)
        if mode == Modes.PREDICT:
            return predict(q)
        shapes.append((tuple(q.shape), tuple(labels["reward"].shape)))
        spec = minimize(tf.reduce_mean(q[..., 0] * labels["reward"]), net.trainable_variables)
        return dataclasses.replace(spec, td_error=labels["reward"] - q[..., 0])

    shapes: list[Any] = []
    specs = batch_specs(6, 3)
    program = trace(model_fn)
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    assert set(shapes) == {((6, 3, 2), (6, 3))}
    result = executor.train(batch_of(specs), COUNTERS, [])
    assert result.td_error is not None
    assert result.td_error.shape == (6, 3)


def test_batches_without_observations_are_refused(trace: Make, batch_specs: Make) -> None:
    specs = batch_specs(5)
    del specs["observation"]
    with pytest.raises(ValueError, match="batches have no 'observation', only action, discount, next_observation, "):
        trace(seeing([])).trace_train(specs)


def test_what_the_specs_say_is_passed_on(trace: Make, batch_specs: Make) -> None:
    def explore(predictions: Any, timestep: int, rng: Any) -> Any:
        return predictions["action"], {}

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight, q = linear(features)
        if mode == Modes.PREDICT:
            return dataclasses.replace(predict(q), exploration=explore, record=("q",), evaluation_hooks=("b",))
        weight.assign_sub(weight)
        metrics = {"z": 1, "a": tf.reduce_max(q), "flag": True}
        return EstimatorSpec(mode, loss=tf.constant(2.0, tf.float64), metrics=metrics, training_hooks=("c",))

    program = trace(model_fn)
    assert program.predict.outputs == {"action": ArraySpec((), np.int32), "q": ArraySpec((2,), np.float32)}
    assert program.predict.exploration is explore
    assert program.predict.record == ("q",)
    assert program.predict.state is None
    assert program.predict.evaluation_hooks == ("b",)
    train = program.trace_train(batch_specs(3))
    assert (train.metrics, train.training_hooks) == (("z", "a", "flag"), ("c",))
    assert program.name == f"{__name__}.test_what_the_specs_say_is_passed_on.<locals>.model_fn"


def test_acting_changes_no_variable(trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        _, q = linear(features)
        seen = tf.Variable(0.0)
        with tf.control_dependencies([seen.assign_add(1.0)]):
            return predict(tf.identity(q))

    with pytest.raises(ValueError, match=r"in mode 'predict' assigns variables, .* training=False there"):
        trace(model_fn).predict  # noqa: B018 (traced when it is asked for)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (
            {"td_error": lambda q: q},
            r"td_error must be floats of shape (3,), one for each transition of the batch; got",
        ),
        ({"loss": lambda q: "low"}, r"loss must be a scalar number, got string of shape ()"),
        ({"metrics": lambda q: {"q": q}}, r"metrics['q'] must be a scalar number, got float32 of shape (3, 2)"),
        ({"metrics": lambda q: [q]}, r"metrics must be a mapping of names to tensors, got ["),
        ({"metrics": lambda q: {"loss": 1.0}}, r"metrics must not contain 'loss', which has a field of its own"),
    ],
)
def test_what_train_must_not_return(returned: dict[str, Any], message: str, trace: Make, batch_specs: Make) -> None:
    def train(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        weight.assign_sub(weight)
        fields: dict[str, Any] = {"loss": tf.reduce_sum, **returned}
        return EstimatorSpec(Modes.TRAIN, **{name: make(q) for name, make in fields.items()})

    program = trace(learning(train))
    with pytest.raises(ValueError, match=re.escape(f"{program.name}: {message}")):
        program.trace_train(batch_specs(3))


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (lambda x: {"q": x}, "predictions has no 'action', only ['q']"),
        (lambda x: {"action": {"a": None}}, "predictions['action/a'] must be a tensor, got None"),
        (
            lambda x: {"action": {"a": x}, "action/a": x},
            "predictions has 'action/a', which is also a part of its 'action'",
        ),
        (lambda x: {"action": x[0]}, "predictions['action'] must have the shape [B, ...]"),
        (lambda x: {"action": tf.reshape(x, [tf.shape(x)[0], -1])}, "predictions['action'] must have the shape"),
        (lambda x: {"action": tf.numpy_function(lambda y: y, [x], tf.float32)}, "got <unknown>"),
    ],
)
def test_what_predict_must_not_return(predictions: Make, message: str, trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return EstimatorSpec(mode, predictions(features))

    with pytest.raises(ValueError, match=re.escape(message)):
        trace(model_fn)


def test_an_error_inside_is_the_users_own(trace: Make) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        raise KeyError("learning_rat")

    with pytest.raises(KeyError, match=r"^'learning_rat'$") as caught:
        trace(model_fn)
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.name, last.line) == ("model_fn", 'raise KeyError("learning_rat")')
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", [1, "../x"])
def test_names_of_metrics_that_no_summary_or_file_can_carry(name: Any, trace: Make, batch_specs: Make) -> None:
    def train(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        weight.assign_sub(weight)
        return EstimatorSpec(Modes.TRAIN, loss=tf.reduce_sum(q), metrics={"ok/ü b": 1.0, name: 2.0})

    with pytest.raises(ArgumentError, match=r"metrics has the key ") as error:
        trace(learning(train)).trace_train(batch_specs(3))
    assert (error.value.argument, error.value.value) == ("metrics", name)
