"""An evaluation runs the model_fn's EVAL on batches of the memory, where it is asked for, and disturbs nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Discrete

from axonrl import EstimatorSpec, Modes, noise
from axonrl.explorations import EpsilonGreedy
from axonrl.hooks import EvaluationHook
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.tests.estimators.fakes import Counting, ListMemory, agent, differences, snapshot


def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """A matrix that is moved with noise; EVAL: its mean value, and what EVAL is told and drew."""
    weights = tf.Variable(tf.random.stateless_uniform((2, 2), (1, 2)), name="weights")
    values = tf.matmul(features, weights)  # [B, 2]
    if mode == Modes.PREDICT:
        action = tf.argmax(values, axis=1, output_type=tf.int32)
        return EstimatorSpec(mode, {"action": action}, exploration=EpsilonGreedy(0.5, Discrete(2)))
    drawn = noise.normal((2, 2))
    if mode == Modes.EVAL:
        metrics = {"step": labels["global_step"], "drawn": drawn[0, 0], "mark": tf.reduce_mean(features[..., 1])}
        return EstimatorSpec(mode, loss=tf.reduce_mean(values), eval_metric_ops=metrics)
    loss = tf.reduce_mean(values**2)
    train_op = weights.assign_sub(0.01 * tf.gradients(loss, weights)[0] + 0.001 * drawn)
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


class Sees:
    """A hook that keeps the results of every evaluation, and the weights and the newest rows of the memory then."""

    def __init__(self, memory: Any = None) -> None:
        self.memory = memory
        self.results: list[Mapping[str, float]] = []
        self.weights: list[Any] = []
        self.rows: list[Any] = []
        self.timesteps: list[int] = []

    def after_evaluation(self, session: Any, facts: Any) -> None:
        self.timesteps.append(session.global_timestep)
        self.results.append(facts.results)
        self.weights.append(session.weights())
        if self.memory is not None:
            newest = self.memory.rows[-self.memory.batch_size :]
            self.rows.append(np.stack([row["observation"] for row in newest]))

    def found(self, name: str) -> list[Any]:
        return [results.get(name) for results in self.results]


@pytest.mark.parametrize("runtime", ["tensorflow", "litert"])
def test_the_means_are_those_of_the_weights_as_they_are_then(runtime: str, tmp_path: Path) -> None:
    """LiteRT keeps its weights inside: TensorFlow's variables would still be those of the beginning."""
    memory = ListMemory(batch_size=3)
    sees = Sees(memory)
    hooks = [sees, EvaluationHook(10, episodes=1, env=Counting(4), eval_batches=2)]
    agent(tmp_path, memory, model_fn, runtime=runtime).train(Counting(4), 4, 2, timesteps=20, hooks=hooks)
    assert sees.timesteps == [10, 20]
    # Hooks hear of a timestep before the updates that it makes due: at 10 those of 4, 6 and 8 have run.
    assert sees.found("eval/step") == [3, 8]
    expected = [float((rows @ w["0000.weights"]).mean()) for rows, w in zip(sees.rows, sees.weights, strict=True)]
    assert sees.found("eval_loss") == pytest.approx(expected, rel=1e-5)
    assert not np.array_equal(sees.weights[0]["0000.weights"], sees.weights[1]["0000.weights"])
    assert list(sees.results[0])[-4:] == ["eval_loss", "eval/step", "eval/drawn", "eval/mark"]
    assert sees.results[0]["episode_return_mean"] == 10


def test_training_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Weights, memory, and all generators, with batches and noise drawn by TRAIN and by EVAL."""
    asked: list[dict[str, int]] = [{}, {"eval_batches": 3}]
    for name, more in zip("ab", asked, strict=True):
        hooks = [EvaluationHook(10, episodes=2, env=Counting(4), **more)]  # type: ignore[arg-type]  # more has but this one
        one = agent(tmp_path / name, ReplayMemory(1000, 4), model_fn)
        one.train(Counting(4), 4, 2, timesteps=47, hooks=hooks)
    without, with_eval = ({**snapshot(tmp_path / name), "hooks": {}} for name in "ab")
    assert "0000.weights" in without["weights"]
    assert differences(without, with_eval) == []


def test_a_resumed_run_finds_the_same(tmp_path: Path) -> None:
    """The evaluation at the end of the first session is one of those that come anyway."""
    seen = []
    for name, parts in (("one", [40]), ("two", [20, 20])):
        sees = Sees()
        for timesteps in parts:
            hooks = [sees, EvaluationHook(10, episodes=1, env=Counting(4), eval_batches=2)]
            one = agent(tmp_path / name, ReplayMemory(1000, 4), model_fn)
            one.train(Counting(4), 4, 2, timesteps=timesteps, hooks=hooks)
        seen.append((sees.timesteps, [dict(results) for results in sees.results]))
    assert (seen[0], seen[0][0]) == (seen[1], [10, 20, 30, 40])
    found = seen[0][1]
    assert len({results["eval/drawn"] for results in found}) == 4  # each draws its own noise
    assert len({results["eval/mark"] for results in found}) == 4  # and its own batches


def test_the_mean_is_over_different_batches(tmp_path: Path) -> None:
    """One batch of one row is one of the rows; the mean over 200 is near the mean of all."""
    marks, memory = {}, ReplayMemory(1000, 1)
    for batches in (1, 200):
        sees, memory = Sees(), ReplayMemory(1000, 1)
        hooks = [sees, EvaluationHook(30, episodes=1, env=Counting(4), eval_batches=batches)]
        agent(tmp_path / str(batches), memory, model_fn).train(Counting(1), 100, timesteps=30, hooks=hooks)
        marks[batches] = sees.results[0]["eval/mark"]
    rows = np.array([memory.get_by_index(i)["observation"] for i in range(30)])[:, 1]
    assert np.isclose(rows, marks[1]).any()
    assert not np.isclose(rows, marks[200]).any()
    assert marks[200] == pytest.approx(rows.mean(), abs=4 * rows.std() / np.sqrt(200))


def test_what_sampling_notes_on_a_memory_is_forgotten(tmp_path: Path) -> None:
    class Annealing(ReplayMemory):
        samples = 0

        def sample(self) -> Any:
            self.samples += 1
            return super().sample()

    memory = Annealing(1000, 4)
    hooks = [EvaluationHook(10, episodes=1, env=Counting(4), eval_batches=7)]
    one = agent(tmp_path, memory, model_fn).train(Counting(4), 4, 2, timesteps=30, hooks=hooks)
    assert memory.samples == one.global_step == 14


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if text.startswith("EVAL is skipped")]


def test_a_memory_that_cannot_be_sampled_is_left_out_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sees = Sees()
    hooks = [sees, EvaluationHook(2, episodes=1, env=Counting(4), eval_batches=1)]
    agent(tmp_path, ReplayMemory(1000, 5), model_fn).train(Counting(4), 5, 2, timesteps=8, hooks=hooks)
    assert [loss is None for loss in sees.found("eval_loss")] == [True, True, False, False]
    assert sees.found("episodes") == [1, 1, 1, 1]
    assert said(caplog) == ["EVAL is skipped in the evaluation at timestep 2: the memory cannot be sampled"]


def test_a_rollout_is_evaluated_when_it_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sees = Sees()
    hooks = [sees, EvaluationHook(4, episodes=1, env=Counting(4), eval_batches=2)]
    agent(tmp_path, BatchMemory(8), model_fn).train(Counting(3), timesteps=24, hooks=hooks)
    assert sees.timesteps == [4, 8, 12, 16, 20, 24]
    assert [loss is None for loss in sees.found("eval_loss")] == [True, False] * 3
    assert said(caplog) == [
        "EVAL is skipped in the evaluation at timestep 4: the memory cannot be sampled"
        " (it is full only at multiples of its size)"
    ]
