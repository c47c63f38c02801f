"""A2C: PPO with one step for each rollout, and a gradient that TensorFlow differentiates here."""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Agent, Modes, RunConfig
from axonrl.contracts import ArraySpec
from axonrl.environments import make
from axonrl.errors import ArgumentError
from axonrl.memories import BatchMemory
from axonrl.models import a2c, ppo
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn
from axonrl.tests.estimators.fakes import differences

CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2))


class Watching:
    """A hook that keeps the metrics of every update, and the weights at the end."""

    def __init__(self) -> None:
        self.metrics: list[Mapping[str, float]] = []

    def after_update(self, session: Any, facts: Any) -> None:
        self.metrics.append({"loss": facts.loss, **facts.metrics})

    def end(self, session: Any, facts: Any) -> None:
        self.weights = session.weights()


def train(model_fn: Callable[..., Any], model_dir: Path, params: Mapping[str, Any], **settings: Any) -> Watching:
    """Five rollouts of four CartPoles, five timesteps each."""
    watching = Watching()
    config = RunConfig(seed=0, save_checkpoints_secs=None, **settings)
    one = Agent(model_fn, BatchMemory(20), model_dir, config, params)
    with contextlib.closing(make("CartPole-v1", num_envs=4)) as env:
        one.train(env, steps=5, hooks=[watching])
    return watching


def test_it_is_ppo_with_one_step_for_each_rollout(tmp_path: Path) -> None:
    params = {"hidden": [8], "learning_rate": {"kind": "linear", "start": 0.01, "stop": 0.001, "duration": 5}}
    found = train(a2c.model_fn, tmp_path / "a2c", params, runtime="tensorflow")
    as_ppo = {
        **params,
        "epochs": 1,
        "minibatch_size": None,
        "normalize_advantages": False,
        "gae_lambda": 1.0,
        "entropy_coefficient": 0.01,
        "optimizer": "rmsprop",
    }
    expected = train(ppo.model_fn, tmp_path / "ppo", as_ppo, runtime="tensorflow")
    assert len(found.metrics) == 5
    assert differences(found.weights, expected.weights) == []
    names = ("loss", "policy_loss", "value_loss", "entropy", "gradient_norm", "explained_variance", "learning_rate")
    assert found.metrics == [{name: metrics[name] for name in names} for metrics in expected.metrics]
    assert [metrics["clip_fraction"] for metrics in expected.metrics] == [0] * 5
    assert [metrics["kl"] for metrics in expected.metrics] == pytest.approx([0] * 5, abs=1e-6)


def test_it_runs_in_litert_with_the_same_numbers(tmp_path: Path) -> None:
    found = {
        runtime: train(a2c.model_fn, tmp_path / runtime, {}, runtime=runtime) for runtime in ("litert", "tensorflow")
    }
    for name in found["litert"].metrics[0]:
        litert, tensorflow = ([metrics[name] for metrics in watching.metrics] for watching in found.values())
        np.testing.assert_allclose(litert, tensorflow, rtol=1e-4, atol=1e-6, err_msg=name)


def test_its_gradient_is_the_policy_gradient() -> None:
    """One step of ascent on mean(A * log pi), which TensorFlow differentiates here, for a policy of one matrix."""
    rng = np.random.default_rng(0)
    column = np.ones((6, 1), np.float32)
    batch: dict[str, Any] = dict.fromkeys(("discount", "truncated", "log_prob", "value"), 0 * column)
    batch["observation"] = batch["next_observation"] = rng.normal(size=(6, 1, 2)).astype(np.float32)
    batch["action"] = rng.integers(0, 2, (6, 1)).astype(np.int32)
    batch["reward"] = rng.normal(size=(6, 1)).astype(np.float32)
    batch["terminated"] = column  # every row is an episode, whose advantage is its reward

    params = {"hidden": [], "optimizer": "sgd", "learning_rate": 0.1, "max_gradient_norm": None}
    params |= {"value_coefficient": 0.0, "entropy_coefficient": 0.0}
    program = Program(BoundModelFn(a2c.model_fn, params, CONFIG, None), ArraySpec((2,), np.float32), 0)
    train = program.trace_train({name: ArraySpec(value.shape, value.dtype) for name, value in batch.items()})
    assert train.noise == ()
    executor = TensorFlowExecutor(program, train)
    kernel = tf.constant(executor.get_weights()["0000.policy/head/kernel"])
    with tf.GradientTape() as tape:
        tape.watch(kernel)
        log_probs = tf.nn.log_softmax(tf.matmul(batch["observation"][:, 0], kernel))
        log_prob = tf.gather(log_probs, batch["action"], batch_dims=1)
        objective = tf.reduce_mean(batch["reward"] * log_prob)
    gradient = tape.gradient(objective, kernel).numpy()
    assert np.abs(gradient).min() > 0.01

    executor.train(
        {**batch, "log_prob": log_prob.numpy()}, {"global_step": 0, "global_timestep": 0, "progress": 0.0}, []
    )
    moved = executor.get_weights()["0000.policy/head/kernel"] - kernel.numpy()
    np.testing.assert_allclose(moved, 0.1 * gradient, rtol=1e-4)


@pytest.mark.parametrize("params", [{"epochs": 4}, {"clip": 0.2}, {"gae_lambda": 2}])
def test_wrong_parameters_are_named(params: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError) as error:
        a2c.model_fn(tf.zeros((1, 2)), None, Modes.PREDICT, params, CONFIG)
    assert error.value.argument == next(iter(params))
