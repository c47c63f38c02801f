"""The LiteRT executor: what is its own. What all executors do is in test_executors.py."""

from typing import Any

import numpy as np
import pytest

from axonrl.contracts import EstimatorSpec, Modes
from axonrl.runs.programs import shared
from axonrl.runtimes.choosing import choose
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.executor import lite_executor
from axonrl.tests.runtimes.networks import COUNTERS, Make, network


def test_both_executors_have_the_same_losses_over_many_updates(trace: Make, batch_specs: Make, batch_of: Make) -> None:
    specs, losses = batch_specs(6), []
    for runtime in ("litert", "tensorflow"):
        program = trace(network)
        executor = choose(program, program.trace_train(specs), runtime, None, shared)[0]
        batches = [batch_of(specs, seed=seed % 20) for seed in range(200)]
        losses.append([executor.train(batch, COUNTERS, []).scalars[0] for batch in batches])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert np.mean(losses[0][-20:]) < 0.9 * np.mean(losses[0][:20])


def scaling(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    import tensorflow as tf

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
    with pytest.raises(ValueError, match="LiteRT does not take this program"):
        lite_executor(program, None, damage(content))
