"""Schedules in a model, also over the run's progress: by hand, in all executors, with another length, and resumed."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import Agent, EstimatorSpec
from axonrl.errors import ArgumentError
from axonrl.estimators.limits import Limits
from axonrl.hooks import EvaluationHook
from axonrl.models import dqn
from axonrl.policies import Learner
from axonrl.run_dir.snapshot import Counters
from axonrl.schedules import Linear
from axonrl.tests.estimators.fakes import At, Counting, agent, differences, snapshot
from axonrl.tests.test_schedules import VALUES

pytestmark = pytest.mark.usefixtures("traced_once")

SMALL = {"hidden": [4], "optimizer": "sgd"}
PARAMS = {
    **SMALL,
    "learning_rate": {"kind": "linear", "start": 0.01, "stop": 0, "over": "run"},
    "epsilon": {"kind": "linear", "start": 1, "stop": 0.2, "duration": 0.5, "over": "run"},
}


class Levels:
    """A hook that notes timestep, learning rate and epsilon of every update."""

    def __init__(self) -> None:
        self.found: list[tuple[int, float, float]] = []

    def after_update(self, session: Any, facts: Any) -> None:
        self.found.append((session.global_timestep, facts.metrics["learning_rate"], session.exploration))

    def taken(self) -> list[tuple[int, Any, Any]]:
        found, self.found = self.found, []
        return [(timestep, pytest.approx(rate, abs=1e-9), pytest.approx(level)) for timestep, rate, level in found]


@pytest.mark.parametrize(
    ("limits", "counts", "expected"),
    [
        (Limits(timesteps=200), Counters(3, 50, 5), 0.25),
        (Limits(timesteps=200), Counters(3, 204, 5), 1.0),
        (Limits(steps=10, timesteps=200), Counters(4, 50, 5), 0.4),
        (Limits(episodes=8, timesteps=200), Counters(4, 50, 6), 0.75),
    ],
)
def test_progress_is_the_share_of_the_limit_that_is_nearest(limits: Any, counts: Any, expected: float) -> None:
    assert limits.progress(counts) == expected


@pytest.mark.usefixtures("traced_anew")
@pytest.mark.parametrize("runtime", ["tensorflow", "litert"])
def test_levels_by_hand_and_a_longer_run_without_another_trace(tmp_path: Path, runtime: str) -> None:
    traced: list[str] = []

    def model_fn(features: Any, labels: Any, mode: str, params: Any, config: Any) -> EstimatorSpec:
        traced.append(mode)
        return dqn.model_fn(features, labels, mode, params, config)

    levels = Levels()
    one = agent(tmp_path, model=model_fn, params=PARAMS, runtime=runtime)
    one.train(Counting(), 10, 10, max_timesteps=40, hooks=levels)
    assert levels.taken() == [(10, 0.0075, 0.6), (20, 0.005, 0.2), (30, 0.0025, 0.2), (40, 0.0, 0.2)]
    before = len(traced)
    one.train(Counting(), 10, 10, max_timesteps=80, hooks=levels)
    assert levels.taken() == [(50, 0.00375, 0.2), (60, 0.0025, 0.2), (70, 0.00125, 0.2), (80, 0.0, 0.2)]
    one.train(Counting(), 10, 10, timesteps=20, hooks=levels)  # of 100 in all
    assert levels.taken() == [(90, 0.001, 0.2), (100, 0.0, 0.2)]
    assert len(traced) == before


def test_of_a_number_of_updates_the_first_one_is_at_the_start(tmp_path: Path) -> None:
    levels = Levels()
    agent(tmp_path, model=dqn.model_fn, params=PARAMS).train(Counting(), 10, 10, steps=4, hooks=levels)
    assert [rate for _, rate, _ in levels.found] == pytest.approx([0.01, 0.0075, 0.005, 0.0025])


def test_a_resumed_run_ends_bit_for_bit_like_an_uninterrupted_one(tmp_path: Path) -> None:
    def train(folder: str, *hooks: Any) -> None:
        one = agent(tmp_path / folder, model=dqn.model_fn, params=PARAMS)
        one.train(Counting(), 10, 3, max_timesteps=60, hooks=hooks)

    train("whole")
    train("parts", At("after_timestep", 25, lambda session: session.request_stop("")))
    assert snapshot(tmp_path / "parts")["counters"]["global_timestep"] == 25
    train("parts")
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []


def test_without_a_limit_nothing_is_begun(tmp_path: Path) -> None:
    for name in ("learning_rate", "epsilon"):
        one = agent(tmp_path, model=dqn.model_fn, params={**SMALL, name: PARAMS[name]})
        with pytest.raises(ArgumentError, match=r"use agent\.train with max_timesteps, max_steps") as caught:
            one.train(Counting())
        assert caught.value.argument == "max_timesteps"
        with pytest.raises(ArgumentError, match="so the run's length must be known"), one.session(Counting()):
            pass
        assert not (tmp_path / "run.json").exists()
    one.check(Counting())  # of which no limit is asked


def test_every_policy_explores_as_at_its_timestep(tmp_path: Path) -> None:
    """Epsilon is 1 - 0.8 * (5 / 20) / 0.5 = 0.6 at timestep 5 of 20, and 0.2 from 10 on."""
    params = {**PARAMS, "learning_rate": 0.0}
    one = agent(tmp_path / "run", model=dqn.model_fn, params=params)
    one.train(Counting(), 8, 2, max_timesteps=20, hooks=[At("after_timestep", 5, lambda at: at.save_checkpoint())])
    asked: list[tuple[int | str, float]] = [(2, 0.6), ("last", 0.2)]
    for policy, epsilon in asked:
        constant = agent(tmp_path / str(policy), model=dqn.model_fn, params={**params, "epsilon": epsilon})
        constant.train(Counting(), 8, 2, max_timesteps=2).set_weights(one.get_weights())
        loaded, rows = Agent.load(tmp_path / "run"), np.zeros((40, 2), np.float32)
        evaluated = [explored(made, at) for made, at in ((constant, "last"), (one, policy), (loaded, policy))]
        assert evaluated[0] == evaluated[1] == evaluated[2]
        acted = constant.act(rows, explore=True), loaded.act(rows, explore=True, policy=policy)
        np.testing.assert_array_equal(*acted)


def test_a_repeated_evaluation_says_that_other_limits_may_have_changed_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Epsilon is 1 - 60 / 80 = 0.25 at timestep 60 of 80, and 0.75 of 240."""
    params = {"hidden": [4], "epsilon": {"kind": "linear", "start": 1.0, "stop": 0.0, "over": "run"}}
    one = agent(tmp_path / "run", model=dqn.model_fn, params=params)
    one.train("CartPole-v1", 8, 2, max_timesteps=80, hooks=EvaluationHook(60, 4, explore=True))
    recorded = one.recorded_evaluation(2)
    assert recorded is not None
    assert one.evaluate("CartPole-v1", policy=2) == recorded.results
    assert "have changed" not in caplog.text
    one.train("CartPole-v1", max_timesteps=240)
    assert one.evaluate("CartPole-v1", policy=2) != recorded.results
    assert "or the run's limits, which an exploration may follow, have changed" in caplog.text


def explored(made: Agent, policy: int | str) -> list[Any]:
    """The actions of an exploring evaluation."""
    env = Counting(40)
    made.evaluate(env, episodes=3, seed=1, explore=True, policy=policy)
    return env.actions


def scheduled(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """A user's own, with every kind of schedule; its weight falls by what the second one says."""
    weight = tf.Variable(0.0, name="weight")
    if mode == "predict":
        return EstimatorSpec(mode, {"action": tf.cast(features[:, 0] * 0 + weight * 0, tf.int32)})
    values = {str(index): schedule(labels["global_step"]) for index, (schedule, _, _) in enumerate(VALUES)}
    rate = Linear(1.0, 0.0, 4)
    keras.optimizers.SGD(lambda: rate(labels["global_step"])).apply([tf.constant(1.0)], [weight])
    return EstimatorSpec(mode, loss=weight, metrics=values)


@pytest.mark.usefixtures("traced_anew")
def test_every_kind_in_a_model_of_ones_own_trained_resumed_and_compiled(tmp_path: Path) -> None:
    whole = agent(tmp_path / "whole", model=scheduled).train(Counting(), 10, 10, timesteps=40)
    assert list(whole.get_weights().values()) == [-2.5]  # 1 + 3/4 + 1/2 + 1/4
    for _ in range(2):
        agent(tmp_path / "resumed", model=scheduled).train(Counting(), 10, 10, timesteps=20)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "resumed")) == []
    learner = Learner.load(whole.compile(tmp_path / "compiled", Counting()))
    specs: Any = learner.program.train.batch
    batch = {name: np.zeros(spec.shape, spec.dtype) for name, spec in specs.items()}
    for index, (_, t, expected) in enumerate(VALUES):
        counters = {"global_step": t, "global_timestep": 0, "progress": 0.0}
        value = learner.train(batch, counters, []).scalars[1 + index]
        assert value == pytest.approx(expected, rel=1e-6, abs=1e-7)
