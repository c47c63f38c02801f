"""One or several ``gymnasium.Env`` behind the batched interface: equality, checks, ownership."""

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from axonrl.errors import ArgumentError, BrokenEnvironmentError, NonFiniteError
from axonrl.tests.environments.untyped import make, open_environment, opened, registered
from axonrl.tests.raising import raised

LEFT = np.zeros(1, np.int32)
TWO = Box(-10.0, 10.0, (2,))


class Fake(gymnasium.Env[Any, Any]):
    """Returns ``first`` from reset and ``then`` from every step; records seeds and actions."""

    def __init__(self, first: Any = (0.0, 0.0), then: Any = None, space: Any = TWO, actions: Any = Discrete(2)) -> None:  # noqa: B008
        self.observation_space, self.action_space = space, actions
        self.first: Any = np.array(first, np.float32) if isinstance(first, tuple) and space is TWO else first
        self.then = then
        self.seeds: list[Any] = []
        self.actions: list[Any] = []
        self.is_closed = False

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.seeds.append(seed)
        return self.first, {}

    def step(self, action: Any) -> Any:
        self.actions.append(action)
        if isinstance(self.then, Exception):
            raise self.then
        return self.then if self.then is not None else (self.first, 1.0, False, False, {})

    def close(self) -> None:
        self.is_closed = True


def stepped(*envs: Any) -> Any:
    if len(envs) == 1:
        return opened(envs[0], [0])
    copies = [itertools.repeat(env).__next__ for env in envs]
    return opened(SyncVectorEnv(copies, autoreset_mode="Disabled"), range(len(envs)))


def test_reset_uses_seeds_inside_the_mask_only() -> None:
    envs = Fake(first=(1.0, 1.0)), Fake(first=(2.0, 2.0))
    batched = stepped(*envs)
    envs[0].then = (np.full(2, 7, np.float32), 0.5, True, False, {})
    envs[1].then = (np.full(2, 8, np.float32), -0.5, False, True, {})
    step = batched.step(np.array([1, 0], np.int32))
    assert step.observation.tolist() == [[7.0, 7.0], [8.0, 8.0]]
    assert (step.reward.tolist(), step.terminated.tolist()) == ([0.5, -0.5], [True, False])
    assert step.truncated.tolist() == [False, True]
    found = batched.reset(np.array([False, True]), np.array([40, 41]))
    assert found.tolist() == [[7.0, 7.0], [2.0, 2.0]]
    assert step.observation.tolist() == [[7.0, 7.0], [8.0, 8.0]]
    assert (envs[0].seeds, envs[1].seeds) == ([0], [1, 41])
    assert type(envs[1].seeds[1]) is int  # Gymnasium refuses NumPy's
    assert batched.reset(np.array([False, False]), [0, 0]).tolist() == found.tolist()
    assert [env.actions for env in envs] == [[1], [0]]
    assert type(envs[0].actions[0]) is np.int64  # as space.sample() has it


def test_an_environment_that_reuses_its_buffer() -> None:
    class Counter(Fake):
        def reset(self, **given: Any) -> Any:
            self.first["n"][:] = 0
            return super().reset(**given)

        def step(self, action: Any) -> Any:
            self.first["n"] += 1
            self.first["on"] ^= 1
            return super().step(action)

    buffer = {"n": np.zeros(2, np.float32), "on": np.zeros(1, np.int8)}
    batched = open_environment(Counter(buffer, space=Dict({"n": TWO, "on": MultiBinary(1)})))
    seen = [batched.reset(None, [0])] + [batched.step(LEFT).observation for _ in range(3)]
    seen.append(batched.reset(np.array([True]), [1]))
    assert [one["n"].tolist() for one in seen] == [[[t, t]] for t in (0.0, 1.0, 2.0, 3.0, 0.0)]
    assert [one["on"].tolist() for one in seen[:4]] == [[[0]], [[1]], [[0]], [[1]]]


def test_dict_and_tuple_observations_are_flat() -> None:
    pair: list[Any] = [Box(0, 9, (1,), np.int64), Box(0.0, 1.0, (), np.float64)]
    space: Any = Dict({"at": Discrete(9, start=1), "pair": Tuple(pair)})
    first = {"at": 9, "pair": (np.array([4]), 0.25)}
    batched = open_environment(Fake(first, space=space))
    found = batched.reset(None, [0])
    assert {key: (value.tolist(), value.dtype.name) for key, value in found.items()} == {
        "at": ([9], "int32"),
        "pair/0": ([[4]], "int32"),
        "pair/1": ([0.25], "float32"),
    }


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (
            TWO,
            np.zeros(3, np.float32),
            r"an observation of shape \(3,\) and dtype float32; Box.* asks for numbers of shape \(2,\)",
        ),
        (TWO, np.array(["a", "b"]), r"of shape \(2,\) and dtype <U1; Box.* asks for numbers"),
        (TWO, None, r"dtype object; Box"),
        (TWO, [[1.0], [2.0, 3.0]], "an observation that is not an array"),
        (Box(0, 255, (1,), np.uint8), np.array([0.5]), "values that uint8 cannot hold"),
        (Discrete(3), 3, r"the observation 3, which is not in Discrete\(3\)"),
        (MultiDiscrete([2, 3]), np.array([1, 3]), r"\[1, 3\], which is not in"),
        (Dict(a=TWO, b=TWO), {"a": np.zeros(2)}, r"an observation of keys \['a'\], where .* the keys \['a', 'b'\]"),
        (Dict(a=TWO), np.zeros(2), "an observation of type ndarray, where the space is a Dict"),
        (
            Dict(a=Tuple([TWO])),
            {"a": (1, 2)},
            r"an observation\['a'\] of 2 items, where the space is a Tuple of 1 item",
        ),
    ],
)
def test_observations_that_the_space_forbids(space: Any, observation: Any, message: Any) -> None:
    with pytest.raises(BrokenEnvironmentError, match=rf"Fake\.reset returned .*{message}") as caught:
        open_environment(Fake(observation, space=space)).reset(None, [0])
    assert caught.value.environment == 0


@pytest.mark.parametrize(
    ("then", "message"),
    [
        ((TWO.low, 0.0, False, {}), r"\(array.*, expected \(observation, reward, terminated, truncated, info\)"),
        ((TWO.low, np.array([1.0]), False, False, {}), r"the reward array\(\[1\.\]\), which is not a number"),
        ((TWO.low, "1", False, False, {}), "the reward '1'"),
        ((TWO.low, 0.0, None, False, {}), "terminated=None and truncated=False"),
        ((TWO.low, 0.0, False, 1, {}), "truncated=1, which are not both booleans"),
    ],
)
def test_steps_that_gymnasium_forbids(then: Any, message: Any) -> None:
    batched = stepped(Fake(then=then))
    caught = raised(BrokenEnvironmentError, batched.step, LEFT, match=rf"Fake\.step returned .*{message}")
    assert caught.environment == 0


@pytest.mark.parametrize("reward", [-1e39, np.float64(1e300), 10**400])
def test_rewards_beyond_float32(reward: Any) -> None:
    batched = stepped(Fake(), Fake(then=(np.zeros(2), reward, False, False, {})))
    with pytest.raises(
        NonFiniteError, match=r"returned the reward -?1.* in environment 1, beyond .* float32"
    ) as caught:
        batched.step(np.zeros(2, np.int32))
    assert caught.value.environment == 1
    largest = float(np.finfo(np.float32).max)
    held = stepped(Fake(then=(np.zeros(2), -largest, False, False, {}))).step(LEFT)
    assert held.reward.astype(np.float32).tolist() == [-largest]


@pytest.mark.parametrize("kind", [np.float16, np.int8, np.longdouble])
def test_rewards_of_other_dtypes(kind: Any) -> None:
    batched = stepped(Fake(then=(np.zeros(2), kind(2.0), False, False, {})))
    assert batched.step(LEFT).reward.tolist() == [2.0]


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_numbers_that_are_not_finite(bad: Any) -> None:
    batched = stepped(Fake(), Fake(then=(np.zeros(2), bad, False, False, {})))
    with pytest.raises(NonFiniteError, match=rf"Fake\.step returned the reward {bad} in environment 1") as caught:
        batched.step(np.zeros(2, np.int32))
    assert caught.value.environment == 1
    batched = stepped(Fake(), Fake(then=(np.array([0, bad], np.float32), 0.0, False, False, {})), Fake())
    with pytest.raises(NonFiniteError, match=r"step returned an observation that is NaN.* in environment 1") as caught:
        batched.step(np.zeros(3, np.int32))
    assert caught.value.environment == 1
    with pytest.raises(NonFiniteError, match=r"Fake\.reset returned"):
        stepped(Fake({"a": np.array([bad, 0.0])}, space=Dict(a=TWO)))
    with pytest.raises(NonFiniteError, match=r"Fake\.reset returned"):  # beyond float32
        stepped(Fake(np.array([1e300, 0.0]), space=Box(-np.inf, np.inf, (2,), np.float64)))


def test_an_environments_exception_is_the_cause() -> None:
    cause = KeyError("wheel")
    batched = stepped(Fake(), Fake(then=cause))
    with pytest.raises(BrokenEnvironmentError, match=r"Fake\.step raised KeyError: 'wheel'") as caught:
        batched.step(np.zeros(2, np.int32))
    assert caught.value.environment == 1
    assert caught.value.__cause__ is cause

    class Old(Fake):
        def reset(self, **_: Any) -> Any:
            raise TypeError("unexpected keyword argument 'seed'")

    class Hasty(Fake):
        def reset(self, **_: Any) -> Any:
            return np.zeros(2)

    with pytest.raises(BrokenEnvironmentError, match=r"Fake\.reset raised TypeError: .*'seed'") as caught:
        stepped(Fake(), Old())
    assert caught.value.environment == 1
    with pytest.raises(BrokenEnvironmentError, match=r"Hasty\.reset returned array\(.*expected \(observation, info\)"):
        stepped(Hasty())


def test_box_actions_are_clipped_and_cast_and_the_caller_keeps_its_own() -> None:
    bounds = Box(np.array([-1.0, -np.inf]), np.array([0.1, np.inf]), dtype=np.float64)
    env = Fake(actions=bounds)
    given = np.array([[5.0, 5.0]], np.float32)
    batched = stepped(env)
    batched.step(given)
    batched.step(np.array([[-np.inf, -5.0]], np.float32))
    assert [action.tolist() for action in env.actions] == [[0.1, 5.0], [-1.0, -5.0]]  # 0.1 exactly: clipped in float64
    assert env.actions[0].dtype == np.float64
    assert bounds.contains(env.actions[0])
    assert given.tolist() == [[5.0, 5.0]]
    env.actions[0][:] = 0
    assert given.tolist() == [[5.0, 5.0]]
    raised(NonFiniteError, batched.step, np.array([[np.nan, 0.0]], np.float32), match="an action for Box")
    raised(NonFiniteError, batched.step, np.array([[0.0, np.inf]], np.float32), match="an action for Box")


def test_other_actions_take_the_dtype_of_their_space() -> None:
    env = Fake(actions=MultiDiscrete([2, 3], start=[0, 1]))
    batched = stepped(env)
    batched.step(np.array([[1, 3]], np.int32))
    assert env.actions[0].tolist() == [1, 3]
    assert env.action_space.contains(env.actions[0])
    with pytest.raises(ValueError, match=r"\[\[0, 0\]\] is not in MultiDiscrete"):
        batched.step(np.array([[0, 0]], np.int32))
    env = Fake(actions=MultiBinary(2))
    batched = stepped(env)
    batched.step(np.array([[1, 0]], np.int8))
    assert env.action_space.contains(env.actions[0])


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (np.array([2], np.int32), r"the action 2 is not in Discrete\(2\), whose actions are 0 \.\. 1"),
        (np.array([-1], np.int32), "the action -1 is not in"),
        (np.array([0.0], np.float32), r"must be an integer array of shape \(1,\), got float32 \(1,\)"),
        (np.array([0, 1], np.int32), r"got int32 \(2,\)"),
    ],
)
def test_wrong_actions_are_the_callers_mistake(actions: Any, message: Any) -> None:
    env = Fake()
    batched = stepped(env)
    assert raised(ArgumentError, batched.step, actions, match=message).argument == "actions"
    assert env.actions == []


def test_wrong_calls_of_reset_and_step() -> None:
    batched = open_environment(SyncVectorEnv([Fake, Fake], autoreset_mode=AutoresetMode.DISABLED))
    raised(ValueError, batched.step, np.zeros(2, np.int32), match="Fake must be reset before the first step")
    wrong: list[tuple[Any, list[int], str, str]] = [
        (np.array([True, False]), [0, 1], "mask", "the first reset of Fake must include all environments"),
        (None, [0], "seeds", "Fake needs 2 seeds, got 1"),
        (np.array([1, 0]), [0, 1], "mask", r"mask must be bool \[2\], got int64 \(2,\)"),
    ]
    for mask, seeds, argument, message in wrong:
        assert raised(ArgumentError, batched.reset, mask, seeds, match=message).argument == argument
    assert batched.reset(np.array([True, True]), [0, 1]).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_only_what_was_made_here_is_closed() -> None:
    env = Fake()
    stepped(env).close()
    assert not env.is_closed
    vector = make("CartPole-v1", 2)
    open_environment(vector).close()
    assert not vector.closed
    with registered("OwnedFake-v0", lambda **_: env):
        open_environment("OwnedFake-v0").close()
    assert env.is_closed
