"""The Agent in every kind of environment: what it stores, what it counts, what reaches the model."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode

from axonrl import Agent, EstimatorSpec, RunConfig
from axonrl.core import registry
from axonrl.environments import make
from axonrl.errors import ArgumentError
from axonrl.explorations import EpsilonGreedy
from axonrl.hooks.events import EpisodeStats
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.models.blocks.params import params_of
from axonrl.models.dqn import DQNParams
from axonrl.tests.estimators.fakes import (
    At,
    Counting,
    ListMemory,
    Notes,
    agent,
    aiming_model,
    differences,
    linear_model,
    record,
    saved,
    snapshot,
    vector,
)
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")


def test_one_environment_however_it_is_given(tmp_path: Path) -> None:
    made = gymnasium.make("CartPole-v1")
    for folder, env in (("id", "CartPole-v1"), ("Env", made), ("vector", make("CartPole-v1", 1))):
        one = agent(tmp_path / folder).train(env, 8, timesteps=50)
        assert one.global_timestep == 50
    made.reset()  # what was passed in is still open
    first = snapshot(tmp_path / "id")
    assert differences(first, snapshot(tmp_path / "Env")) == []
    assert differences(first["weights"], snapshot(tmp_path / "vector")["weights"]) == []


@pytest.mark.parametrize(
    ("mode", "timesteps"),
    [
        # The steps that reset environment 0 after its 2 timesteps and environment 1 after its 3 count for one only.
        (AutoresetMode.NEXT_STEP, [2, 4, 5, 6, 8, 9]),
        (AutoresetMode.SAME_STEP, [2, 4, 6, 8, 10, 12]),
    ],
)
def test_a_reset_step_is_no_transition(mode: AutoresetMode, timesteps: list[int], tmp_path: Path) -> None:
    notes, memory = Notes(), ListMemory(2)
    env = vector(Counting(2), Counting(3), mode=mode)
    one = agent(tmp_path, memory).train(env, 4, 1, timesteps=timesteps[-1], hooks=[notes])
    assert [event[1] for event in notes.events if event[0] == "after_timestep"] == timesteps
    assert one.global_step == timesteps[-1] - 3
    assert len(memory.rows) == timesteps[-1]
    for row in memory.rows:  # each leads from one timestep of an episode to the next, and pays that
        assert row["next_observation"][0] == row["observation"][0] + 1 == row["reward"]
        assert row["next_observation"][1] == row["observation"][1]
    assert {(s.environment, s.length, s.episode_return) for s in notes.facts["after_episode"]} == {
        (0, 2, 3.0),
        (1, 3, 6.0),
    }
    said = f"Counting: it resets itself (autoreset_mode {mode.name}); autoreset_mode DISABLED would be exact"
    assert record(tmp_path)["not_exact"] == [said]


def test_other_spaces_are_refused_before_the_first_step(tmp_path: Path) -> None:
    env = Counting(action_space=Box(0, 5, (1,), np.int32))
    one = agent(tmp_path)
    for call in (lambda: one.train(env, timesteps=2), lambda: one.evaluate(env)):
        raised(ValueError, call, match=r"space .* is not supported; supported are")
    assert env.seeds == []
    assert list(tmp_path.iterdir()) == []
    one.train(Counting(), timesteps=2)  # nothing was settled by that


def test_a_model_that_predicts_one_array_where_the_space_has_several(tmp_path: Path) -> None:
    env = Counting(action_space=spaces.Dict({"left": Discrete(2), "right": Discrete(3)}))
    with pytest.raises(ValueError, match=r"needs the predictions action/left, action/right; got action$"):
        agent(tmp_path).train(env, timesteps=2)


def test_a_run_keeps_its_spaces_and_its_number_of_environments(tmp_path: Path) -> None:
    one = agent(tmp_path).train(Counting(), timesteps=4)
    for same in (one, agent(tmp_path)):
        raised(ValueError, same.train, "CartPole-v1", timesteps=2, match="this run's observation space is")
        with pytest.raises(ValueError, match="this run's action space is"):
            same.train(Counting(action_space=Discrete(3)), timesteps=2)
        with pytest.raises(ValueError, match="was started with 1 environments, got 2"):
            same.train(vector(Counting(), Counting()), timesteps=2)
        assert same.train(Counting(), timesteps=4).global_timestep > 4


@pytest.mark.parametrize("num_envs", [1, 2])
def test_the_memory_is_given_transitions_as_they_came(num_envs: int, tmp_path: Path) -> None:
    memory = ListMemory(2)
    envs = [Counting(2, truncates=True) for _ in range(num_envs)]
    agent(tmp_path, memory).train(vector(*envs) if num_envs > 1 else envs[0], timesteps=2 * num_envs)
    assert set(memory.specs) == {"observation", "action", "reward", "terminated", "truncated", "next_observation"}
    assert memory.calls == ["build", *["step" if num_envs == 1 else "extend"] * 2]
    first, last = memory.rows[0], memory.rows[-1]
    assert (first["observation"][0], first["next_observation"][0], first["reward"]) == (0, 1, 1)
    assert (first["terminated"], first["truncated"]) == (False, False)
    assert (last["observation"][0], last["next_observation"][0], last["reward"]) == (1, 2, 2)
    assert (last["terminated"], last["truncated"]) == (False, True)
    assert [row["action"] for row in memory.rows[::num_envs]] == envs[0].actions


def test_box_actions_are_stored_as_chosen_and_clipped_on_their_way_out(tmp_path: Path) -> None:
    memory, notes = ListMemory(2), Notes()
    env = Counting(action_space=Box(-1, 1, (2,), np.float32))
    one = agent(tmp_path, memory, aiming_model).train(env, 4, timesteps=20, hooks=[notes])
    stored = np.array([row["action"] for row in memory.rows])
    assert stored.dtype == np.float32
    assert stored.min() > 1.0
    assert len(np.unique(stored)) == 40
    np.testing.assert_array_equal([facts.action[0] for facts in notes.facts["after_timestep"]], stored)
    np.testing.assert_array_equal(env.actions, np.ones((20, 2)))
    assert one.global_step == 2
    assert one.predict(np.zeros((1, 2)))["action"].shape == (1, 2)


def test_what_is_handed_to_the_model(tmp_path: Path) -> None:
    def model(features: Any, labels: Any, mode: str, config: RunConfig, model_dir: Path) -> EstimatorSpec:
        assert (config.action_space, config.seed, model_dir) == (Discrete(2), 0, tmp_path)
        spec = linear_model(features, labels, mode)
        if labels is None:
            return spec
        metrics = {name: tf.cast(labels[name], tf.float32) for name in ("global_step", "global_timestep")}
        return EstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op, metrics=metrics)

    notes = Notes()
    agent(tmp_path, model=model).train(Counting(), 8, 3, timesteps=14, hooks=[notes])
    seen = [(facts.metrics["global_step"], facts.metrics["global_timestep"]) for facts in notes.facts["after_update"]]
    assert seen == [(0, 8), (1, 11), (2, 14)]  # updates run before this one, timesteps taken


class Telling(EpsilonGreedy):
    """Also tells with which probability it acted: 0.5 plus a thousandth of the timestep."""

    def __call__(self, predictions: Any, timestep: int, rng: Any) -> Any:
        action, _ = super().__call__(predictions, timestep, rng)
        chance = np.full(len(action), 0.5 + timestep / 1000, np.float32)
        return action, {"probability": chance, "text": chance.astype(str)}


def recording(*names: str) -> Callable[..., EstimatorSpec]:
    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        spec = linear_model(features, labels, mode)
        if labels is None:
            return EstimatorSpec(mode, spec.predictions, exploration=Telling(0.5, Discrete(2)), record=names)
        metrics = {name: tf.reduce_sum(labels[name]) for name in names}
        return EstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op, metrics=metrics)

    return model


def test_predictions_and_extras_are_recorded(tmp_path: Path) -> None:
    memory, notes = ListMemory(2), Notes()
    env = vector(Counting(), Counting())
    one = agent(tmp_path, memory, recording("values", "probability"))
    values = []
    act = At("after_timestep", 1, lambda session: values.append(session.weights()["0000.weights"]))
    one.train(env, first_update=2, timesteps=4, hooks=[act, notes])
    first = memory.rows[0]
    np.testing.assert_allclose(first["values"], first["observation"] @ values[0], rtol=1e-5)
    times = [0, 0, 2, 2]
    np.testing.assert_allclose([row["probability"] for row in memory.rows], 0.5 + np.array(times) / 1000, rtol=1e-6)
    summed = notes.facts["after_update"][0].metrics  # of the batch: the newest two
    batch = memory.rows[:2]
    assert summed["probability"] == pytest.approx(float(sum(row["probability"] for row in batch)))
    assert summed["values"] == pytest.approx(float(sum(row["values"].sum() for row in batch)), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("entropy", r"'entropy', which is neither .* \(action, values\) nor .*exploration \(probability, text\)"),
        ("discount", "names 'discount', which is already a key of labels"),
        ("text", "names 'text' of dtype <U32, which a checkpoint cannot hold; return one of bool, int8"),
    ],
)
def test_what_cannot_be_recorded(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        agent(tmp_path, model=recording(name)).train(Counting(), timesteps=2)


def recurrent_model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """Its state counts the timesteps of the episode."""
    if not isinstance(features, dict):
        state = {"count": tf.zeros((tf.shape(features)[0], 1))}
        return EstimatorSpec(mode, {"action": tf.zeros(tf.shape(features)[:1], tf.int32)}, state=state)
    spec = linear_model(features["observation"], labels, mode)
    if labels is None:
        state = {"count": features["state"]["count"] + 1}
        return EstimatorSpec(mode, spec.predictions, state=state, exploration=spec.exploration)
    off = tf.reduce_max(tf.abs(features["state"]["count"] - features["observation"][:, :1]))
    return EstimatorSpec(mode, loss=spec.loss, train_op=spec.train_op, metrics={"off": off})


@pytest.mark.parametrize("mode", [None, AutoresetMode.NEXT_STEP])
def test_recurrent_state_follows_the_episodes(mode: AutoresetMode | None, tmp_path: Path) -> None:
    """It is stored as it was before the action, and is zero at the first observation of each episode."""
    memory, notes = ListMemory(2), Notes()
    env = Counting(3) if mode is None else vector(Counting(2), Counting(3), mode=mode)
    agent(tmp_path, memory, recurrent_model).train(env, 4, 2, timesteps=24, hooks=[notes])
    assert len(memory.rows) >= 24
    for row in memory.rows:
        assert row["state"]["count"] == row["observation"][:1]
    assert {facts.metrics["off"] for facts in notes.facts["after_update"]} == {0.0}


@pytest.mark.parametrize(("timesteps", "told"), [(150, "the first 100 updates"), (10, "the first 3 updates")])
def test_a_policy_that_no_update_changes_is_said_once(
    timesteps: int, told: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def target_first(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if labels is not None:
            tf.Variable(tf.zeros((2, 2)), name="weights")  # takes the place of the online network
        return linear_model(features, labels, mode)

    agent(tmp_path, model=target_first).train(Counting(), 8, 1, timesteps=timesteps)
    (message,) = (message for message in caplog.messages if "PREDICT" in message)
    assert message.startswith(
        f"{told} changed none of PREDICT's variables, so the policy does not learn. Was the target"
    )


def test_an_update_that_rightly_changes_nothing_is_not_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The learning rate begins at zero; or the model has no variables in PREDICT."""
    schedule = {"kind": "linear", "start": 0.0, "stop": 1e-3, "duration": 10}
    params = {"learning_rate": schedule, "hidden": [4]}
    agent(tmp_path / "warm", model=dqn.model_fn, params=params).train(Counting(), 8, 1, timesteps=20)

    def without_variables(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        if mode == "predict":
            return EstimatorSpec(mode, {"action": tf.cast(features[:, 0] > 0, tf.int32)})
        return EstimatorSpec(mode, loss=(own := tf.Variable(1.0, name="own")) * 1.0, train_op=own.assign_add(1.0))

    agent(tmp_path / "none", model=without_variables).train(Counting(), 8, 1, timesteps=20)
    assert caplog.messages == []


def test_without_a_model_dir_a_temporary_one_is_said(caplog: pytest.LogCaptureFixture) -> None:
    one = Agent(linear_model, ReplayMemory(100, 4), config=RunConfig(seed=0))
    assert caplog.messages == [f"no model_dir given: saving this run in {one.model_dir}"]
    one.train(Counting(), timesteps=4)
    assert saved(one.model_dir) == [(0, 0, 0), (4, 0, 1)]
    other = Agent(linear_model)
    assert other.model_dir != one.model_dir


def test_training_needs_a_memory_and_nothing_else_does(tmp_path: Path) -> None:
    agent(tmp_path).train(Counting(), timesteps=4)
    one = Agent(None, model_dir=tmp_path)
    one.evaluate(Counting(), 1)
    raised(ValueError, one.train, Counting(), timesteps=4, match="training needs a memory")
    with pytest.raises(ValueError, match="training needs a memory"), one.session(Counting()):
        pass


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"memory": 1000}, r"memory must be an axonrl Memory .*, got 1000"),
        ({"config": {"seed": 1}}, r"config must be an axonrl\.RunConfig, got {'seed': 1}"),
        ({"params": [1]}, r"params must be a mapping of names to values, got \[1\]"),
        ({"model_fn": None}, r"no model_fn given, and .* holds no run that names one"),
        ({"model_dir": 3}, r"model_dir must be a path, or None for a temporary folder, got 3"),
        ({"model_dir": "a\0b"}, r"model_dir must be a path, or None for a temporary folder, got 'a\\x00b'"),
        ({"model_fn": "dqm"}, r"unknown model_fn 'dqm'; did you mean 'dqn'\?"),
        ({"model_fn": aiming_model, "params": {"a": 1}}, r"takes no argument 'params', but params were given: a"),
        ({"params": {("a", 1): 2}}, r"the keys of params must be strings, got \('a', 1\)"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], message: str, tmp_path: Path) -> None:
    raised(ValueError, Agent, **{"model_fn": linear_model, "model_dir": tmp_path, **arguments}, match=message)


def test_one_memory_is_for_one_agent(tmp_path: Path) -> None:
    memory = ReplayMemory(100, 4)
    agent(tmp_path / "a", memory).train(Counting(), timesteps=4)
    with pytest.raises(
        ValueError,
        match=r"cannot be copied \(it is already built\) .* every Agent needs its own new memory, which copy",
    ):
        agent(tmp_path / "b", memory).train(Counting(), timesteps=4)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_an_agent_cannot_be_pickled(duplicate: Callable[[Any], Any], tmp_path: Path) -> None:
    raised(TypeError, duplicate, agent(tmp_path), match=r"Agent cannot be pickled .* Agent\.load\(\.\.\., into=")


def test_a_drawn_seed_is_stored_and_a_contradiction_refused(tmp_path: Path) -> None:
    first = agent(tmp_path, seed=None).train(Counting(), timesteps=4)
    assert agent(tmp_path, seed=None).config.seed == first.config.seed
    wrong = (first.config.seed or 0) + 1
    with pytest.raises(ArgumentError, match=rf"was started with seed {first.config.seed}; got seed {wrong}") as error:
        agent(tmp_path, seed=wrong)
    assert (error.value.argument, error.value.value) == ("RunConfig.seed", wrong)


def test_an_agent_made_before_another_began_the_run_joins_it(tmp_path: Path) -> None:
    late, contrary = agent(tmp_path, seed=None), agent(tmp_path, seed=5)
    first = agent(tmp_path, seed=6).train(Counting(), 8, timesteps=20)
    late.train(Counting(), 8, timesteps=20)
    assert late.config.seed == 6
    assert (late.global_timestep, first.global_timestep) == (40, 40)
    first.train(Counting(), 8, timesteps=20)
    agent(tmp_path / "alone", seed=6).train(Counting(), 8, timesteps=60)
    assert differences(snapshot(tmp_path), snapshot(tmp_path / "alone")) == []
    raised(ValueError, contrary.train, Counting(), 8, timesteps=20, match="was started with seed 6; got seed 5")


def test_a_hook_may_be_alone_or_a_function(tmp_path: Path) -> None:
    notes, returns = Notes(), list[float]()

    def append(found: list[float], session: Any, episode: EpisodeStats) -> None:
        found.append(episode.episode_return)

    class Append:
        def __call__(self, session: Any, episode: EpisodeStats) -> None:
            append(returns, session, episode)

    agent(tmp_path).train(Counting(3), 4, 4, timesteps=6, hooks=notes)
    hooks = [lambda session, episode: append(returns, session, episode), partial(append, returns), Append()]
    agent(tmp_path).train(Counting(3), 4, 4, timesteps=6, hooks=hooks)
    agent(tmp_path).train(Counting(3), 4, 4, timesteps=3, hooks=Append())
    assert len(notes.facts["after_timestep"]) == 6
    assert returns == [6.0] * 7


async def _coroutine(session: Any, episode: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda session: None, r"\(session, episode\), but takes \(session\)"),
        (lambda session, episode, more: None, r"\(session, episode\), but takes \(session, episode, more\)"),
        (_coroutine, "would never run"),
    ],
)
def test_a_function_with_other_arguments_is_refused_before_training(function: Any, told: str, tmp_path: Path) -> None:
    for hooks in (function, [function]):
        error = raised(ArgumentError, agent(tmp_path).train, Counting(), timesteps=6, hooks=hooks, match=told)
        assert (error.argument, error.value) == ("hooks", function)
    assert not (tmp_path / "run.json").exists()


def test_params_may_be_a_dataclass(tmp_path: Path) -> None:
    params = DQNParams(hidden=(4,), epsilon=0.5)
    one = Agent(dqn.model_fn, ReplayMemory(100, 4), tmp_path, RunConfig(seed=1), params)
    assert one.params == {"hidden": (4,), "epsilon": 0.5, "target_update_period": 100}


def test_params_that_are_equal_with_their_defaults_continue_a_run(tmp_path: Path) -> None:
    def made(params: Any) -> Agent:
        return Agent(dqn.model_fn, ReplayMemory(100, 4), tmp_path, RunConfig(seed=1, progress=False), params)

    explicit = {"hidden": (4,), "double": DQNParams().double, "target_update_period": 100}
    for number, same in enumerate(({"hidden": [4]}, DQNParams(hidden=(4,)), {"hidden": [4.0]}, explicit, None), 1):
        assert made(same).train("CartPole-v1", 10, timesteps=1).global_timestep == number
    for other, told in (({**explicit, "target_update_period": 99}, "target_update_period"), ({}, "hidden")):
        error = raised(ArgumentError, made, other, match=f"was started with other params: .*{told} ")
        assert (error.argument, error.value) == ("params", other)


@pytest.mark.parametrize("algorithm", registry.BUILT_IN["model_fn"])
def test_params_of_another_algorithm_are_refused(algorithm: str, tmp_path: Path) -> None:
    """Their defaults would not count: those of this algorithm would take their place."""
    own, other = params_of(algorithm)(), params_of("dqn" if algorithm == "ppo" else "ppo")()
    Agent(algorithm, None, tmp_path, None, own)
    told = f"params must be a mapping or a {type(own).__name__}, got a {type(other).__name__}"
    error = raised(ArgumentError, Agent, algorithm, None, tmp_path, None, other, match=told)
    assert (error.argument, error.value) == ("params", other)


def test_what_an_agent_says_of_itself(tmp_path: Path) -> None:
    one = agent(tmp_path)
    assert repr(one) == f"Agent(axonrl.tests.estimators.fakes.linear_model, model_dir={str(tmp_path)!r}, seed=0)"
    for call in (one.summary, one.get_weights):
        raised(ValueError, call, match=r"holds no(ne| run)$")
    one.train(Counting(3), 4, 4, timesteps=6)
    assert one.summary().splitlines() == [
        "variable      shape   values  acts",
        "----------------------------------",
        "0000.weights  [2, 2]       4  yes",
        "4 values, 4 of them used to act",
    ]
    weights = one.get_weights()
    assert weights["0000.weights"].tobytes() == snapshot(tmp_path)["weights"]["0000.weights"].tobytes()
    weights["0000.weights"][:] = 7
    assert (one.get_weights()["0000.weights"] != 7).all()
