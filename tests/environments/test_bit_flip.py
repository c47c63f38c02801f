"""Bit flip, and what a memory sees of environments of all kinds."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode

from axonrl import environments
from axonrl.environments.description import arguments_of
from axonrl.environments.memory_view import EnvironmentView
from axonrl.errors import ArgumentError
from axonrl.tests.raising import raised

make: Any = environments.make
ID = "axonrl/BitFlip-v0"


def test_an_episode() -> None:
    env = make(ID, bits=4)
    observation, _ = env.reset(seed=3)
    goal, start = observation["desired_goal"], observation["observation"]
    assert (goal != start).any()
    assert env.observation_space.contains(observation)
    wrong = np.flatnonzero(goal != start).tolist()
    steps = [env.step(bit) for bit in wrong]
    assert [reward for _, reward, *_ in steps] == [-1.0] * (len(wrong) - 1) + [0.0]
    assert [terminated for _, _, terminated, *_ in steps] == [False] * (len(wrong) - 1) + [True]
    assert steps[-1][0]["achieved_goal"].tolist() == goal.tolist()
    again, _ = env.reset(seed=3)
    np.testing.assert_equal(again, observation)
    right = int(np.flatnonzero(goal == start)[0]) if len(wrong) < 4 else 0
    flags = [env.step(right)[2:4] for _ in range(4)]
    assert (flags[:3], flags[3]) == ([(False, False)] * 3, (False, True))


def test_the_reward_is_that_of_compute_reward() -> None:
    env = make(ID, bits=3).unwrapped
    rng = np.random.default_rng(0)
    for seed in range(20):
        env.reset(seed=seed)
        for _ in range(3):
            observation, reward, terminated, *_ = env.step(int(rng.integers(3)))
            goals = observation["achieved_goal"], observation["desired_goal"]
            assert env.compute_reward(*goals, {}) == reward
            assert bool(env.compute_terminated(*goals, {})) is terminated
    achieved, desired = np.array([[0, 1, 1], [0, 1, 1]]), np.array([[0, 1, 1], [1, 1, 1]])
    assert env.compute_reward(achieved, desired, {}).tolist() == [0, -1]


def test_its_id() -> None:
    assert arguments_of(make(ID, bits=5)) == {"id": ID, "kwargs": {"bits": 5}, "wrappers": []}
    assert environments.similar(make(ID, bits=5)).action_space.n == 5  # type: ignore[attr-defined]
    raised(ArgumentError, make, ID, bits=0, match="bits")
    raised(ArgumentError, make, "axonrl/BitFlop-v0", match="did you mean 'axonrl/BitFlip-v0'")


class Renamed(gymnasium.Wrapper[Any, Any, Any, Any]):
    def compute_reward(self, *goals: Any) -> str:
        return "the wrapper's"


def _async() -> Any:
    functions = [lambda: make(ID, bits=3)] * 2
    return AsyncVectorEnv(functions, autoreset_mode=AutoresetMode.DISABLED)


@pytest.mark.parametrize(
    "opened",
    [lambda: make(ID, bits=3), lambda: make(ID, 2, bits=3, wrappers=["normalize_reward"]), _async],
    ids=["single", "wrapped", "async"],
)
def test_methods_are_found(opened: Any) -> None:
    env = opened()
    one = environments.open_environment(env)
    view = EnvironmentView(one.observation_space, one.action_space, env)
    reward = view.method("compute_reward")
    assert reward is not None
    assert reward(np.zeros((2, 3)), np.array([[0, 0, 0], [0, 0, 1]]), {}).tolist() == [0, -1]
    assert view.method("compute_truncated") is None
    env.close()


def test_methods_of_wrappers_and_of_nothing() -> None:
    env = Renamed(make(ID, bits=3))
    found = EnvironmentView(env.observation_space, env.action_space, env).method("compute_reward")
    assert found is not None
    assert found() == "the wrapper's"
    assert EnvironmentView(env.observation_space, env.action_space).method("compute_reward") is None
    native = make("CartPole-v1", 2, vectorization="native")
    spaces = native.single_observation_space, native.single_action_space
    assert EnvironmentView(*spaces, native).method("compute_reward") is None


def test_a_vector_environment_with_a_reward_of_its_own() -> None:
    class Own:
        def compute_reward(self, *goals: Any) -> str:
            return "its own"

    view = EnvironmentView(Box(-1, 1), Discrete(2), Own())
    found = view.method("compute_reward")
    assert found is not None
    assert found() == "its own"
    assert view.method("compute_terminated") is None  # and no part of it can be asked
