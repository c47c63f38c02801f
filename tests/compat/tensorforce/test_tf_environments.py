"""Environments of Tensorforce's interface: specifications, time limits, checks, Gymnasium's spaces, processes."""

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from axonrl.compat.common.gymnasium_ids import registered_id
from axonrl.compat.tensorforce import TensorforceError
from axonrl.compat.tensorforce.environments import Environment
from axonrl.compat.tensorforce.environments.gymnasium_spaces import part_of

from .agents import Count, make, refused


class Answers(Environment):
    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)

    def states(self) -> dict[str, Any]:
        return {"eye": {"type": "float", "shape": (2,)}, "lamp": {"type": "bool", "shape": ()}}

    def actions(self) -> dict[str, Any]:
        return {"type": "float", "shape": ()}

    def reset(self) -> Any:
        return {"eye": [0.0, 1.0], "lamp": True}

    def execute(self, actions: Any) -> Any:
        return self.answers.pop(0)


@pytest.mark.parametrize(
    "environment", [{"environment": "gym", "level": "CartPole-v1"}, "gymnasium.envs.classic_control.CartPoleEnv"]
)
def test_a_level_may_be_given_in_many_ways(environment: Any) -> None:
    with Environment.create(environment, 9) as env:
        assert env.states() == {"type": "float", "shape": (4,)}
        assert env.actions() == {"type": "int", "shape": (), "num_values": 2}
        assert env.max_episode_timesteps() == 9


def test_a_level_without_version_has_no_limit() -> None:
    with Environment.create("gym", level="CartPole") as env:
        assert env.max_episode_timesteps() is None
        assert str(env) == "CartPole-v1"
    with Environment.create("gym", level="CartPole-v1") as env:
        assert env.max_episode_timesteps() == 500
    with Environment.create("CartPole", max_episode_steps=60) as env:
        assert env.max_episode_timesteps() == 60
    with Environment.create("CartPole-v1", max_episode_steps=False) as env:
        assert env.max_episode_timesteps() is None


def test_limits_are_aborts_and_ends_at_them_ends() -> None:
    with Environment.create("gym", level="Pendulum-v1", max_episode_timesteps=7) as env:
        env.reset()
        assert [env.execute(np.zeros(1, np.float32))[1] for _ in range(7)] == [0] * 6 + [2]
        assert "ended" in str(refused(env.execute, np.zeros(1, np.float32)))
        env.reset()
        assert env.execute(np.zeros(1, np.float32))[1] == 0
    env = Environment.create(Count, max_episode_timesteps=2, length=2)
    assert "begun" in str(refused(env.execute, 1))
    assert env.reset() == 0
    assert env.execute(1) == (1, 0, 1.0)
    assert env.execute(1)[1] == 1
    with Environment.create("gym", level="Pendulum-v1", max_episode_steps=2, terminal_reward=100.0) as env:
        env.reset()
        first, second = env.execute(np.zeros(1)), env.execute(np.zeros(1))
        assert (first[1], second[1]) == (0, 2)
        assert second[2] < 50  # no terminal reward


def test_the_terminal_reward_is_added_at_the_end() -> None:
    with Environment.create("gym", level="CartPole", terminal_reward=-100.0) as env:
        env.reset()
        terminal, rewards = 0, []
        while not terminal:
            _, terminal, reward = env.execute(1)
            rewards.append(reward)
        assert terminal == 1
        assert rewards == [1.0] * (len(rewards) - 1) + [-99.0]


def test_a_limit_may_be_lowered_only() -> None:
    env = Environment.create(Count(), max_episode_timesteps=5)
    assert Environment.create(env) is env
    assert Environment.create(env, max_episode_timesteps=5) is env
    assert Environment.create(env, max_episode_timesteps=4).max_episode_timesteps() == 4
    assert refused(Environment.create, env, max_episode_timesteps=6).value == 6
    own = Count()
    Environment.create(own, max_episode_timesteps=5)
    assert str(refused(Environment.create, own, max_episode_timesteps=6)) == (
        "Environment.create: max_episode_timesteps must be at most 5, as Count.max_episode_timesteps() is; got 6"
    )
    assert refused(Environment.create, "CartPole-v1", max_episode_timesteps=501).value == 501
    assert refused(Environment.create, "CartPole-v1", max_episode_timesteps=0).value == 0


def test_without_a_limit_it_is_the_users_own() -> None:
    made = Environment.create(Count, length=2)
    assert type(made) is Count
    assert Environment.create(made) is made
    assert made.max_episode_timesteps() is None
    with pytest.raises(TensorforceError, match="the pump is broken"):
        raise TensorforceError("the pump is broken")


def test_an_objects_attributes_are_reached_and_it_is_closed() -> None:
    inside = Count()
    env: Any = Environment.create(inside, max_episode_timesteps=5)
    assert inside.max_episode_timesteps() == 5
    env.reset()
    env.execute(1)
    assert env.at == inside.at == 1
    env.length = 1
    assert inside.length == 1
    with pytest.raises(AttributeError):
        _ = env.colour
    env.close()
    assert inside.closed == 1


def test_specifications_come_from_files_and_are_left_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    path.write_text(json.dumps({"environment": "gym", "level": "CartPole-v1", "max_episode_timesteps": 50}))
    with Environment.create(str(path)) as env:
        assert env.max_episode_timesteps() == 50
    spec = {"environment": str(path), "max_episode_timesteps": 40}
    with Environment.create(spec, max_episode_timesteps=30) as env:
        assert env.max_episode_timesteps() == 30
    assert spec == {"environment": str(path), "max_episode_timesteps": 40}
    path.write_text("{")
    assert refused(Environment.create, str(path)).value == str(path)


def test_a_name_is_not_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("gym", "random", "RandomAgent"):
        (tmp_path / name).write_text("not JSON")
    assert str(Environment.create("gym", level="CartPole-v1")) == "CartPole-v1"
    assert [str(make(name)) for name in ("random", "RandomAgent")] == ["RandomAgent"] * 2


@pytest.mark.parametrize(
    ("environment", "arguments", "word"),
    [
        ("tensorforce.environments.ViZDoom", {}, "vizdoom"),
        ("CartPool-v1", {}, "CartPole-v1"),
        ("CartPole-v1", {"remote": "telepathy"}, "multiprocessing"),
    ],
)
def test_what_cannot_be_opened_is_refused(environment: Any, arguments: Any, word: str) -> None:
    assert word in str(refused(Environment.create, environment, **arguments))


@pytest.mark.parametrize(
    ("answer", "argument"),
    [
        (({"eye": [0.0, 1.0], "lamp": True}, 3, 0.0), "Answers.execute: terminal"),
        (({"eye": [0.0, 1.0], "lamp": True}, 0, float("nan")), "Answers.execute: reward"),
        (({"eye": [0.0, np.inf], "lamp": True}, 0, 0.0), "Answers.execute: states['eye']"),
        (({"eye": [0.0, 1.0], "lamp": True, "nose": 1}, 0, 0.0), "Answers.execute: states"),
    ],
)
def test_what_the_specs_do_not_allow_names_the_environment(answer: Any, argument: str) -> None:
    env = Environment.create(Answers(answer), max_episode_timesteps=9)
    env.reset()
    assert refused(env.execute, 0.0).argument == argument


def test_what_the_specs_allow_is_returned_unchanged() -> None:
    states = {"eye": np.array([1, 2]), "lamp": 0}
    answers = [(states, np.bool_(False), np.float32(0.5)), (states, np.array([True]), np.array([[0.5]]))]
    env = Environment.create(Answers(*answers), max_episode_timesteps=9)
    env.reset()
    assert [env.execute(0.0), env.execute(0.0)] == [(states, 0, 0.5), (states, 1, 0.5)]


@pytest.mark.parametrize("action", [2, True])
def test_actions_are_checked_before_the_environment_sees_them(action: Any) -> None:
    env: Any = Environment.create(Count, max_episode_timesteps=9)
    env.reset()
    refused(env.execute, action)
    assert env.execute(1)[1] == 0  # a refused call changes nothing
    assert env.at == 1


def test_a_version_that_is_gone_has_a_successor(caplog: pytest.LogCaptureFixture) -> None:
    assert registered_id("Pendulum-v1") == ("Pendulum-v1", True)
    assert registered_id("CartPole") == ("CartPole-v1", False)
    assert registered_id("CartPole-v0") == ("CartPole-v0", True)
    assert registered_id("CartPole-v7") == ("CartPole-v7", True)  # no successor: an error when it is made
    with caplog.at_level(logging.WARNING, "axonrl"), Environment.create("Pendulum-v0") as env:
        assert env.max_episode_timesteps() == 200
    assert len(caplog.records) == 1


def test_entries_of_a_state_can_be_left_out() -> None:
    with Environment.create("CartPole-v1", drop_states_indices=[1, 3]) as env:
        assert env.states() == {"type": "float", "shape": (2,)}
        assert env.reset().shape == (2,)
    assert refused(Environment.create, "CartPole-v1", drop_states_indices=[4]).value == [4]


def test_a_gymnasium_object_or_class_is_an_environment() -> None:
    inside = gymnasium.make("CartPole-v1", max_episode_steps=20)
    env = Environment.create(inside, max_episode_timesteps=10)
    assert env.max_episode_timesteps() == 10
    assert env.reset().dtype == np.float32
    error = refused(Environment.create, "gym", level=inside, max_episode_steps=False)
    assert error.argument == "gym: max_episode_steps"
    inside.close()


class Old:
    """An environment of Gym: four values, and no info of a reset."""

    class Box:
        low, high, dtype = np.full(2, -1.0, np.float32), np.full(2, 1.0, np.float32), np.dtype(np.float32)

    class Discrete:
        n = 3

    observation_space, action_space = Box(), Discrete()

    def reset(self) -> Any:
        self.at = 0
        return np.zeros(2, np.float32)

    def step(self, action: int) -> Any:
        self.at += 1
        return np.full(2, self.at / 9, np.float32), 1.0, self.at == 3, {"TimeLimit.truncated": self.at == 3}


@pytest.mark.parametrize("level", [Old, Old()])
def test_an_environment_of_gym_is_used_with_one_warning(level: Any, caplog: pytest.LogCaptureFixture) -> None:
    with Environment.create(level, max_episode_steps=4) as env:
        assert env.states() == {"type": "float", "shape": (2,)}
        assert env.actions() == {"type": "int", "shape": (), "num_values": 3}
        for _ in range(2):
            assert env.reset().tolist() == [0, 0]
            assert [env.execute(1)[1:] for _ in range(3)] == [(0, 1.0), (0, 1.0), (2, 1.0)]
    assert [record.message for record in caplog.records if "interface of Gym" in record.message] == [
        "Old has the interface of Gym (reset without info) and is used like Gymnasium's"
    ]


@pytest.mark.parametrize(
    ("space", "spec", "theirs", "ours"),
    [
        (MultiDiscrete([3, 3], start=[0, 4]), {"type": "int", "shape": (2,), "num_values": 3}, [2, 5], [2, 1]),
        (
            MultiDiscrete([2, 3]),
            {
                "gymmdc0-2": {"type": "int", "shape": (), "num_values": 2},
                "gymmdc1-2": {"type": "int", "shape": (), "num_values": 3},
            },
            [1, 2],
            {"gymmdc0-2": 1, "gymmdc1-2": 2},
        ),
        (
            Tuple([Discrete(2), Dict({"left": MultiBinary(1)})]),
            {"gymtpl0": {"type": "int", "shape": (), "num_values": 2}, "gymtpl1-left": {"type": "bool", "shape": (1,)}},
            (1, {"left": [1]}),
            {"gymtpl0": 1, "gymtpl1-left": [True]},
        ),
    ],
)
def test_values_are_turned_both_ways(space: Any, spec: Any, theirs: Any, ours: Any) -> None:
    for actions in (False, True):
        part = part_of("here", space, actions=actions)
        assert part.spec == spec
        written = part.write(ours)
        np.testing.assert_equal(written, theirs)
        assert space.contains(written)
        np.testing.assert_equal(part.read(written), ours)


def test_bounds_of_actions() -> None:
    one = part_of("here", Box(-2.0, 2.0, (3,)), actions=True)
    assert one.spec == {"type": "float", "shape": (3,), "min_value": -2.0, "max_value": 2.0}
    none = part_of("here", Box(-np.inf, np.inf, (3,)), actions=True)
    assert none.spec == {"type": "float", "shape": (3,)}
    half = part_of("here", Box(0.0, np.inf, (2,)), actions=True)
    assert half.spec == {"type": "float", "shape": (2,)}
    np.testing.assert_array_equal(half.write([-1.0, 1.0]), [0.0, 1.0])
    for fine in (Box(-0.1, 0.1, (), np.float64), Box(-0.1, 0.1, (1,), np.float64)):
        written = part_of("here", fine, actions=True).write(np.full(fine.shape, 0.1, np.float32))  # 0.10000000149
        assert fine.contains(written)
    low, high = np.array([[-1.0, 0.0]], np.float32), np.array([[1.0, 0.5]], np.float32)
    box = Box(low, high)
    split = part_of("here", box, actions=True)
    assert split.spec == {
        "gymbox0-1_2": {"type": "float", "shape": (), "min_value": -1.0, "max_value": 1.0},
        "gymbox1-1_2": {"type": "float", "shape": (), "min_value": 0.0, "max_value": 0.5},
    }
    written = split.write({"gymbox0-1_2": np.float32(-0.5), "gymbox1-1_2": np.float32(0.25)})
    np.testing.assert_array_equal(written, [[-0.5, 0.25]])
    assert box.contains(written)


def test_other_spaces_are_refused_by_name() -> None:
    assert refused(part_of, "here", Dict({"word": Text(3)}), actions=False).value == Text(3)
    refused(part_of, "here", Box(0, 3, (1,), np.int32), actions=True)


def test_an_environment_in_a_process_is_the_same() -> None:
    env: Any = Environment.create("gym", level="Pendulum-v1", max_episode_timesteps=2, remote="multiprocessing")
    try:
        assert env.states() == {"type": "float", "shape": (3,)}
        assert (env.max_episode_timesteps(), str(env)) == (2, "Pendulum-v1")
        assert "begun" in str(refused(env.execute, np.zeros(1)))
        assert env.reset().shape == (3,)
        assert refused(env.execute, np.zeros(2)).argument == "Pendulum-v1.execute: actions"
        env.start_execute(np.zeros(1))
        env.start_reset()  # what was not received is dropped
        assert env.receive().shape == (3,)
        assert [env.execute(np.zeros(1))[1] for _ in range(2)] == [0, 2]
    finally:
        env.close()
    env.close()
    refused(env.reset)
    error = refused(Environment.create, "gym", level="CartPool-v1", remote="multiprocessing")
    assert "CartPole-v1" in str(error)
    assert ", in _serve\n" in str(error.__cause__)  # the traceback of the process


def test_an_environment_in_a_process_is_checked_without_a_limit_too() -> None:
    with Environment.create(Count, length=1, remote="multiprocessing") as env:
        assert env.reset() == 0
        assert refused(env.execute, 2).argument == "Count.execute: actions"
        assert env.execute(0) == (1, 1, 1.0)
        assert "the episode has ended" in str(refused(env.execute, 0))


def test_the_answer_to_an_interrupted_call_is_dropped() -> None:
    def interrupt() -> Any:
        raise KeyboardInterrupt

    with Environment.create(Count, remote="multiprocessing") as made:
        env: Any = made
        env.reset()
        pipe, env._pipe = env._pipe, SimpleNamespace(send=env._pipe.send, recv=interrupt)
        with pytest.raises(KeyboardInterrupt):
            env.execute(0)
        env._pipe = pipe
        refused(env.execute, 0)
        assert (env.reset(), env.execute(0)) == (0, (1, 0, 1.0))


def test_a_process_that_ended_is_an_error() -> None:
    env: Any = Environment.create("CartPole-v1", remote="multiprocessing")
    env._process.kill()
    error = refused(env.reset)
    assert (error.argument, error.value) == ("remote", -9)
    env.close()
