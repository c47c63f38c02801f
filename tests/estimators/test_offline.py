"""learn: updates from stored episodes, without a timestep in an environment."""

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete

from axonrl import EstimatorSpec
from axonrl.environments import make, write_episodes
from axonrl.errors import ArgumentError, NonFiniteError
from axonrl.explorations import Categorical
from axonrl.hooks import CheckpointHook, EvaluationHook
from axonrl.memories import BatchMemory, ReplayMemory
from axonrl.run_dir.history import read_evaluations
from axonrl.schedules import Linear
from axonrl.tests.estimators.fakes import (
    Counting,
    ListMemory,
    Notes,
    agent,
    aiming_model,
    differences,
    linear_model,
    saved,
    snapshot,
    vector,
)
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

SPACES = Counting.observation_space, Discrete(2)
F32 = np.float32


def episode(length: int = 3, first: int = 0) -> dict[str, Any]:
    """Observes (k, 0.5), does k modulo 2, is paid k, and is terminated."""
    at = np.arange(first, first + length)
    rows = np.stack([at, np.full(length, 0.5)], axis=1).astype(F32)
    return {
        "observation": rows,
        "action": (at % 2).astype(np.int32),
        "reward": at.astype(F32),
        "terminated": at == at[-1],
        "truncated": np.zeros(length, np.bool_),
        "next_observation": (rows + np.array([1, 0], F32)).astype(F32),
    }


DATA = [episode(3), episode(4, 2), episode(5, 1)]


def test_each_update_is_one_of_q_learning_and_nothing_else_happens(tmp_path: Path) -> None:
    """The newest four transitions each time: against NumPy."""
    notes, memory = Notes(), ListMemory(4)
    one = agent(tmp_path, memory, params={"learning_rate": 0.01}, save_checkpoints_steps=2)
    one.check(SPACES, data=DATA)
    weights = next(iter(one.get_weights().values()))
    one.learn(DATA, SPACES, steps=5, hooks=[notes])
    rows = {key: array[-4:] for key, array in DATA[2].items()}
    taken = np.eye(2, dtype=F32)[rows["action"]]
    for _ in range(5):
        following = (rows["next_observation"] @ weights).max(axis=1)
        target = rows["reward"] + (1 - rows["terminated"]) * following
        td_error = target - ((rows["observation"] @ weights) * taken).sum(axis=1)
        gradient = rows["observation"].T @ (-2 / 4 * td_error[:, None] * taken)
        weights = weights - F32(0.01) * gradient
    np.testing.assert_allclose(next(iter(one.get_weights().values())), weights, rtol=1e-5)
    assert (one.global_step, one.global_timestep, one.global_episode) == (5, 0, 0)
    assert notes.events == [("begin", 0, 0, 0), *(("after_update", 0, k, 0) for k in range(1, 6)), ("end", 0, 5, 0)]
    assert (len(memory.rows), len(memory.td_errors)) == (12, 5)
    assert saved(tmp_path) == [(0, 0, 0), (0, 2, 0), (0, 4, 0), (0, 5, 0)]


def test_steps_are_added_and_max_steps_is_a_total(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = agent(tmp_path).learn(DATA, SPACES, steps=3)
    assert one.learn(steps=3).global_step == 6
    assert one.learn(max_steps=10).global_step == 10
    with caplog.at_level(logging.INFO, "axonrl"):
        assert one.learn(max_steps=10).global_step == 10
    assert caplog.messages[-1] == "nothing to learn: global_step reached 10"


def test_training_goes_on_in_the_same_run_and_may_update_at_once(tmp_path: Path) -> None:
    notes, memory = Notes(), ReplayMemory(1000, 8)
    one = agent(tmp_path, memory).learn(DATA, SPACES, steps=4)
    one.train(Counting(), first_update=1, update_frequency=2, timesteps=5, hooks=[notes])
    assert notes.update_timesteps == [1, 3, 5]
    assert (one.global_step, one.global_timestep, len(memory)) == (7, 5, 17)
    again = agent(tmp_path, ReplayMemory(1000, 8))
    assert again.train(Counting(), 1, 2, timesteps=2).global_step == 8


def test_an_episode_goes_on_where_it_was_before_updates_without_timesteps(tmp_path: Path) -> None:
    """Actions are random: as if nothing had been learned in between."""
    notes, kept = Notes(), {}
    for name in ("plain", "mixed"):
        one = agent(tmp_path / name, params={"epsilon": 1.0})
        one.train(Counting(length=10), 1000, timesteps=4)
        if name == "mixed":
            assert one.learn(steps=2).global_step == 2
        one.train(Counting(length=10), 1000, timesteps=4, hooks=[notes])
        kept[name] = {key: value for key, value in snapshot(tmp_path / name).items() if key in ("episodes", "memory")}
    assert [event for event in notes.events if event[0] == "before_episode"] == []
    assert differences(kept["plain"], kept["mixed"]) == []


def prioritized(model_dir: Path, **config: Any) -> Any:
    memory = ReplayMemory(100, 4, n_step=2, sampler="prioritized")
    return agent(model_dir, memory, params={"learning_rate": 0.01}, **config)


def test_the_same_data_are_stored_once_and_others_are_added(tmp_path: Path) -> None:
    write_episodes(tmp_path / "data.npz", DATA)
    run = tmp_path / "run"
    one = agent(run, ReplayMemory(100, 4)).learn(tmp_path / "data.npz", SPACES, steps=1)
    other = agent(run, ReplayMemory(100, 4))
    assert other.learn(DATA, steps=1).memory is not one.memory
    assert len(other.memory or ()) == 12
    other.learn([episode(6)], steps=1)
    last = agent(run, ReplayMemory(100, 4)).learn([episode(6)], steps=1)
    assert (len(last.memory or ()), last.global_step) == (18, 4)
    again = agent(run, ReplayMemory(100, 4)).learn(DATA, steps=1)
    assert len(again.memory or ()) == 18


def test_what_a_model_has_stored_beside_a_transition_may_be_given(tmp_path: Path) -> None:
    memory = ReplayMemory(100, 4)
    given = {**episode(), "action": np.array([0, 1, 0]), "log_prob": np.full(3, -0.5), "more": np.zeros(3)}
    agent(tmp_path, memory, recording_model).learn([given, given], SPACES, steps=1)
    assert memory.get_by_index(0)["log_prob"] == -0.5
    assert "more" not in memory.get_by_index(0)


def test_lanes_get_whole_episodes_in_turn(tmp_path: Path) -> None:
    memory = ReplayMemory(100, 4)
    one = agent(tmp_path, memory)
    one.learn(DATA, vector(Counting(), Counting()), steps=2)
    assert len(memory) == 12
    one.train(vector(Counting(), Counting()), 1, 2, timesteps=4)
    assert (len(memory), one.global_step) == (16, 4)


def recording_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """Stores its log-probabilities with its actions."""
    weight = tf.Variable(1.0, name="weight")
    if mode == "predict":
        logits = features[:, :2] * weight
        action = tf.argmax(logits, axis=1, output_type=tf.int32)
        exploration = Categorical(Discrete(2))
        return EstimatorSpec(mode, {"action": action, "logits": logits}, exploration=exploration, record=("log_prob",))
    return EstimatorSpec(mode, loss=weight, train_op=weight.assign_sub(0.1))


def refused() -> dict[str, tuple[Any, ...]]:
    """Name to memory, model, data, env, and the argument of the error."""
    nan = {**episode(), "reward": np.array([0, np.nan, 1], F32)}
    outside = {**episode(), "action": np.array([0, 2, 1])}
    replay = ReplayMemory(100, 4)
    return {
        "a memory that empties": (BatchMemory(12), linear_model, DATA, SPACES, "memory"),
        "less than a batch": (ReplayMemory(100, 13), linear_model, DATA, SPACES, "data"),
        "nothing after the newest": (ReplayMemory(100, 12, n_step=2), linear_model, DATA, SPACES, "data"),
        "more than the memory holds": (ReplayMemory(11, 4), linear_model, DATA, SPACES, "data"),
        "nothing recorded": (replay, recording_model, DATA, SPACES, "data"),
        "no spaces": (replay, linear_model, DATA, None, "env"),
        "three spaces": (replay, linear_model, DATA, (*SPACES, SPACES[0]), "env"),
        "one episode": (replay, linear_model, episode(), SPACES, "data"),
        "NaN": (replay, linear_model, [nan], SPACES, "data[0]"),
        "an action that there is not": (replay, linear_model, [outside], SPACES, "data"),
    }


@pytest.mark.parametrize("name", refused())
def test_what_is_refused_before_anything_is_written(name: str, tmp_path: Path) -> None:
    memory, model, data, env, argument = refused()[name]
    one = agent(tmp_path, memory, model)
    assert raised(ArgumentError, one.learn, data, env, steps=3).argument == argument
    assert not list(tmp_path.glob("**/*.json"))


def test_after_a_refusal_the_memory_is_as_new(tmp_path: Path) -> None:
    memory = ReplayMemory(100, 4)
    one = agent(tmp_path, memory)
    with pytest.raises(ArgumentError):
        one.learn([*DATA, {**episode(), "action": np.array([0, 1, 0.5])}], SPACES, steps=1)
    one.learn(DATA, SPACES, steps=1)
    assert len(memory) == 12
    with pytest.raises(ArgumentError):
        one.learn([{**episode(), "action": np.array([0, 1, 0.5])}], steps=1)
    one.learn(steps=1)
    assert (len(memory), one.global_step) == (12, 2)


def test_data_must_fit_beside_what_the_memory_holds(tmp_path: Path) -> None:
    one = agent(tmp_path, ReplayMemory(14, 4)).learn(DATA, SPACES, steps=1)
    told = "3 transitions and the memory 12, but a memory of size=14 holds 14: start a run with a larger one"
    assert raised(ArgumentError, one.learn, [episode(3, 7)], steps=1, match=told).argument == "data"
    one.learn([episode(2)], steps=1)
    assert len(one.memory or ()) == 14


def test_what_a_session_that_did_not_begin_had_stored_is_gone(tmp_path: Path) -> None:
    memory = ReplayMemory(100, 4)
    one = agent(tmp_path, memory)
    with pytest.raises(ValueError, match="pass env= to the hook"):
        one.learn(DATA, SPACES, steps=1, hooks=[EvaluationHook(every_steps=1)])
    one.learn([episode(6)], SPACES, steps=1)
    assert len(memory) == 6


def test_wrappers_that_normalise_do_not_fit_stored_episodes(tmp_path: Path) -> None:
    env = make("CartPole-v1", wrappers=["normalize_observation"])
    one = agent(tmp_path)
    learn = partial(one.learn, [long_episode()], steps=1)
    assert raised(ArgumentError, learn, env=env, match="env has normalize_observation").argument == "env"
    one.train(env, 1000, timesteps=1)
    assert raised(ArgumentError, learn, match="this run has normalize_observation").argument == "env"


def long_episode() -> dict[str, Any]:
    given = episode(5)
    rows = np.random.default_rng(0).normal(size=(6, 4)).astype(F32)
    return {**given, "observation": rows[:-1], "next_observation": rows[1:]}


def test_evaluations_every_so_many_updates_are_in_the_history_and_in_the_picture(tmp_path: Path) -> None:
    one = agent(tmp_path)
    hook = EvaluationHook(every_steps=4, episodes=2)
    one.learn([long_episode()], "CartPole-v1", steps=10, hooks=[hook])
    rows = read_evaluations(tmp_path)
    assert [(row.global_timestep, row.offline_steps, row.episodes) for row in rows] == [(0, k, 2) for k in (4, 8, 10)]
    assert hook.best == max(row.episode_return_mean for row in rows)
    assert "<!-- updates -->" in one.learning_curve().with_suffix(".svg").read_text()
    one.train("CartPole-v1", 1, 1, timesteps=2, hooks=[EvaluationHook(every_steps=1, episodes=2)])
    rows = read_evaluations(tmp_path)
    assert [(row.global_timestep, row.offline_steps) for row in rows[3:]] == [(1, 10), (2, 10)]


def test_hooks_stop_save_and_guard(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Stops:
        def after_update(self, session: Any, facts: Any) -> None:
            if session.global_step == 3:
                session.request_stop("enough")

    one = agent(tmp_path / "stop")
    one.learn(DATA, SPACES, hooks=[Stops(), CheckpointHook(secs=1e-9)])
    assert caplog.messages == ["no limit given: learning continues until Ctrl-C, or until a hook stops it"]
    assert saved(tmp_path / "stop") == [(0, 0, 0), (0, 1, 0), (0, 2, 0), (0, 3, 0)]
    diverging = agent(tmp_path / "nan", params={"learning_rate": 1e30})
    raised(NonFiniteError, diverging.learn, DATA, SPACES, steps=10, match="loss is")


def test_what_follows_the_run_needs_its_length(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        weight = tf.Variable(0.0, name="weight")
        if mode == "predict":
            action = tf.cast(features[:, 0] * 0 + weight * 0, tf.int32)
            return EstimatorSpec(mode, {"action": action})
        rate = Linear(1.0, 0.0, 1.0, over="run")(labels["progress"], ops=tf)
        return EstimatorSpec(mode, loss=weight, train_op=weight.assign_add(rate), metrics={"rate": rate})

    with pytest.raises(ArgumentError, match="length must be known"):
        agent(tmp_path / "endless", model=model).learn(DATA, SPACES)
    notes = Notes()
    agent(tmp_path / "four", model=model).learn(DATA, SPACES, steps=4, hooks=[notes])
    assert [facts.metrics["rate"] for facts in notes.facts["after_update"]] == [1.0, 0.75, 0.5, 0.25]


def test_a_box_of_actions_is_stored_as_it_is(tmp_path: Path) -> None:
    box = Box(-1, 1, (2,), F32)
    data = {**episode(), "action": np.array([[0, 0], [1, -1], [0.5, 0.25]], F32)}
    one = agent(tmp_path, ListMemory(3), aiming_model).learn([data], (SPACES[0], box), steps=1)
    expected = 3 - 0.1 * (3 - data["action"].mean(axis=0))
    np.testing.assert_allclose(next(iter(one.get_weights().values())), expected, rtol=1e-6)
