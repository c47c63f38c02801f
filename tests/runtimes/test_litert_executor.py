"""The LiteRT executor: what is its own. What all executors do is in test_executors.py."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl.contracts import ArraySpec, EstimatorSpec, Modes, RunConfig
from axonrl.models import dqn
from axonrl.policies.executors import Executor
from axonrl.runs.programs import shared
from axonrl.runtimes.choosing import choose
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.executor import lite_executor
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn
from axonrl.tests.runtimes.networks import COUNTERS, Make


def dqn_executor(runtime: str, batch_specs: Make) -> Executor:
    observations, actions = spaces.Box(-1, 1, (4,), np.float32), spaces.Discrete(2)
    config = dataclasses.replace(RunConfig(), observation_space=observations, action_space=actions)
    params = {"hidden": [16, 16], "target_update_period": 25}
    program = Program(BoundModelFn(dqn.model_fn, params, config, None), ArraySpec((4,), np.float32), 0)
    return choose(program, program.trace_train(batch_specs(32)), runtime, None, shared)[0]


def losses(executor: Executor, batch_specs: Make, updates: int) -> Any:
    rng = np.random.default_rng(0)
    specs = batch_specs(32)
    found = []
    for step in range(updates):
        batch = {name: rng.standard_normal(spec.shape).astype(np.float32) for name, spec in sorted(specs.items())}
        batch["action"] = rng.integers(0, 2, 32).astype(np.int32)
        batch["discount"] = np.full(32, 0.99, np.float32)
        result = executor.train(batch, {"global_step": step, "global_timestep": step, "progress": 0.0}, [])
        found.append(result.scalars[0])
    return np.array(found)


def test_both_executors_have_the_same_losses_over_many_updates_of_dqn(batch_specs: Make) -> None:
    found, expected = (
        losses(dqn_executor(runtime, batch_specs), batch_specs, 100) for runtime in ("litert", "tensorflow")
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.ptp(found) > 0.1


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
