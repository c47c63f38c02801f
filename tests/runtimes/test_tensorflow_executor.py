"""The TensorFlow executor: numbers in and out, and weights by name."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.contracts import ArraySpec, EstimatorSpec, Modes
from axonrl.runtimes.tensorflow import TensorFlowExecutor

Make = Callable[..., Any]
COUNTERS = {"global_step": 7, "global_timestep": 2**40}


def aligned(values: Any, dtype: Any = np.float32) -> Any:
    """An array whose memory TensorFlow could use as it is."""
    values = np.asarray(values, dtype)
    memory = np.empty(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + values.nbytes].view(dtype).reshape(values.shape)
    array[...] = values
    return array


def network(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    net = keras.Sequential([keras.layers.Dense(8, "relu"), keras.layers.Dense(2)])
    q = net(features)
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"q": q, "action": tf.argmax(q, -1, output_type=tf.int32)})
    error = labels["reward"] + labels["discount"] - tf.gather(q, labels["action"], axis=1, batch_dims=1)
    loss = tf.reduce_mean(tf.square(error))
    variables = net.trainable_variables
    keras.optimizers.Adam(0.01).apply(tf.gradients(loss, [v.value for v in variables]), variables)
    metrics = {"timestep": labels["global_timestep"] / 2**40, "step": labels["global_step"]}
    return EstimatorSpec(mode, loss=loss, td_error=error, metrics=metrics)


@pytest.fixture
def executor(trace: Make, batch_specs: Make) -> TensorFlowExecutor:
    program = trace(network)
    return TensorFlowExecutor(program, program.trace_train(batch_specs(6)))


def test_actions_and_updates_are_those_of_the_network(
    executor: TensorFlowExecutor, batch_specs: Make, batch_of: Make
) -> None:
    w1, b1, w2, b2 = executor.get_predict_weights().values()
    batch = batch_of(batch_specs(6))
    q = np.maximum(batch["observation"] @ w1 + b1, 0) @ w2 + b2

    predictions, state = executor.act(batch["observation"])
    assert state is None
    assert {name: value.dtype for name, value in predictions.items()} == {"q": np.float32, "action": np.int32}
    np.testing.assert_allclose(predictions["q"], q, atol=1e-6)
    np.testing.assert_array_equal(predictions["action"], q.argmax(axis=1))

    result = executor.train(batch, COUNTERS, [])
    error = batch["reward"] + batch["discount"] - q[np.arange(6), batch["action"]]
    assert result.td_error is not None
    np.testing.assert_allclose(result.td_error, error, atol=1e-6)
    np.testing.assert_allclose(result.scalars, [np.mean(error**2), 1, 7], rtol=1e-5)


def test_the_batch_axis_is_free(executor: TensorFlowExecutor) -> None:
    observations = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    together, _ = executor.act(observations)
    for row in range(5):
        alone, _ = executor.act(observations[row : row + 1])
        np.testing.assert_allclose(alone["q"][0], together["q"][row], atol=1e-6)


def test_arrays_need_not_be_contiguous(executor: TensorFlowExecutor) -> None:
    observations = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_array_equal(
        executor.act(observations.T)[0]["q"], executor.act(np.ascontiguousarray(observations.T))[0]["q"]
    )


def test_large_programs_take_another_way_to_the_same_bits(
    trace: Make, batch_specs: Make, batch_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[Any]:
        program = trace(network, seed=5)
        train = program.trace_train(batch_specs(6))
        executor = TensorFlowExecutor(program, train)
        found = [train.large, program.predict.large]
        for seed in range(5):
            batch = batch_of(batch_specs(6), seed=seed)
            result = executor.train(batch, COUNTERS, [])
            predictions, _ = executor.act(batch["observation"])
            found += [result.scalars.tobytes(), result.td_error is not None and result.td_error.tobytes()]
            found += [predictions["q"].tobytes(), predictions["action"].tobytes()]
        return found + [value.tobytes() for value in executor.get_weights().values()]

    small = run()
    monkeypatch.setattr("axonrl.runtimes.graphs.why_large", lambda graph, ops: "it is")
    large = run()
    assert (small[:2], large[:2]) == ([None, None], ["it is", "it is"])
    assert small[2:] == large[2:]


@pytest.mark.parametrize("small", [True, False])
def test_variables_do_not_share_the_memory_of_a_batch(
    small: bool, trace: Make, batch_specs: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        last = tf.Variable(tf.zeros([32]), name="last")
        if mode == Modes.PREDICT:
            return EstimatorSpec(mode, {"action": features[:, 0] + last[0]})
        last.assign(labels["reward"])
        return EstimatorSpec(mode, loss=0.0)

    monkeypatch.setattr("axonrl.runtimes.graphs.why_large", lambda graph, ops: None if small else "it is")
    program = trace(model_fn)
    specs = batch_specs(32)
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    batch = {key: aligned(np.ones(spec.shape), spec.dtype) for key, spec in specs.items()}
    executor.train(batch, COUNTERS, [])
    for array in batch.values():
        array[...] = 9
    assert executor.get_weights()["0000.last"].tolist() == [1.0] * 32


def test_an_executor_may_be_made_to_act_only(trace: Make) -> None:
    with pytest.raises(ValueError, match="was made to act only"):
        TensorFlowExecutor(trace(network)).train({}, COUNTERS, [])


# -- weights ----------------------------------------------------------------------------------------------------------


def with_all_dtypes(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    variables = [
        tf.Variable(tf.ones([2, 3], dtype), name=dtype.name)
        for dtype in (tf.float64, tf.float32, tf.float16, tf.int64, tf.int32, tf.uint8)
    ]
    variables.append(tf.Variable(True, name="bool"))
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"action": features[:, 0] * tf.cast(variables[0][0, 0], tf.float32)})
    count = tf.Variable(0, name="count", dtype=tf.int64)
    count.assign_add(labels["global_step"])
    return EstimatorSpec(mode, loss=0.0)


def test_weights_of_every_dtype_come_back_bit_by_bit(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    specs = batch_specs(2)
    program = trace(with_all_dtypes)
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    rng = np.random.default_rng(0)
    weights = {
        name: np.frombuffer(rng.bytes(value.nbytes), np.uint8).view(value.dtype).reshape(value.shape)
        if value.dtype.kind != "b"
        else np.array(False)
        for name, value in executor.get_weights().items()
    }
    weights["0000.float64"] = np.array([[1e300, -0.0, np.nan], [np.inf, 5e-324, 1 / 3]])
    weights["0003.int64"] = np.full((2, 3), 2**62 + 1)
    weights["0007.count"] = np.array(2**61 + 1)
    executor.set_weights(weights)
    found = executor.get_weights()
    assert list(found) == list(weights)
    for name, value in weights.items():
        assert (found[name].dtype, found[name].tobytes()) == (value.dtype, value.tobytes())
    executor.train(batch_of(specs), COUNTERS, [])
    assert executor.get_weights()["0007.count"] == 2**61 + 8


def test_weights_got_are_copies(executor: TensorFlowExecutor, batch_specs: Make, batch_of: Make) -> None:
    weights = executor.get_weights()
    before = {name: value.copy() for name, value in weights.items()}
    executor.train(batch_of(batch_specs(6)), COUNTERS, [])
    for name, value in before.items():
        np.testing.assert_array_equal(weights[name], value)
    executor.set_weights(weights)
    weights["0000.sequential/dense/kernel"][:] = 0
    np.testing.assert_array_equal(
        executor.get_weights()["0000.sequential/dense/kernel"], before["0000.sequential/dense/kernel"]
    )


def test_training_goes_on_from_weights_set(executor: TensorFlowExecutor, batch_specs: Make, batch_of: Make) -> None:
    batch = batch_of(batch_specs(6))
    executor.train(batch, COUNTERS, [])
    weights = executor.get_weights()
    first = executor.train(batch, COUNTERS, []).scalars
    executor.set_weights(weights)
    np.testing.assert_array_equal(executor.train(batch, COUNTERS, []).scalars, first)


def test_the_variables_of_predict_may_be_set_alone(executor: TensorFlowExecutor) -> None:
    zeros = {name: np.zeros_like(value) for name, value in executor.get_predict_weights().items()}
    others = {name: value for name, value in executor.get_weights().items() if name not in zeros}
    executor.set_weights(zeros)
    assert executor.act(np.ones((1, 4), np.float32))[0]["q"].tolist() == [[0, 0]]
    assert {name: v.tobytes() for name, v in executor.get_weights().items() if name not in zeros} == {
        name: v.tobytes() for name, v in others.items()
    }


KERNEL = "0000.sequential/dense/kernel"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: {**w, "0099.other": w[KERNEL]}, "unknown ['0099.other'], missing []; it has 0000.sequential/dense/"),
        (lambda w: {k: v for k, v in w.items() if k != KERNEL}, f"unknown [], missing ['{KERNEL}']; it has 0000."),
        (lambda w: {k: v for k, v in w.items() if "iter" not in k}, "missing ['0004.adam/iteration']"),
        (lambda w: {KERNEL: w[KERNEL]}, "missing ['0001.sequential/dense/bias', '0002.sequential/dense/kernel', '000"),
        (lambda w: {}, f"missing ['{KERNEL}',"),
        (lambda w: {**w, KERNEL: w[KERNEL].T}, f"{KERNEL} of HERE is float32(4, 8), given was float32(8, 4)"),
        (
            lambda w: {**w, KERNEL: w[KERNEL].astype(np.float64)},
            f"{KERNEL} of HERE is float32(4, 8), given was float64(4, 8)",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_nothing_is_set(
    change: Make, message: str, executor: TensorFlowExecutor
) -> None:
    before = executor.get_weights()
    ones = {name: np.ones_like(value) for name, value in before.items()}
    with pytest.raises(ValueError, match=re.escape(message.replace("HERE", f"{__name__}.network"))):
        executor.set_weights(change(ones))
    for name, value in executor.get_weights().items():
        np.testing.assert_array_equal(value, before[name])


def test_names_and_initial_weights_are_the_same_in_another_process(executor: TensorFlowExecutor) -> None:
    code = f"""
import json, runpy, zlib
import keras
keras.layers.Dense(1), keras.Sequential(), keras.optimizers.Adam()  # Keras numbers the next ones higher
module = runpy.run_path({__file__!r})
from axonrl.contracts import ArraySpec, RunConfig
from axonrl.runtimes.signature import BoundModelFn
from axonrl.runtimes.tracing import Program
program = Program(BoundModelFn(module["network"], None, RunConfig(), None), ArraySpec((4,), "float32"), 0)
specs = dict.fromkeys(("reward", "discount"), ArraySpec((6,), "float32"))
specs |= {{"action": ArraySpec((6,), "int32"), "observation": ArraySpec((6, 4), "float32")}}
program.trace_train(specs)
weights = module["TensorFlowExecutor"](program).get_weights()
print(json.dumps({{name: zlib.crc32(value.tobytes()) for name, value in weights.items()}}))
"""
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    here = {name: zlib.crc32(value.tobytes()) for name, value in executor.get_weights().items()}
    assert json.loads(output) == here
    assert list(json.loads(output)) == list(here)
    assert len(set(here)) == 14


def test_specs_of_nested_features(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    """A dictionary's order is not what TensorFlow sorts by: every array must reach its own input."""

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        count = tf.Variable(0.0, name="count")
        total = features["z"] * 1.0 + features["a"] * 10.0 + features["m"] * 100.0
        if mode == Modes.PREDICT:
            return EstimatorSpec(mode, {"z": features["z"], "action": total, "a": features["a"]})
        count.assign_add(1.0)
        following = labels["next_observation"]
        loss = tf.reduce_sum(total + following["z"] * 1e3 + following["a"] * 1e4 + following["m"] * 1e5)
        return EstimatorSpec(mode, loss=loss + labels["reward"][0] * 1e6)

    spec = {name: ArraySpec((), np.float32) for name in ("z", "a", "m")}
    program = trace(model_fn, observation=spec)
    executor = TensorFlowExecutor(program)

    def digits(z: int, a: int, m: int) -> dict[str, Any]:
        return {"z": np.array([z], "f"), "m": np.array([m], "f"), "a": np.array([a], "f")}

    predictions, _ = executor.act(digits(1, 2, 3))
    assert {name: value.tolist() for name, value in predictions.items()} == {"z": [1], "action": [321], "a": [2]}
    specs = batch_specs(1, observation=spec)
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    batch = {**batch_of(specs), "observation": digits(1, 2, 3), "next_observation": digits(4, 5, 6)}
    batch["reward"] = np.array([7], "f")
    assert executor.train(batch, COUNTERS, []).scalars.tolist() == [7654321]
