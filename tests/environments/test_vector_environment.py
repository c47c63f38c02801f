"""Vector environments in Gymnasium's three autoreset modes, with episodes worked out by hand."""

import contextlib
import functools
import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import NormalizeReward, TimeLimit
from gymnasium.wrappers.vector import NormalizeObservation

from axonrl.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from axonrl.tests.environments.untyped import make, open_environment, opened
from axonrl.tests.raising import raised

GO = np.zeros(2, np.int32)


class Short(gymnasium.Env[Any, Any]):
    """Observes [episode's seed (or 1000), timestep]; terminates after ``length`` timesteps; the reward is the time."""

    observation_space: Any = Box(-np.inf, np.inf, (2,))
    action_space: Any = Discrete(2)

    def __init__(self, length: Any) -> None:
        self.length = length

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.seed, self.t = 1000 if seed is None else seed, 0
        return np.array([self.seed, 0], np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.array([self.seed, self.t], np.float32), float(self.t), self.t == self.length, False, {}


class DictShort(Short):
    observation_space = Dict({"seed": Discrete(2000), "t": Box(0, 9, (1,), np.uint8)})

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        _, *rest = super().step(action)
        return self._seen(), *rest

    def _seen(self) -> Any:
        return {"seed": self.seed, "t": np.array([self.t], np.uint8)}


class SelfResetting(SyncVectorEnv):
    """Anything but a SyncVectorEnv itself is stepped as a whole."""


def vector(mode: Any, kind: Any = Short, lengths: Any = (2, 3), sync: Any = SelfResetting) -> Any:
    return sync([functools.partial(kind, n) for n in lengths], autoreset_mode=mode)


@pytest.mark.parametrize("sync", [SyncVectorEnv, SelfResetting], ids=["parts", "whole"])
def test_disabled_is_reset_by_mask_with_seeds(sync: Any) -> None:
    batched = open_environment(vector(AutoresetMode.DISABLED, sync=sync))
    assert batched.not_exact is None
    assert batched.reset(None, [10, 20]).tolist() == [[10, 0], [20, 0]]
    assert batched.step(GO).observation.tolist() == [[10, 1], [20, 1]]
    step = batched.step(GO)
    assert step.observation.tolist() == [[10, 2], [20, 2]]
    assert step.terminated.tolist() == [True, False]
    assert step.acted is None
    assert batched.reset(step.terminated, [11, 21]).tolist() == [[11, 0], [20, 2]]
    step = batched.step(GO)
    assert (step.observation.tolist(), step.reward.tolist()) == ([[11, 1], [20, 3]], [1.0, 3.0])
    assert step.terminated.tolist() == [False, True]
    assert batched.reset(step.terminated, [12, 22]).tolist() == [[11, 1], [22, 0]]
    assert batched.reset(np.array([True, False]), [13, 23]).tolist() == [[13, 0], [22, 0]]  # in mid-episode
    assert batched.reset(None, [14, 24]).tolist() == [[14, 0], [24, 0]]


def test_the_parts_of_a_sync_vector_env_do_not_reset_themselves() -> None:
    batched = open_environment(vector(AutoresetMode.SAME_STEP, sync=SyncVectorEnv))
    assert batched.not_exact is None
    batched.reset(None, [10, 20])
    batched.step(GO)
    step = batched.step(GO)
    assert (step.observation.tolist(), step.terminated.tolist()) == ([[10, 2], [20, 2]], [True, False])
    assert batched.reset(step.terminated, [11, 21]).tolist() == [[11, 0], [20, 2]]
    step = batched.step(GO)
    assert (step.observation.tolist(), step.acted) == ([[11, 1], [20, 3]], None)


def test_same_step_gives_the_final_observation_and_then_the_one_it_has() -> None:
    batched = open_environment(vector(AutoresetMode.SAME_STEP))
    assert batched.not_exact == "it resets itself (autoreset_mode SAME_STEP); autoreset_mode DISABLED would be exact"
    assert batched.reset(None, [10, 20]).tolist() == [[10, 0], [20, 0]]
    batched.step(GO)
    step = batched.step(GO)
    assert step.observation.tolist() == [[10, 2], [20, 2]]
    assert step.terminated.tolist() == [True, False]
    assert step.acted is None
    assert batched.reset(step.terminated, [11, 21]).tolist() == [[1000, 0], [20, 2]]
    step = batched.step(GO)
    assert step.observation.tolist() == [[1000, 1], [20, 3]]
    assert step.terminated.tolist() == [False, True]
    assert batched.reset(step.terminated, [12, 22]).tolist() == [[1000, 1], [1000, 0]]
    assert batched.step(GO).observation.tolist() == [[1000, 2], [1000, 1]]
    assert batched.reset(None, [13, 23]).tolist() == [[13, 0], [23, 0]]


def test_next_step_says_which_rows_did_not_act() -> None:
    batched = open_environment(vector(AutoresetMode.NEXT_STEP))
    assert batched.not_exact == "it resets itself (autoreset_mode NEXT_STEP); autoreset_mode DISABLED would be exact"
    assert batched.reset(None, [10, 20]).tolist() == [[10, 0], [20, 0]]
    assert batched.step(GO).acted is None
    step = batched.step(GO)
    assert step.observation.tolist() == [[10, 2], [20, 2]]
    assert (step.terminated.tolist(), step.acted) == ([True, False], None)
    assert batched.reset(step.terminated, [11, 21]).tolist() == [[10, 2], [20, 2]]
    step = batched.step(GO)
    assert (step.observation.tolist(), step.acted.tolist()) == ([[1000, 0], [20, 3]], [False, True])
    assert (step.reward.tolist(), step.terminated.tolist()) == ([0.0, 3.0], [False, True])
    step = batched.step(GO)
    assert step.observation.tolist() == [[1000, 1], [1000, 0]]
    assert step.acted.tolist() == [True, False]
    assert batched.step(GO).acted is None
    assert batched.reset(None, [12, 22]).tolist() == [[12, 0], [22, 0]]
    assert batched.step(GO).acted is None  # resetting all forgets which had ended


def test_one_that_resets_itself_cannot_be_reset_in_mid_episode() -> None:
    batched = opened(vector(AutoresetMode.NEXT_STEP), [10, 20])
    batched.step(GO)
    message = r"Short resets itself: environments \[1\] cannot be reset in mid-episode"
    caught = raised(ArgumentError, batched.reset, np.array([False, True]), [11, 21], match=message)
    assert caught.argument == "mask"


def test_dict_observations() -> None:
    batched = open_environment(vector(AutoresetMode.SAME_STEP, DictShort, (1, 3)))
    found = batched.reset(None, [10, 20])
    assert (found["seed"].tolist(), found["seed"].dtype) == ([10, 20], np.int32)
    assert (found["t"].tolist(), found["t"].dtype) == ([[0], [0]], np.uint8)
    step = batched.step(GO)
    assert step.observation["seed"].tolist() == [10, 20]
    assert (step.observation["t"].tolist(), step.terminated.tolist()) == ([[1], [1]], [True, False])
    found = batched.reset(step.terminated, [11, 21])
    assert found["seed"].tolist() == [1000, 20]
    assert step.observation["t"].tolist() == [[1], [1]]


def test_async_equals_sync() -> None:
    functions = [lambda: gymnasium.make("CartPole-v1", max_episode_steps=5)] * 2
    with contextlib.closing(AsyncVectorEnv(functions, autoreset_mode=AutoresetMode.DISABLED)) as asynchronous:
        pair = open_environment(asynchronous), open_environment(make("CartPole-v1", 2, max_episode_steps=5))
        assert pair[0].not_exact is None
        np.testing.assert_array_equal(*(batched.reset(None, [1, 2]) for batched in pair))
        for batched in pair:
            for _ in range(2):
                batched.step(np.array([0, 1], np.int32))
            batched.reset(np.array([True, False]), [3, 4])
        for t in range(5):
            steps = [batched.step(np.array([1, 0], np.int32)) for batched in pair]
            for one, other in zip(steps[0][:4], steps[1][:4], strict=True):
                np.testing.assert_array_equal(one, other)
            assert steps[0].truncated.tolist() == [t == 4, t == 2]
            if steps[0].truncated.any():
                resets = [batched.reset(steps[0].truncated, [5 + t, 6 + t]) for batched in pair]
                np.testing.assert_array_equal(*resets)


@pytest.mark.parametrize(
    ("function", "refused"),
    [
        (lambda: TimeLimit(NormalizeReward(gymnasium.make("CartPole-v1")), 9), True),
        (lambda: make("CartPole-v1", wrappers=[{"kind": "time_limit", "max_episode_steps": 9}]), False),
    ],
)
def test_statistics_in_other_processes_are_refused(function: Any, refused: bool) -> None:
    """Nobody could save them, nor normalise as they do."""
    raising = pytest.raises(ArgumentError) if refused else contextlib.nullcontext()
    with contextlib.closing(AsyncVectorEnv([function] * 2)) as asynchronous, raising as caught:
        open_environment(asynchronous)
    assert caught is None or caught.value.argument == "env"


def test_a_vector_environment_with_one_generator_takes_one_seed() -> None:
    env = gymnasium.make_vec("CartPole-v1", num_envs=2)
    batched = open_environment(env)
    assert type(env).__name__ == "CartPoleVectorEnv"
    advice = "axonrl.environments.make('CartPole-v1', num_envs=2) would be exact"
    assert batched.name == "CartPole-v1"
    assert batched.not_exact == f"it resets itself (autoreset_mode NEXT_STEP); {advice}"
    normalized = open_environment(NormalizeObservation(env))  # Gymnasium's wrapper takes no other mode
    advice = "axonrl.environments.make('CartPole-v1', num_envs=2, wrappers=['normalize_observation']) would be exact"
    assert normalized.not_exact == f"it resets itself (autoreset_mode NEXT_STEP); {advice}"
    expected, _ = gymnasium.make_vec("CartPole-v1", num_envs=2).reset(seed=7)
    np.testing.assert_array_equal(batched.reset(None, [7, 8]), expected)


class Whole(VectorEnv[Any, Any, Any]):
    """Returns ``result`` from every step, and reuses its buffer."""

    num_envs = 2
    single_observation_space, single_action_space = Box(-9, 9, (1,)), Box(-1, 1, (1,))

    def __init__(self, result: Any = None, **metadata: Any) -> None:
        self.metadata = metadata
        self.result, self.buffer = result, np.zeros((2, 1), np.float32)
        self.actions: list[Any] = []

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.buffer[:] = 0
        return self.buffer, {}

    def step(self, actions: Any) -> Any:
        self.actions.append(actions)
        self.buffer += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result or (self.buffer, np.zeros(2), np.zeros(2, bool), np.zeros(2, bool), {})


def test_a_reused_buffer_and_clipped_actions() -> None:
    env = Whole()
    batched = open_environment(env)
    assert batched.name == "Whole"
    assert batched.not_exact == "it resets itself (autoreset_mode NEXT_STEP); autoreset_mode DISABLED would be exact"
    seen = [batched.reset(None, [0, 1])] + [
        batched.step(np.array([[2], [-2]], np.float32)).observation for _ in range(2)
    ]
    assert [one.tolist() for one in seen] == [[[0], [0]], [[1], [1]], [[2], [2]]]
    assert env.actions[0].tolist() == [[1.0], [-1.0]]


NO, ZEROS, SEEN = np.zeros(2, bool), np.zeros(2), np.zeros((2, 1))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ((SEEN, ZEROS, NO, NO), r"expected \(observations, rewards, terminated, truncated, infos\)"),
        ((np.zeros((3, 1)), ZEROS, NO, NO, {}), r"an observation of shape \(3, 1\).*for numbers of shape \(2, 1\)"),
        ((SEEN, np.zeros((2, 1)), NO, NO, {}), r"rewards of shape \(2, 1\) and dtype float64, expected float64 \[2\]"),
        ((SEEN, [1, None], NO, NO, {}), r"rewards of shape \(2,\) and dtype object, .*: \[1, None\]"),
        ((SEEN, [[1], [1, 2]], NO, NO, {}), "rewards that are not an array: "),
        ((SEEN, ZEROS, ZEROS, NO, {}), r"terminated of shape \(2,\) and dtype float64, expected bool \[2\]"),
    ],
)
def test_steps_of_the_wrong_form(result: Any, message: Any) -> None:
    batched = opened(Whole(result), [0, 1])
    with pytest.raises(BrokenEnvironmentError, match=rf"Whole\.step returned .*{message}"):
        batched.step(np.zeros((2, 1), np.float32))


def test_numbers_that_are_not_finite_name_their_row() -> None:
    action = np.zeros((2, 1), np.float32)
    batched = opened(Whole((np.array([[0.0], [np.nan]]), ZEROS, NO, NO, {})), [0, 1])
    message = "an observation that is NaN or infinite in environment 1"
    assert raised(NonFiniteError, batched.step, action, match=message).environment == 1
    for row, reward in enumerate((-np.inf, 1e300)):
        rewards = np.zeros(2)
        rewards[row] = reward
        batched = opened(Whole((SEEN, rewards, NO, NO, {})), [0, 1])
        message = re.escape(f"the reward {reward} in environment {row}")
        assert raised(NonFiniteError, batched.step, action, match=message).environment == row


def test_a_vector_environments_exception_is_the_cause() -> None:
    batched = opened(Whole(RuntimeError("tipped over")), [0, 1])
    with pytest.raises(BrokenEnvironmentError, match=r"Whole\.step raised RuntimeError: tipped over") as caught:
        batched.step(np.zeros((2, 1), np.float32))
    assert (caught.value.environment, type(caught.value.__cause__)) == (None, RuntimeError)


@pytest.mark.parametrize("infos", [{}, {"final_obs": np.array([None, None])}])
def test_same_step_without_a_final_observation(infos: Any) -> None:
    ended = np.array([False, True])
    batched = opened(Whole((SEEN, ZEROS, ended, NO, infos), autoreset_mode=AutoresetMode.SAME_STEP), [0, 1])
    with pytest.raises(BrokenEnvironmentError, match=r"Whole\.step returned .*infos\['final_obs'\]") as caught:
        batched.step(np.zeros((2, 1), np.float32))
    assert caught.value.environment == 1


def test_an_unknown_autoreset_mode() -> None:
    with pytest.raises(ArgumentError, match=r"Whole: metadata.*must be an AutoresetMode, got 'never'") as caught:
        open_environment(Whole(autoreset_mode="never"))
    assert caught.value.argument == "env"
