"""What a traced model_fn sees, what is made of what it returns, and what is refused; optimizers, and randomness."""

import contextlib
import dataclasses
import gc
import random
import re
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.func_graph import FuncGraph

from axonrl import noise
from axonrl.core.errors import ArgumentError, message_of
from axonrl.core.protocols import ArraySpec, EstimatorSpec, Modes
from axonrl.core.tensorflow_import import collections_paused
from axonrl.noise import Request
from axonrl.run_dir.programs import shared_content
from axonrl.runtimes.executor_choice import choose
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.raising import raised, users_module
from axonrl.tests.runtimes.networks import COUNTERS, START, Make, learning, linear, minimize, network, predict


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


@pytest.mark.parametrize("of_keras", [False, True])
def test_variables_that_cannot_fit_are_refused(of_keras: bool, trace: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return predict(keras.layers.Dense(2)(features) if of_keras else linear(features)[1])

    monkeypatch.setattr("axonrl.runtimes.tracing.variables.physical_memory", lambda: 31)
    with pytest.raises(ValueError, match=r"creates \S+ float32\(4, 2\); its variables would need 32 bytes, .* 31: "):
        trace(model_fn)


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
        (lambda x: {"action": x[0]}, "predictions['action'] must have shape [B, ...]"),
        (lambda x: {"action": tf.reshape(x, [tf.shape(x)[0], -1])}, "predictions['action'] must have shape"),
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
    executor, batch = choose(program, train, runtime, None, shared_content)[0], batch_of(specs)
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


OWN = """
import keras
import tensorflow as tf
from axonrl.core.protocols import EstimatorSpec

@tf.function
def rewritten(q):
    if tf.reduce_sum(q) > 0:  # by autograph
        q = helper(q)
    return q

def helper(q):
    return q[:, 5, 7]  # place: rewritten

def model_fn(features, labels, mode, params):
    layer = keras.layers.Dense(2, name="online")
    q = layer(features)
    at = params["at"]
    if at == "params":
        params["att"]  # place: params
    if at == "numpy":
        q.numpy()  # place: numpy
    if at == "rewritten":
        rewritten(q)
    if at == "layer":
        keras.layers.Dense(2)(None)  # place: layer
    if at == "weights":
        layer.kernel.assign([[1.0, 2.0]] * 4)  # place: weights
    if at == "assert":
        tf.debugging.assert_less(q, 0.0)  # place: assert
    return EstimatorSpec(mode, {"action": tf.argmax(q, -1, tf.int32), "q": q})
"""


@pytest.mark.parametrize(
    ("at", "kind", "function"),
    [
        ("params", KeyError, "model_fn"),
        ("numpy", ValueError, "model_fn"),
        ("rewritten", ValueError, "helper"),
        ("layer", ValueError, "model_fn"),
        ("weights", ValueError, "model_fn"),
        ("assert", tf.errors.InvalidArgumentError, "model_fn"),
    ],
)
def test_an_error_in_a_users_function_has_its_place(
    at: str, kind: type[Exception], function: str, trace: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where TensorFlow has dropped the frames, rewritten the code, or runs the graph without it."""
    monkeypatch.chdir(tmp_path)
    model_fn = users_module(tmp_path, OWN).model_fn

    def traced_and_run() -> None:
        TensorFlowExecutor(trace(model_fn, params={"at": at})).act(np.ones((1, 4), np.float32))

    line = 1 + next(i for i, text in enumerate(OWN.splitlines()) if text.endswith(f"# place: {at}"))
    said = message_of(raised(kind, traced_and_run))
    assert f"(own.py:{line}, in {function})" in said


def test_weights_that_train_would_load_at_every_update_are_refused(trace: Make, batch_specs: Make) -> None:
    """Those of a Keras file come in as constants; what is computed may be assigned, and a single number may."""

    def train(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        weight.assign(START)
        return EstimatorSpec(Modes.TRAIN, loss=tf.reduce_mean(q))

    def computed(weight: Any, q: Any, labels: Any) -> EstimatorSpec:
        weight.assign(0.5 * weight)
        tf.Variable(1.0, name="level").assign(0.1)
        return EstimatorSpec(Modes.TRAIN, loss=tf.reduce_mean(q))

    trace(learning(computed)).trace_train(batch_specs(8))
    message = "in mode 'train' loads weights into weight float32(4, 2)"
    with pytest.raises(ValueError, match=re.escape(message) + ".*at every update.*warm_start='model.keras'"):
        trace(learning(train)).trace_train(batch_specs(8))


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_pauses_and_is_then_as_it_was(enabled: bool) -> None:
    try:
        if not enabled:
            gc.disable()
        with collections_paused():
            assert not gc.isenabled()
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
