from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.contracts import EstimatorSpec, Modes
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.tests.runtimes.networks import Make, network

COUNTERS = {"global_step": 7, "global_timestep": 2**40, "progress": 0.0}


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


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda x: tf.switch_case(tf.cast(x, tf.int32) - 1, [lambda: x, lambda: -x, lambda: 7.0]), [1.0, -2.0, 7.0]),
        (lambda x: tf.while_loop(lambda y: y < 10, lambda y: 2 * y, [x])[0], [16.0, 16.0, 12.0]),
        (tf.function(lambda x: tf.cond(x > 2, lambda: x, lambda: 0.0), autograph=False), [0.0, 0.0, 3.0]),
    ],
)
def test_loops_and_conditionals_run_too(
    choose: Callable[[Any], Any], expected: list[float], trace: Make, batch_specs: Make, batch_of: Make
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(1.0, name="weight")
        if mode == Modes.PREDICT:
            return EstimatorSpec(mode, {"action": choose(features[0, 0] * weight) + 0 * features[:, 0]})
        weight.assign_add(1.0)
        return EstimatorSpec(mode, loss=choose(tf.cast(labels["global_step"], tf.float32) * (weight - 1.0)))

    program = trace(model_fn)
    executor = TensorFlowExecutor(program, program.trace_train(batch_specs(6)))
    batch = batch_of(batch_specs(6))
    for first, wanted in zip((1.0, 2.0, 3.0), expected, strict=True):
        predictions, _ = executor.act(np.full_like(batch["observation"][:1], first))
        assert predictions["action"].tolist() == [wanted]
    for step, wanted in zip((1, 2, 3), expected, strict=True):
        executor.set_weights({"0000.weight": np.ones((), np.float32)})
        counters = {"global_step": step, "global_timestep": 0, "progress": 0.0}
        assert executor.train(batch, counters, []).scalars.tolist() == [wanted]


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
