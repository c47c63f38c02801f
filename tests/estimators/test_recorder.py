from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from axonrl import EstimatorSpec
from axonrl.environments import make, read_episodes
from axonrl.errors import ArgumentError
from axonrl.tests.estimators.fakes import Counting, ListMemory, agent, aiming_model, vector
from axonrl.tests.raising import raised

pytestmark = pytest.mark.usefixtures("traced_once")


def read(path: Path, env: Any) -> list[Any]:
    return list(read_episodes(path, env.observation_space, env.action_space))


def trained(model_dir: Path, env: Any, **options: Any) -> Any:
    one = agent(model_dir, **options)
    one.check(env)
    return one


def test_what_was_observed_done_and_paid(tmp_path: Path) -> None:
    env, path = Counting(length=3), tmp_path / "data.npz"
    results = trained(tmp_path / "run", env).record(path, env, episodes=2)
    first, second = read(path, env)
    assert first["observation"][:, 0].tolist() == [0, 1, 2]
    assert first["next_observation"][:, 0].tolist() == [1, 2, 3]
    assert (first["reward"].tolist(), first["action"].tolist()) == ([1, 2, 3], env.actions[:3])
    assert (first["terminated"].tolist(), first["truncated"].any()) == ([False, False, True], False)
    assert first["observation"][0, 1] != second["observation"][0, 1]  # another seed
    assert results == {
        "episode_return_mean": 6.0,
        "episode_return_std": 0.0,
        "episode_return_min": 6.0,
        "episode_return_max": 6.0,
        "episode_length_mean": 3.0,
        "episodes": 2,
        "timesteps": 6,
    }


def test_the_same_seed_gives_the_same_episodes_and_another_one_others(tmp_path: Path) -> None:
    env, seen = Counting(), []
    one = trained(tmp_path / "run", env)
    for seed in (None, None, 0, 1):
        one.record(tmp_path / "data.npz", env, episodes=2, seed=seed, epsilon=0.5)
        seen.append(np.concatenate([episode["observation"] for episode in read(tmp_path / "data.npz", env)]).tobytes())
    assert seen[0] == seen[1] == seen[2] != seen[3]
    assert env.seeds[0] != env.seeds[1]


@pytest.mark.parametrize("name", ["data", "missing/data.npz"])
def test_a_file_that_cannot_be_written_is_refused_before_the_first_timestep(tmp_path: Path, name: str) -> None:
    env = Counting()
    raised(ArgumentError, trained(tmp_path / "run", env).record, tmp_path / name, env, episodes=2, match="npz")
    assert env.actions == []


def test_so_many_timesteps_cut_the_last_episode(tmp_path: Path) -> None:
    env, path = Counting(length=4), tmp_path / "data.npz"
    assert trained(tmp_path / "run", env).record(path, env, timesteps=10)["timesteps"] == 10
    episodes = read(path, env)
    assert [len(episode["reward"]) for episode in episodes] == [4, 4, 2]
    assert episodes[2]["truncated"].tolist() == [False, True]
    assert not episodes[2]["terminated"].any()
    assert trained(tmp_path / "run", env).record(path, env, timesteps=8)["episodes"] == 2


def test_random_actions_in_between(tmp_path: Path) -> None:
    """The greedy policy always does the same in the first observation of a Counting without marks."""

    class Same(Counting):
        def observation(self) -> Any:
            return np.zeros(2, np.float32)

    env = Same(length=400)
    one = trained(tmp_path / "run", env)
    share = []
    for epsilon in (0.0, 0.5, 1.0):
        one.record(tmp_path / "data.npz", env, episodes=1, epsilon=epsilon)
        share.append(float(read(tmp_path / "data.npz", env)[0]["action"].mean()))
    assert share[0] == 0.0
    assert share[1:] == pytest.approx([0.25, 0.5], abs=0.08)


def test_actions_of_a_box_are_within_its_bounds(tmp_path: Path) -> None:
    env = Counting(action_space=Box(-1, 1, (2,), np.float32))
    one = agent(tmp_path / "run", ListMemory(2), aiming_model)  # it aims at (3, 3)
    one.check(env)
    one.record(tmp_path / "data.npz", env, episodes=1)
    assert read(tmp_path / "data.npz", env)[0]["action"].tolist() == [[1, 1]] * 3


def test_dictionaries_and_recurrent_state(tmp_path: Path) -> None:
    class Named(Counting):
        observation_space = Dict({"at": Box(0, 99, (1,), np.float32), "mark": MultiBinary(1)})

        def observation(self) -> Any:
            return {"at": np.array([self.timestep], np.float32), "mark": np.array([1], np.int8)}

    def model(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        """Counts the timesteps of an episode, and does what it counted."""
        weight = tf.Variable(1.0, name="weight")
        if mode != "predict":
            return EstimatorSpec(mode, loss=weight, train_op=weight.assign_sub(0.1))
        observation = features["observation"] if "state" in features else features
        count = features["state"]["count"] if "state" in features else tf.zeros_like(observation["at"])
        action = {"which": tf.cast(count[:, 0] * weight, tf.int32), "far": observation["at"]}
        return EstimatorSpec(mode, {"action": action}, state={"count": count + 1.0})

    env = Named(action_space=Dict({"which": Discrete(4), "far": Box(0, 1.5, (1,), np.float32)}))
    one = agent(tmp_path / "run", ListMemory(2), model)
    one.check(env)
    one.record(tmp_path / "data.npz", env, episodes=2)
    for episode in read(tmp_path / "data.npz", env):
        assert episode["observation"]["at"].ravel().tolist() == [0, 1, 2]
        assert episode["action"]["which"].tolist() == [0, 1, 2]
        assert episode["action"]["far"].ravel().tolist() == [0, 1, 1.5]
    one.record(tmp_path / "random.npz", env, episodes=9, epsilon=1)
    drawn = [episode["action"]["which"].ravel().tolist() for episode in read(tmp_path / "random.npz", env)]
    assert len({which for episode in drawn for which in episode}) > 1


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"episodes": 1, "timesteps": 1}, "episodes"),
        ({"episodes": 1, "epsilon": 1.5}, "epsilon"),
        ({"episodes": 1, "env": vector(Counting(), Counting())}, "env"),
        ({"episodes": 1, "path": "data.csv"}, "path"),
        ({"episodes": 1, "path": "missing/data.npz"}, "path"),
        ({"episodes": 1, "path": "folder.npz"}, "path"),
    ],
)
def test_what_is_refused_before_anything_is_played(options: dict[str, Any], argument: str, tmp_path: Path) -> None:
    env = Counting()
    one = trained(tmp_path / "run", env)
    (tmp_path / "folder.npz").mkdir()
    path = tmp_path / options.pop("path", "data.npz")
    assert raised(ArgumentError, one.record, path, options.pop("env", env), **options).argument == argument
    assert not list(tmp_path.glob("data*"))
    assert env.actions == []


def test_normalised_observations_are_refused(tmp_path: Path) -> None:
    env: gymnasium.Env[Any, Any] = make("CartPole-v1", wrappers=["normalize_observation"])
    one = trained(tmp_path / "run", env)
    assert raised(ArgumentError, one.record, tmp_path / "data.npz", env, episodes=1).argument == "env"
