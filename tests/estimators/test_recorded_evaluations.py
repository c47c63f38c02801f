"""Evaluations of a training, repeated afterwards: a checkpoint has the policy of each, and gives its very numbers."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axonrl import Agent, RunConfig
from axonrl.environments import make
from axonrl.errors import ArgumentError
from axonrl.hooks import EvaluationHook
from axonrl.memories import BatchMemory, ReplayMemory, SequenceMemory
from axonrl.models import dqn, ppo, r2d2
from axonrl.policies import Policy
from axonrl.run_dir.checkpoints import CheckpointStore
from axonrl.run_dir.history import Evaluation, evaluations_of_policies
from axonrl.run_dir.snapshot import Counters
from axonrl.tests.estimators.fakes import At, Counting, Notes, agent, differences, saved, snapshot
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")

QUIET: dict[str, Any] = {"seed": 3, "save_checkpoints_secs": None, "progress": False, "keep_checkpoint_max": 20}
BOTH = ["normalize_observation", "normalize_reward"]
SHORT = {"kind": "time_limit", "max_episode_steps": 20}


def linear(folder: Path, **config: Any) -> Agent:
    return agent(folder, **{**QUIET, **config})


def recurrent(folder: Path) -> Agent:
    memory = SequenceMemory(400, 4, length=4, burn_in=2, overlap=2)
    config = RunConfig(**QUIET, runtime="tensorflow")
    return Agent(r2d2.model_fn, memory, folder, config, {"hidden": (4,), "lstm": 4, "learning_rate": 0.01})


def rollouts(folder: Path) -> Agent:
    params = {"hidden": [4], "epochs": 1, "minibatch_size": 20, "learning_rate": 0.05, "optimizer": "sgd"}
    return Agent(ppo.model_fn, BatchMemory(40), folder, RunConfig(**QUIET), params)


def evaluated_at(folder: Path) -> dict[int, Evaluation]:
    """The evaluations of a run by the numbers of the checkpoints that have their policies."""
    store = CheckpointStore(folder)
    found = {(row.global_timestep, row.global_step): row for row in evaluations_of_policies(folder)}
    counters = {number: Counters(**store.read(number)["counters"]) for number in store.indices()}
    at = {number: (one.global_timestep, one.global_step) for number, one in counters.items()}
    return {number: found[key] for number, key in at.items() if key in found}


CASES: dict[str, tuple[Callable[[Path], Agent], Callable[[], Any], Any]] = {
    "one environment": (linear, lambda: make("CartPole-v1"), "CartPole-v1"),
    "TensorFlow": (lambda folder: linear(folder, runtime="tensorflow"), lambda: make("CartPole-v1", 2), None),
    "native": (linear, lambda: make("CartPole-v1", 8, vectorization="native", wrappers=BOTH), None),
    "recurrent": (recurrent, lambda: make("CartPole-v1", 2, wrappers=["normalize_observation"]), None),
    "rollouts, truncated": (rollouts, lambda: make("Pendulum-v1", 4, wrappers=[*BOTH, SHORT]), None),
}


@pytest.mark.parametrize("order", [1, -1])
def test_of_the_evaluations_of_several_hooks_that_of_the_kept_policy_is_repeated(order: int, tmp_path: Path) -> None:
    hooks = [EvaluationHook(80, 3), EvaluationHook(80, 4, explore=True, name="exploring")][::order]
    one = linear(tmp_path).train(make("CartPole-v1"), 24, 4, max_timesteps=80, hooks=hooks)
    (number,) = evaluated_at(tmp_path)
    expected: dict[str | int, int] = {"best": 3, "exploring": 4, number: 3}
    for policy, episodes in expected.items():
        row = one.recorded_evaluation(policy)
        assert row is not None
        assert (row.episodes, row.explore) == (episodes, episodes - 3), policy
        assert one.evaluate("CartPole-v1", "repeat", policy=policy) == row.results


@pytest.mark.usefixtures("traced_anew")
@pytest.mark.parametrize("name", CASES)
def test_a_new_agent_gives_the_recorded_numbers_of_each_checkpoint(name: str, tmp_path: Path) -> None:
    """Bit for bit, although updates are due at the timesteps of the evaluations, and of the best policy, too."""
    new, train_in, evaluate_in = CASES[name]
    new(tmp_path).train(train_in(), 24, 4, max_timesteps=216, hooks=EvaluationHook(80, episodes=9))
    recorded, env = evaluated_at(tmp_path), evaluate_in or train_in()
    assert sorted({row.global_timestep for row in recorded.values()}) == [80, 160, 216]
    assert all((row.episodes, row.num_envs, row.seed, row.environment) == (9, 8, 3, None) for row in recorded.values())
    assert len({row.episode_return_mean for row in recorded.values()}) > 1
    one = Agent.load(tmp_path)
    for number, row in recorded.items():
        assert one.evaluate(env, policy=number) == row.results
        assert one.recorded_evaluation(number) == row
    best = one.evaluate(env, "repeat", policy="best")
    assert best["episode_return_mean"] == max(row.episode_return_mean for row in recorded.values())
    assert one.evaluate(env, 9, policy="best") != best  # selected by some episodes, tested on others


def test_a_compiled_program_s_evaluations_are_those_of_the_function(tmp_path: Path) -> None:
    env = make("CartPole-v1", 2, wrappers=BOTH)
    memory, params = ReplayMemory(1000, 4), {"hidden": [4], "learning_rate": 0.1, "optimizer": "sgd"}
    program = Agent(dqn.model_fn, memory, tmp_path / "none", RunConfig(**QUIET), params).compile(tmp_path / "it", env)
    one = Agent(None, ReplayMemory(1000, 4), tmp_path / "run", RunConfig(**QUIET), compiled=program)
    one.train(env, 24, 2, timesteps=120, hooks=EvaluationHook(50, 9))
    theirs, ours = Agent.load(tmp_path / "run"), Agent(None, model_dir=tmp_path / "run", compiled=program)
    recorded = evaluated_at(tmp_path / "run")
    assert len({row.episode_return_mean for row in recorded.values()}) > 1
    for number, row in recorded.items():
        assert theirs.evaluate(env, policy=number) == ours.evaluate(env, policy=number) == row.results
    raised(ArgumentError, ours.evaluate, "CartPole-v1", match="normalize_observation")
    about = [Policy.load(made.export(tmp_path / "exported", policy=2)).description for made in (ours, theirs)]
    assert about[0]["normalization"] == about[1]["normalization"] is not None


def test_the_training_is_the_same_with_and_without_these_checkpoints(tmp_path: Path) -> None:
    """Updates of the timestep come after the checkpoint; no other is changed by that."""
    events = []
    for kept in (True, False):
        notes, folder = Notes(), tmp_path / str(kept)
        one = linear(folder, save_checkpoints_at_evaluations=kept)
        one.train(make("CartPole-v1", 2, wrappers=BOTH), 24, 3, timesteps=120, hooks=[EvaluationHook(30, 2), notes])
        events.append([event for event in notes.events if event[0] != "after_episode"])
    assert events[0] == events[1]
    assert differences(snapshot(tmp_path / "True"), snapshot(tmp_path / "False")) == []
    assert saved(tmp_path / "False") == [(0, 0, 0), saved(tmp_path / "True")[-1]]
    assert [(timestep, step) for timestep, step, _ in saved(tmp_path / "True")] == [
        *[(0, 0), (30, 2), (60, 12), (90, 22)],
        *[(120, 32), (120, 33)],  # the last one has the update of timestep 120
    ]


@pytest.mark.parametrize("timestep", [60, 90])
def test_a_run_that_is_killed_after_the_checkpoint_makes_up_for_the_updates(tmp_path: Path, timestep: int) -> None:
    """Also where its limit was reached by then."""
    env = make("CartPole-v1")
    linear(tmp_path / "whole").train(env, 24, 3, max_timesteps=90, hooks=EvaluationHook(30, 1))
    shutil.copytree(tmp_path / "whole", tmp_path / "killed", ignore=shutil.ignore_patterns("lock*"))
    for folder in (tmp_path / "killed" / "checkpoints").iterdir():
        if int(folder.name[-8:]) > 1 + timestep // 30:
            shutil.rmtree(folder)
    assert snapshot(tmp_path / "killed")["pending_updates"] == 1
    linear(tmp_path / "killed").train(env, 24, 3, max_timesteps=90, hooks=EvaluationHook(30, 1))
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "killed")) == []
    recorded = evaluated_at(tmp_path / "whole"), evaluated_at(tmp_path / "killed")
    assert list(recorded[0].values()) == list(recorded[1].values())


def test_an_evaluation_amid_the_updates_of_a_timestep_has_its_checkpoint(tmp_path: Path) -> None:
    """Two updates are due at timestep 40 with two environments; the hook evaluates after the first."""
    hook = At("after_update", 40, lambda session: session.evaluate(episodes=3))
    one = linear(tmp_path, save_checkpoints_steps=100)
    one.train(make("CartPole-v1", 2), 38, 1, timesteps=60, hooks=[hook])
    assert [(timestep, step) for timestep, step, _ in saved(tmp_path)] == [(0, 0), (40, 2), (60, 23)]
    assert one.evaluate("CartPole-v1", policy=2) == evaluated_at(tmp_path)[2].results


def test_evaluations_between_updates_without_timesteps(tmp_path: Path) -> None:
    """Updates that a limit on steps has left over in training are no part of learning."""
    env = make("CartPole-v1", 4)
    one = linear(tmp_path).train(env, 24, 1, steps=3)
    assert snapshot(tmp_path)["pending_updates"] == 2
    one.learn(None, env, steps=8, hooks=EvaluationHook(every_steps=4, episodes=5))
    assert [counters[:2] for counters in saved(tmp_path)[2:]] == [(28, 4), (28, 8), (28, 11), (28, 11)]
    assert snapshot(tmp_path)["pending_updates"] == 2
    recorded = evaluated_at(tmp_path)
    assert {row.global_step: row.offline_steps for row in recorded.values()} == {4: 1, 8: 5, 11: 8}
    for number, row in recorded.items():
        assert Agent.load(tmp_path).evaluate(env, policy=number) == row.results


def test_a_caller_s_own_loop_is_not_cut_by_its_evaluations(tmp_path: Path) -> None:
    env = Counting(3)
    with linear(tmp_path).interact(env.observation_space, env.action_space, first_update=8) as interaction:
        observation, _ = env.reset(seed=0)
        for timestep in range(10):
            interaction.act(observation)
            observation, reward, terminated, truncated, _ = env.step(0)
            interaction.observe(reward, terminated, truncated, observation)
            if terminated:
                observation, _ = env.reset(seed=timestep)
            if timestep == 4:
                interaction.session.evaluate(Counting(4), episodes=2)
    assert [timestep for timestep, _, _ in saved(tmp_path)] == [0, 10]
    [row] = evaluations_of_policies(tmp_path)
    assert (row.global_timestep, row.num_envs, row.environment) == (5, 1, "given")


def test_in_an_environment_of_the_hook_s_own(tmp_path: Path) -> None:
    """An id is recorded; of an object that it was one, and it must be given again."""
    for folder, env, where in ((tmp_path / "a", "CartPole-v1", "CartPole-v1"), (tmp_path / "b", Counting(5), "given")):
        train_in = make("CartPole-v1") if folder.name == "a" else Counting()
        linear(folder).train(train_in, 8, timesteps=20, hooks=EvaluationHook(20, 3, env=env))
        [(number, row)] = evaluated_at(folder).items()
        assert (row.num_envs, row.environment) == (1, where)
        assert Agent.load(folder).evaluate(env, policy=number) == row.results


def test_other_episodes_of_a_checkpoint(tmp_path: Path) -> None:
    """A number of episodes or a seed asks for others; so does a checkpoint that was not evaluated."""
    one = linear(tmp_path).train(make("CartPole-v1"), 8, 2, timesteps=41, hooks=EvaluationHook(20, 4))
    numbers = list(evaluated_at(tmp_path))
    assert numbers == [2, 3, 4, 5]  # of timesteps 20, 40 and 41: the last one twice, before the end and after it
    row = one.recorded_evaluation(2)
    assert row is not None
    assert one.evaluate("CartPole-v1", 4, policy=2) != row.results == one.evaluate("CartPole-v1", policy=2)
    assert one.evaluate("CartPole-v1", seed=3, policy=2)["episodes"] == 10
    assert one.recorded_evaluation(1) is None
    assert one.evaluate("CartPole-v1", policy=1)["episodes"] == 10
    assert one.recorded_evaluation() == one.recorded_evaluation(5)


def test_a_checkpoint_is_a_policy_like_any_other(tmp_path: Path) -> None:
    one = linear(tmp_path).train(make("CartPole-v1"), 8, 2, timesteps=40, hooks=EvaluationHook(20, 1))
    weights = [one.get_weights(policy=number)["0000.weights"] for number in (1, 2, 3, 4)]
    assert len({array.tobytes() for array in weights}) == 4
    assert weights[3].tobytes() == one.get_weights()["0000.weights"].tobytes()
    observations = [[0.1, 0.2, 0.3, 0.4]]
    values = [one.predict(observations, policy=number)["values"].tobytes() for number in (1, 2, 3, 4)]
    assert len(set(values)) == 4
    assert int(one.act(observations[0], policy=2)) in (0, 1)
    before = snapshot(tmp_path)
    one.train(make("CartPole-v1"), 8, 2, timesteps=2)
    assert before["counters"] != snapshot(tmp_path)["counters"]
    assert one.predict(observations, policy=2)["values"].tobytes() == values[1]


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        ({"policy": 9}, "policy"),
        ({"policy": True}, "policy"),
        ({"policy": 1, "episodes": "repeat"}, "episodes"),
        ({"policy": 2, "episodes": "repeat", "seed": 4}, "seed"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], argument: str, trained: Agent) -> None:
    caught = raised(ArgumentError, trained.evaluate, "CartPole-v1", **arguments)
    assert (caught.argument, caught.value) == (argument, arguments[argument])
    assert ("no checkpoint 9, only 1, 2, 3;" in str(caught)) == (arguments["policy"] == 9)


def test_an_environment_that_cannot_be_copied_as_then(trained: Agent) -> None:
    assert raised(ArgumentError, trained.evaluate, Counting(), policy=2).argument == "env"


def test_numbers_that_differ_are_said(trained: Agent, caplog: pytest.LogCaptureFixture) -> None:
    row = trained.recorded_evaluation(2)
    assert row is not None
    for env, level in (
        (make("CartPole-v1"), logging.INFO),
        (make("CartPole-v1", max_episode_steps=5), logging.WARNING),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO, "axonrl"):
            results = trained.evaluate(env, policy=2)
        assert [record.levelno for record in caplog.records] == [level]
        assert (results == row.results) is (level == logging.INFO)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """Checkpoint 2 is that of an evaluation, 1 and 3 are not."""
    one = linear(tmp_path_factory.mktemp("run"))
    return one.train(make("CartPole-v1"), 8, 2, timesteps=20, hooks=EvaluationHook(20, 4))
