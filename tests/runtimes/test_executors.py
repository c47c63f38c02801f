"""What runs a traced model_fn, TensorFlow or LiteRT: numbers in and out, and weights by name."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import ArraySpec, EstimatorSpec, Modes
from axonrl.policies.executors import Executor, check_weights
from axonrl.run_dir.programs import shared_content
from axonrl.runtimes.executor_choice import choose
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.executor import lite_executor
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.runtimes.tracing.program import Program, Train
from axonrl.tests.raising import raised
from axonrl.tests.runtimes.networks import Make, network

COUNTERS = {"global_step": 7, "global_timestep": 2**40, "progress": 0.0}


@pytest.fixture(scope="module", params=["tensorflow", "litert"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def execute(kind: str) -> Callable[..., Executor]:
    """``execute(program, train=None)`` returns the executor; what was converted once is not converted again."""

    def make(program: Program, train: Train | None = None) -> Executor:
        return choose(program, train, kind, None, shared_content)[0]

    return make


@pytest.fixture(scope="module")
def made(execute: Callable[..., Executor], trace: Make, batch_specs: Make) -> tuple[Executor, dict[str, Any]]:
    """The network's executor, and the weights that it begins with."""
    program = trace(network)
    executor = execute(program, program.trace_train(batch_specs(6)))
    return executor, executor.get_weights()


@pytest.fixture
def executor(made: tuple[Executor, dict[str, Any]]) -> Executor:
    executor, weights = made
    executor.set_weights(weights)
    return executor


def test_actions_and_updates_are_those_of_the_network(executor: Executor, batch_specs: Make, batch_of: Make) -> None:
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


def test_arrays_need_not_be_contiguous(executor: Executor) -> None:
    observations = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    np.testing.assert_array_equal(
        executor.act(observations.T)[0]["q"], executor.act(np.ascontiguousarray(observations.T))[0]["q"]
    )


def with_all_dtypes(features: Any, labels: Any, mode: str, params: Any) -> EstimatorSpec:
    variables = [
        tf.Variable(tf.ones([2, 3], dtype), name=dtype)
        for dtype in ("float64", "float32", "int8", "int64", "int32", "uint8", *params["more"])
    ]
    variables.append(tf.Variable(True, name="bool"))
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"action": features[:, 0] * tf.cast(variables[0], tf.float32)[0, 0]})
    count = tf.Variable(0, name="count", dtype=tf.int64)
    count.assign_add(labels["global_step"])
    return EstimatorSpec(mode, loss=0.0)


def test_weights_of_every_dtype_come_back_bit_by_bit(
    kind: str, execute: Make, trace: Make, batch_specs: Make, batch_of: Make
) -> None:
    specs = batch_specs(2)
    more = ["float16"] if kind == "tensorflow" else []  # LiteRT does not keep it in variables
    program = trace(with_all_dtypes, params={"more": more})
    executor = execute(program, program.trace_train(specs))
    rng = np.random.default_rng(0)
    weights = {
        name: np.frombuffer(rng.bytes(value.nbytes), np.uint8).view(value.dtype).reshape(value.shape)
        if value.dtype.kind != "b"
        else np.array(False)
        for name, value in executor.get_weights().items()
    }
    weights["0000.float64"] = np.array([[1e300, -0.0, np.nan], [np.inf, 5e-324, 1 / 3]])
    weights["0003.int64"] = np.full((2, 3), 2**62 + 1)
    count = f"{7 + len(more):04d}.count"
    weights[count] = np.array(2**61 + 1)
    executor.set_weights(weights)
    found = executor.get_weights()
    assert list(found) == list(weights)
    for name, value in weights.items():
        assert (found[name].dtype, found[name].tobytes()) == (value.dtype, value.tobytes())
    executor.train(batch_of(specs), COUNTERS, [])
    assert executor.get_weights()[count] == 2**61 + 8


def test_what_goes_in_and_comes_out_stays_as_it_is(executor: Executor, batch_specs: Make, batch_of: Make) -> None:
    batch, weights = batch_of(batch_specs(6)), executor.get_weights()
    predictions, _ = executor.act(batch["observation"])
    result = executor.train(batch, COUNTERS, [])
    arrays = [*predictions.values(), result.scalars, result.td_error, *weights.values()]
    before = [array.tobytes() for array in arrays if array is not None]
    for name, array in batch_of(batch_specs(6)).items():
        np.testing.assert_array_equal(batch[name], array)
    other = batch_of(batch_specs(6), seed=1)
    executor.train(other, COUNTERS, [])
    executor.act(other["observation"])
    assert [array.tobytes() for array in arrays if array is not None] == before
    executor.set_weights(weights)
    kernel = weights["0000.sequential/dense/kernel"].copy()
    weights["0000.sequential/dense/kernel"][:] = 0
    np.testing.assert_array_equal(executor.get_weights()["0000.sequential/dense/kernel"], kernel)


def test_the_variables_of_predict_may_be_set_alone(executor: Executor) -> None:
    zeros = {name: np.zeros_like(value) for name, value in executor.get_predict_weights().items()}
    others = {name: value for name, value in executor.get_weights().items() if name not in zeros}
    executor.set_weights(zeros)
    assert executor.act(np.ones((1, 4), np.float32))[0]["q"].tolist() == [[0, 0]]
    assert {name: v.tobytes() for name, v in executor.get_weights().items() if name not in zeros} == {
        name: v.tobytes() for name, v in others.items()
    }


FLOATS, COUNT = ArraySpec((4, 8), np.float32), ArraySpec((), np.int64)
GIVEN: dict[str, Any] = {"0.kernel": np.zeros((4, 8), np.float32), "1.count": np.zeros((), np.int64)}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({**GIVEN, "9.other": 0}, "not the weights of it: unknown ['9.other'], missing []; expected 0.kernel, 1.count"),
        ({"1.count": GIVEN["1.count"]}, "unknown [], missing ['0.kernel']; expected 0.kernel, 1.count"),
        ({**GIVEN, "0.kernel": np.zeros((8, 4), np.float32)}, "of it must be float32(4, 8), got float32(8, 4)"),
        ({**GIVEN, "1.count": np.zeros((), np.int32)}, "1.count of it must be int64(), got int32()"),
    ],
)
def test_weights_that_do_not_fit_are_refused(weights: dict[str, Any], message: str) -> None:
    predict, every = {"0.kernel": FLOATS}, {"0.kernel": FLOATS, "1.count": COUNT}
    check_weights("it", GIVEN, predict, every)
    check_weights("it", {"0.kernel": GIVEN["0.kernel"]}, predict, every)
    raised(ValueError, check_weights, "it", weights, predict, every, match=re.escape(message))


def test_nothing_is_set_of_weights_that_do_not_fit(executor: Executor) -> None:
    before = executor.get_weights()
    ones = {name: np.ones_like(value) for name, value in before.items() if "iter" not in name}
    message = f"these are not the weights of {network.__module__}.network: unknown [], missing ['0004.adam/iteration']"
    raised(ValueError, executor.set_weights, ones, match=re.escape(message))
    for name, value in executor.get_weights().items():
        np.testing.assert_array_equal(value, before[name])


def test_observations_of_every_dtype(execute: Make, trace: Make, batch_specs: Make, batch_of: Make) -> None:
    observation = {
        "frame": ArraySpec((2, 2), np.uint8),
        "flags": ArraySpec((2,), np.bool_),
        "bits": ArraySpec((2,), np.int8),
        "number": ArraySpec((), np.int64),
    }

    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        count = tf.Variable(0, dtype=tf.int64, name="count")
        frame = tf.cast(features["frame"], tf.float32) / 255.0
        total = tf.reduce_sum(frame, (1, 2)) + 10 * tf.reduce_sum(features["flags"] + features["bits"], 1)
        if mode == Modes.PREDICT:
            return EstimatorSpec(mode, {"action": features["number"] + 1, "total": total, "frame": features["frame"]})
        count.assign_add(labels["next_observation"]["number"][0])
        return EstimatorSpec(mode, loss=tf.reduce_sum(total), td_error=total)

    program = trace(model_fn, observation=observation)
    specs = batch_specs(2, observation=observation)
    executor = execute(program, program.trace_train(specs))
    features = {
        "frame": np.array([[[255, 0], [255, 0]], [[0, 0], [0, 51]]], np.uint8),
        "flags": np.array([[True, False], [False, False]]),
        "bits": np.array([[1, 1], [0, 1]], np.int8),
        "number": np.array([2**53, -5], np.int64),
    }
    predictions, _ = executor.act(features)
    assert predictions["action"].tolist() == [2**53 + 1, -4]
    np.testing.assert_allclose(predictions["total"], [32, 10.2], rtol=1e-6)
    assert predictions["frame"].dtype == np.uint8
    np.testing.assert_array_equal(predictions["frame"], features["frame"])
    batch = batch_of(specs) | {
        "observation": features,
        "next_observation": {**features, "number": np.array([2**61, 1], np.int64)},
    }
    result = executor.train(batch, COUNTERS, [])
    assert result.td_error is not None
    np.testing.assert_allclose(result.td_error, [32, 10.2], rtol=1e-6)
    assert executor.get_weights()["0000.count"] == 2**61


def scaling(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    scale = tf.Variable(2.0, name="scale")
    if mode == Modes.PREDICT:
        return EstimatorSpec(mode, {"action": scale * features[:, 0]})
    scale.assign_add(1.0)
    return EstimatorSpec(mode, loss=scale)


def test_a_program_may_act_only(trace: Make) -> None:
    program = trace(scaling)
    content = convert({"act": program.predict.function}, list(program.store.variables().values()))
    executor = lite_executor(program, None, content)
    assert executor.acts
    assert executor.act(np.ones((2, 4), np.float32))[0]["action"].tolist() == [2, 2]
    with pytest.raises(ValueError, match=r"^this executor of .*\.scaling only acts$"):
        executor.train({}, COUNTERS, [])


def test_a_program_may_learn_only(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    program = trace(scaling)
    specs = batch_specs(2)
    train = program.trace_train(specs)
    content = convert({"train": train.function}, list(program.store.variables().values()))
    executor = lite_executor(program, train, content)
    assert not executor.acts
    assert executor.train(batch_of(specs), COUNTERS, []).scalars.tolist() == [3]
    assert executor.get_predict_weights() == {"0000.scale": 3}
    with pytest.raises(ValueError, match=r"^this executor of .*\.scaling only learns$"):
        executor.act(np.ones((2, 4), np.float32))


def test_weights_begin_as_tensorflows_are(trace: Make) -> None:
    program = trace(scaling)
    (variable,) = program.store.variables().values()
    content = convert({"act": program.predict.function}, [variable])
    variable.assign(7.0)
    assert lite_executor(program, None, content).get_weights() == {"0000.scale": 7}
    executor = lite_executor(program, None, content)
    executor.set_weights({"0000.scale": np.array(5, np.float32)})
    assert variable.numpy() == 7  # and are its own from then on


@pytest.mark.parametrize("damage", [lambda c: c[: len(c) // 2], lambda c: b""])
def test_what_is_not_a_program_is_refused(damage: Make, trace: Make) -> None:
    program = trace(scaling)
    content = convert({"act": program.predict.function}, list(program.store.variables().values()))
    with pytest.raises(ValueError, match="LiteRT cannot load this program"):
        lite_executor(program, None, damage(content))


def aligned(values: Any, dtype: Any = np.float32) -> Any:
    """An array whose memory TensorFlow could use as it is."""
    values = np.asarray(values, dtype)
    memory = np.empty(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + values.nbytes].view(dtype).reshape(values.shape)
    array[...] = values
    return array


def test_large_programs_take_another_way_to_the_same_bits(
    trace: Make, batch_specs: Make, batch_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[Any]:
        program = trace(network, seed=5)
        train = program.trace_train(batch_specs(6))
        executor = TensorFlowExecutor(program, train)
        found = [train.large, program.predict.large]
        for seed in range(2):
            batch = batch_of(batch_specs(6), seed=seed)
            result = executor.train(batch, COUNTERS, [])
            found += [result.scalars.tobytes(), result.td_error is not None and result.td_error.tobytes()]
            for copies in (1, 3):  # few rows, and more than few
                predictions, _ = executor.act(np.repeat(batch["observation"], copies, axis=0))
                found += [predictions["q"].tobytes(), predictions["action"].tobytes()]
        return found + [value.tobytes() for value in executor.get_weights().values()]

    small = run()
    monkeypatch.setattr("axonrl.runtimes.tracing.graphs.why_large", lambda graph, ops: "it is")
    for one_thread in (False, True):
        monkeypatch.setattr("axonrl.runtimes.tensorflow._has_one_thread", lambda one=one_thread: one)
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

    monkeypatch.setattr("axonrl.runtimes.tracing.graphs.why_large", lambda graph, ops: None if small else "it is")
    program = trace(model_fn)
    specs = batch_specs(32)
    executor = TensorFlowExecutor(program, program.trace_train(specs))
    batch = {key: aligned(np.ones(spec.shape), spec.dtype) for key, spec in specs.items()}
    executor.train(batch, COUNTERS, [])
    for array in batch.values():
        array[...] = 9
    assert executor.get_weights()["0000.last"].tolist() == [1.0] * 32
