"""A run that another process trained: loaded, acted with, given other weights."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Discrete

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.environments import make
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.hooks import EvaluationHook
from axonrl.memories import BatchMemory, DemonstrationMemory, Prioritized, ReplayMemory
from axonrl.memories.description import arguments_of
from axonrl.policies import Policy
from axonrl.run_dir.history import read_episodes, read_evaluations
from axonrl.schedules import Linear
from axonrl.tests.estimators.fakes import Counting, agent, differences, linear_model
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

QUIET = RunConfig(progress=False, save_checkpoints_secs=None)


def test_a_loaded_agent_continues_the_run(tmp_path: Path) -> None:
    """Model, params and memory come from the record; the weights are those of one that was never interrupted."""
    settings: dict[str, Any] = {"size": 64, "batch_size": 4, "n_step": 2}
    sampler = {"kind": "prioritized", "beta": {"kind": "linear", "start": 0.5, "stop": 1.0, "duration": 20}}
    params = {"epsilon": 0.25, "learning_rate": 0.01}
    whole = agent(tmp_path / "whole", ReplayMemory(**settings, sampler=sampler), params=params)
    whole.train(Counting(), 8, 2, timesteps=40)
    first = agent(tmp_path / "run", ReplayMemory(**settings, sampler=sampler), params=params)
    first.train(Counting(), 8, 2, timesteps=20)
    loaded = Agent.load(tmp_path / "run", config=QUIET)
    assert loaded.params == params
    memory: Any = loaded.memory
    assert arguments_of(memory) == {
        "kind": "replay",
        "discount": 0.99,
        "frame_stack": None,
        "path": None,
        **settings,
        "sampler": {"alpha": 0.6, "epsilon": 1e-6, **sampler},
    }
    loaded.train(Counting(), 8, 2, timesteps=20)
    assert differences(loaded.get_weights(), whole.get_weights()) == []
    folder = tmp_path / "run"
    assert [row.length for row in read_episodes(folder)] == [3] * 13
    assert loaded.learning_curve() == folder / "learning_curve.png"
    assert (folder / "learning_curve.svg").is_file()


def test_relative_paths_are_below_the_folder_where_the_run_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of demonstrations and of a warm start, for who continues it from another folder."""
    for name in ("there", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "there")
    source = agent(Path("source"), ReplayMemory(64, 4)).train(Counting(), 8, 2, timesteps=12)
    source.record("demonstrations.npz", Counting(), 2)
    expert: dict[str, Any] = {"demonstrations": "demonstrations.npz", "sampler": "uniform"}

    def started(folder: Path) -> Agent:
        return Agent(linear_model, DemonstrationMemory(64, 4, **expert), folder, QUIET, warm_start="source")

    started(Path("run")).train(Counting(), 8, 2, timesteps=12)
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = tmp_path / "there" / "run"
    assert Agent.load(run, config=QUIET).train(Counting(), timesteps=4).global_timestep == 16
    assert started(run).train(Counting(), timesteps=4).global_timestep == 20
    assert [*Path.cwd().iterdir()] == []


def test_where_there_is_no_run(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        caught = raised(ArgumentError, Agent.load, place)
        assert (caught.argument, caught.value) == ("model_dir", place)
    fresh = agent(tmp_path / "fresh")
    calls = (fresh.learning_curve, lambda: fresh.act(np.zeros(2)), lambda: fresh.predict(np.zeros((1, 2))))
    for call in (*calls, lambda: fresh.set_weights({})):
        raised(ValueError, call, match=r"run, but .* holds none")


class Unnamed(ReplayMemory):
    """Has an argument that it keeps under another name."""

    def __init__(self, places: int) -> None:
        super().__init__(places, 4)


def test_a_memory_that_cannot_be_described(tmp_path: Path) -> None:
    assert arguments_of(Unnamed(64)) is None
    assert arguments_of(BatchMemory(64)) == {"kind": "batch", "size": 64, "batch_size": 64, "discount": 0.99}
    assert arguments_of(ReplayMemory(64, 4, sampler=Prioritized(beta=lambda t, ops=None: 1.0))) is None
    described: Any = arguments_of(ReplayMemory(64, 4, sampler=Prioritized(beta=Linear(0.4, 1.0, 100))))
    assert described["sampler"]["beta"] == {"kind": "linear", "start": 0.4, "stop": 1.0, "duration": 100}
    agent(tmp_path, Unnamed(64)).train(Counting(), timesteps=4)
    loaded = Agent.load(tmp_path, config=QUIET)
    assert loaded.evaluate(Counting(), 1)["episodes"] == 1
    assert raised(ArgumentError, loaded.train, Counting(), timesteps=4).argument == "memory"
    assert Agent.load(tmp_path, memory=Unnamed(64), config=QUIET).train(Counting(), timesteps=4).global_timestep == 8


def test_acting_takes_what_the_environment_returns(tmp_path: Path) -> None:
    """Normalised as in the training; as the exported policy acts; one observation or a batch."""
    env = make("CartPole-v1", wrappers=["normalize_observation"])
    trained = agent(tmp_path / "run").train(env, 8, timesteps=60, hooks=EvaluationHook(30, 2))
    policy = Policy.load(trained.export(tmp_path / "exported"))
    observations = gymnasium.vector.utils.batch_space(env.unwrapped.observation_space, 50).sample()
    observations = np.clip(observations, -3, 3)
    loaded = Agent.load(tmp_path / "run", config=QUIET)
    expected = policy.act(observations)
    assert 0 < expected.sum() < 50
    assert np.array_equal(loaded.act(observations), expected)
    assert np.array_equal(trained.act(observations), expected)
    one = loaded.act(observations[0])
    assert (type(one), one) == (np.int64, expected[0])
    assert loaded.act(observations[0], policy="best") in (0, 1)
    assert len(read_evaluations(tmp_path / "run")) == 2
    with pytest.raises(ValueError, match=r"observation must have the shape \[4\] or \[B, 4\], got \[3\]"):
        loaded.act(observations[0, :3])


def test_exploring_leaves_the_training_alone(tmp_path: Path) -> None:
    observation = np.ones(2, np.float32)
    for folder, acts in (("quiet", 0), ("acting", 30)):
        one, env = agent(tmp_path / folder), Counting()
        one.train(env, 8, timesteps=12)
        actions = {int(one.act(observation, explore=True)) for _ in range(acts)}
        greedy = {int(one.act(observation)) for _ in range(acts)}
        one.train(env, 8, timesteps=12)
        assert (len(actions), len(greedy)) == ((2, 1) if acts else (0, 0))  # half of the actions are random
    assert (
        differences(Agent.load(tmp_path / "quiet").get_weights(), Agent.load(tmp_path / "acting").get_weights()) == []
    )


def counting_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """Its state counts the timesteps of the episode, and is its action."""
    weights = tf.Variable(tf.zeros((2,)), name="weights")
    if mode == "train":
        return EstimatorSpec(mode, loss=tf.reduce_sum(weights), train_op=weights.assign_add([1.0, 1.0]))
    if not isinstance(features, dict):
        state = {"count": tf.zeros((tf.shape(features)[0], 1), tf.int32)}
        return EstimatorSpec(mode, {"action": tf.zeros(tf.shape(features)[:1], tf.int32)}, state=state)
    count = features["state"]["count"] + 1 + tf.cast(0 * weights[0], tf.int32)
    return EstimatorSpec(mode, {"action": count[:, 0]}, state={"count": count})


def test_a_recurrent_model_continues_until_an_episode_begins(tmp_path: Path) -> None:
    one = agent(tmp_path, model=counting_model)
    one.train(Counting(action_space=Discrete(100)), 8, timesteps=8)
    observations = np.zeros((3, 2), np.float32)
    assert [one.act(observations[0]) for _ in range(3)] == [1, 2, 3]
    assert one.act(observations[0], first=True) == 1
    raised(ValueError, one.act, observations, match="had 1 observation before and now has 3: pass first=True")
    assert one.act(observations, first=True).tolist() == [1, 1, 1]
    assert one.act(observations, first=np.array([False, True, False])).tolist() == [2, 1, 2]
    assert one.act(observations).tolist() == [3, 2, 3]
    raised(ValueError, one.act, observations, first=[True], match=r"first must be a bool or bool \[3\]")


def test_other_weights(tmp_path: Path) -> None:
    trained = agent(tmp_path).train(Counting(), 8, 2, timesteps=20)
    before = trained.get_weights()
    given = {name: value + 1 for name, value in before.items()}
    trained.set_weights(given)
    assert differences(trained.get_weights(), given) == []
    assert differences(Agent.load(tmp_path, config=QUIET).get_weights(), given) == []
    elsewhere = Agent.load(tmp_path, config=QUIET)
    elsewhere.set_weights(before)
    assert differences(trained.get_weights(), before) == []
    trained.train(Counting(), 8, 2, timesteps=2)
    assert trained.global_timestep == 22
    (name,) = before
    assert 0 < np.abs(trained.get_weights()[name] - before[name]).max() < 0.5
    raised(ValueError, trained.set_weights, [1], match="must be a mapping of names to arrays, as .* got")
    for wrong in ({}, {name: before[name][:1]}, {**before, "other": before[name]}, {name: before[name].astype("f8")}):
        raised(ValueError, trained.set_weights, wrong, match=r"weights|is float32")
    raised(NonFiniteError, trained.set_weights, {name: before[name] * np.nan})


def test_weights_for_another_model_than_the_run_has(tmp_path: Path) -> None:
    def other(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weights = tf.Variable(tf.zeros((2, 2)), name="others")
        return EstimatorSpec(mode, {"action": tf.argmax(tf.matmul(features, weights), 1, tf.int32)})

    agent(tmp_path).train(Counting(), timesteps=4)
    with pytest.raises(ValueError, match=r"does not fit .*: it lacks 0000\.others\. Are model_fn and params"):
        Agent(other, None, tmp_path).set_weights({"0000.others": np.zeros((2, 2), np.float32)})
