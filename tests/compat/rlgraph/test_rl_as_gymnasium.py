"""Environments of RLgraph's interface as Gymnasium's, and decays as schedules."""

import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.compat.rlgraph import Environment, GridWorld
from axonrl.compat.rlgraph.environments.gymnasium_adapter import (
    EnvironmentFactory,
    gymnasium_actions,
    gymnasium_space,
    sendable,
)
from axonrl.compat.rlgraph.processing.decays import make_decay
from axonrl.compat.rlgraph.spaces import BoolBox, Dict, FloatBox, IntBox, Tuple
from axonrl.core.errors import ArgumentError
from axonrl.distributed.environment_recipes import EnvironmentRecipe

from .agents import refused


class Counter(Environment):
    """Counts its steps from 10 by the action; each step's reward is the number; the fifth ends the episode."""

    closed = 0

    def __init__(self) -> None:
        self.pair = np.ones(2, np.float32)
        self.seeds: list[Any] = []
        self.actions: list[Any] = []
        super().__init__(state_space=Dict(count=IntBox(10, 40), pair=FloatBox(shape=(2,))), action_space=IntBox(2, 5))

    def seed(self, seed: int | None = None) -> Any:
        self.seeds.append(seed)

    def reset(self) -> Any:
        self.at = 10
        self.steps = 0
        return self._seen()

    def step(self, actions: Any) -> Any:
        self.actions.append(actions)
        self.at += actions
        self.steps += 1
        return self._seen(), float(self.at), self.steps == 5, {"truncated": self.steps == 5 and self.at == 20}

    def _seen(self) -> Any:
        self.pair[0] = self.at  # the same array always
        return {"count": self.at, "pair": self.pair}

    def terminate(self) -> None:
        Counter.closed += 1


def test_frames_are_skipped_to_the_end_of_an_episode() -> None:
    inside = Counter()
    env = EnvironmentFactory(inside, frame_skip=2)()
    assert env.observation_space == spaces.Dict(
        {"count": spaces.Discrete(30, start=10), "pair": spaces.Box(-np.inf, np.inf, (2,), np.float32)}
    )
    assert env.action_space == spaces.Discrete(3, start=2)
    before, _ = env.reset(seed=3)
    assert before["count"] == 10
    state, reward, terminated, truncated, _ = env.step(np.int64(3))
    assert inside.actions == [3, 3]
    assert (state["count"], reward, terminated, truncated) == (16, 13 + 16, False, False)
    assert (before["pair"].tolist(), state["pair"].tolist()) == ([10, 1], [16, 1])  # it stays what it was
    env.step(np.int64(2))
    assert env.step(np.int64(2))[1:4] == (22, True, False)  # one frame was left
    env.reset(seed=4)
    assert inside.seeds == [3]
    for _ in range(2):
        env.step(np.int64(2))
    assert env.step(np.int64(2))[1:4] == (20, False, True)  # its time was up


@pytest.mark.parametrize(
    ("count", "pair", "problem"),
    [
        (10.5, [0, 0], "state['count'] must be integers"),
        (40, [0, 0], "state['count'] must be in 10 .. 39"),
        ([10, 11], np.zeros((2, 2)), "state must be one of Dict("),
    ],
)
def test_states_are_read_as_an_agent_reads_them(count: Any, pair: Any, problem: str) -> None:
    inside: Any = Counter()
    env = EnvironmentFactory(inside)()
    inside.step = lambda _: ({"count": count, "pair": pair}, 0.0, False, {})
    with pytest.raises(ValueError, match=f"^Counter.step: {re.escape(problem)}"):
        env.step(0)


def test_each_environment_preprocesses_for_itself() -> None:
    steps = [{"type": "divide", "divisor": 2}, {"type": "sequence", "sequence_length": 2}]
    factory = EnvironmentFactory({"type": "openai", "gym_env": "CartPole-v1"}, steps)
    first, second = factory(), factory()
    space: Any = first.observation_space
    assert (space.shape, space.dtype) == ((4, 2), np.float32)
    inside: Any = first
    begun, _ = first.reset(seed=1)
    np.testing.assert_array_equal(begun[:, 0], begun[:, 1])
    after = first.step(0)[0]
    np.testing.assert_array_equal(after[:, 0], begun[:, 1])
    np.testing.assert_allclose(after[:, 1] * 2, inside.environment.gym_env.unwrapped.state, rtol=1e-6)
    other, _ = second.reset(seed=2)
    np.testing.assert_array_equal(other[:, 0], other[:, 1])
    again, _ = first.reset()
    np.testing.assert_array_equal(again[:, 0], again[:, 1])  # nothing of the episode before


def test_an_environment_whose_preprocessing_does_not_fit_is_closed() -> None:
    refused(EnvironmentFactory(Counter, ["transpose"]))
    assert Counter.closed == 1


def test_what_is_learned_from_may_be_signs_while_returns_are_the_rewards() -> None:
    factory = EnvironmentFactory({"type": "grid_world", "world": "2x2", "reward_function": "rich"})
    copies = EnvironmentRecipe(factory, rewards=np.sign).several(2)
    copies.reset(None, [1, 2])
    down, right = 2, 1
    copies.step(np.array([down, down], np.int32))
    step = copies.step(np.array([right, down], np.int32))
    assert step.normalized_reward is not None
    assert (step.reward.tolist(), step.normalized_reward.tolist()) == ([50, -1], [1, -1])
    assert step.terminated.tolist() == [True, False]
    copies.close()
    plain = EnvironmentRecipe(factory).several(1)
    plain.reset(None, [1])
    assert plain.step(np.array([down], np.int32)).normalized_reward is None
    with pytest.raises(ArgumentError, match="rewards would replace those of normalize_reward"):
        EnvironmentRecipe("CartPole-v1", wrappers=["normalize_reward"], rewards=np.sign)


def test_spaces_have_counterparts() -> None:
    space = Dict(a=Tuple(BoolBox(), BoolBox(shape=(2,))), b=IntBox(1, 3, shape=(2,)), c=IntBox(256, dtype="uint8"))
    made: Any = gymnasium_space(space)
    assert made["a"] == spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary((2,))])
    assert made["b"] == spaces.MultiDiscrete([2, 2], start=[1, 1])
    assert made["c"] == spaces.Box(0, 255, (), np.uint8)
    assert gymnasium_actions(Tuple(space["c"], bool)) == spaces.Tuple([spaces.Discrete(256), spaces.Discrete(2)])
    assert gymnasium_actions(IntBox(1, 3, (2,), "uint8")) == made["b"]
    assert gymnasium_space(IntBox((0, 0), (3, 2))) == spaces.Box(np.array([0, 0]), np.array([2, 1]), dtype=np.int32)
    assert gymnasium_space(FloatBox(-1.0, 2.0, shape=(3,))) == spaces.Box(-1, 2, (3,), np.float32)


def test_objects_cannot_be_sent() -> None:
    error = refused(sendable, "here", {"type": "openai", "more": [{"gym_env": lambda: GridWorld("2x2")}]})
    assert error.argument == "here['more'][0]['gym_env']"
    given = {"type": GridWorld, "world": ["SG"]}
    assert sendable("here", given) == given


@pytest.mark.parametrize(
    "spec",
    [
        0.25,
        {"type": "polynomial", "from": 1.0, "to": 0.5, "num_timesteps": 100, "power": 2.0},
        {"type": "exponential", "from": 1.0, "to": 0.5, "start_timestep": 10, "num_timesteps": 50, "half_life": 10},
    ],
)
def test_decays_have_the_same_values_as_schedules_on_the_host_and_in_a_model(spec: Any) -> None:
    decay = schedule = make_decay("x", spec)
    for t in (0, 10, 20, 40, 59, 60, 99, 100, 1000):
        assert schedule(t) == pytest.approx(decay(t), rel=1e-12)
        inside = schedule(tf.constant(t, tf.int64), ops=keras.ops)
        assert float(inside) == pytest.approx(decay(t), rel=1e-6)
    low, high = schedule.bounds
    assert low <= decay(1000) <= decay(0) <= high
