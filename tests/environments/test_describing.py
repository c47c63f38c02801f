from fractions import Fraction
from typing import Any, cast

import gymnasium
import numpy as np
import pytest

from axonrl.environments import make
from axonrl.environments.description import arguments_of as described
from axonrl.errors import ArgumentError
from axonrl.tests.environments.untyped import registered
from axonrl.tests.estimators.fakes import Counting


class Sized(gymnasium.Env[Any, Any]):
    """One attribute is named as an argument; what another argument was cannot be told."""

    def __init__(self, size: int, speed: float = 1.0, render_mode: str | None = None) -> None:
        self.size = size
        self.observation_space = gymnasium.spaces.Box(np.float32(0), np.float32(speed), (size,))
        self.action_space = gymnasium.spaces.Discrete(2)


class Plain(Sized):
    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(2)


def test_environments_are_described() -> None:
    def plain(env_id: str, **kwargs: Any) -> dict[str, Any]:
        return {"id": env_id, "kwargs": kwargs, "wrappers": []}

    assert described("CartPole-v1") == plain("CartPole-v1")
    assert described(gymnasium.make("CartPole-v1", max_episode_steps=50)) == plain("CartPole-v1", max_episode_steps=50)
    assert described(make("Pendulum-v1", 3, g=5.0)) == plain("Pendulum-v1", g=5.0)
    assert described(gymnasium.make_vec("CartPole-v1", num_envs=2)) == plain("CartPole-v1")
    assert described(gymnasium.make("CartPole-v1", render_mode="rgb_array")) == plain("CartPole-v1")
    limit = {"kind": "time_limit", "max_episode_steps": 20}
    for copies in (1, 2):
        found = described(make("CartPole-v1", copies, wrappers=[limit, "normalize_observation"]))
        assert found == {**plain("CartPole-v1"), "wrappers": [limit, {"kind": "normalize_observation"}]}
    for unlimited in (gymnasium.make("CartPole-v1", max_episode_steps=-1), gymnasium.make("CartPole-v1").unwrapped):
        found = described(unlimited)
        assert found == plain("CartPole-v1", max_episode_steps=-1)
        assert cast(Any, make("CartPole-v1", max_episode_steps=-1).spec).max_episode_steps is None
    copies_of = gymnasium.vector.SyncVectorEnv
    assert described(copies_of([lambda: make("Pendulum-v1", g=5.0)] * 2)) == plain("Pendulum-v1", g=5.0)
    assert described(copies_of([lambda: make("Pendulum-v1", g=5.0), lambda: make("Pendulum-v1")])) is None
    assert described(make("MinAtar/Breakout-v1")) == plain("MinAtar/Breakout-v1")
    assert described(make("axonrl/BitFlip-v0", bits=3)) == plain("axonrl/BitFlip-v0", bits=3)
    with registered("Counting-v0", Counting):
        found = described(gymnasium.make("Counting-v0", disable_env_checker=True))
    assert found == plain("axonrl.tests.estimators.fakes:Counting-v0")


def test_a_class_of_the_users_is_told_by_its_name_and_made_by_it_where_nothing_is_missing() -> None:
    plain = {"id": f"{__name__}:Plain", "kwargs": {}, "wrappers": []}
    assert described(Plain()) == described(gymnasium.vector.SyncVectorEnv([Plain, Plain])) == plain
    sized = {"id": f"{__name__}:Sized", "kwargs": {}, "wrappers": [], "unrecorded": {"size": 3, "speed": None}}
    assert described(Sized(3)) == sized
    assert described(Sized(4)) != sized
    assert isinstance(make(f"{__name__}:Plain"), Plain)
    found = cast(Any, make(f"{__name__}:Sized", 2, size=5))
    assert [type(one.unwrapped) for one in found.envs] == [Sized, Sized]
    limit = [{"kind": "time_limit", "max_episode_steps": 3}]
    for made, wrappers in ((found, []), (make(f"{__name__}:Sized", 1, wrappers=limit, size=5), limit)):
        assert described(made) == {"id": f"{__name__}:Sized", "kwargs": {"size": 5}, "wrappers": wrappers}
    fraction = cast(Any, make(f"{__name__}:Sized", size=2, speed=Fraction(1)))  # JSON has none
    assert described(fraction) == {**plain, "id": f"{__name__}:Sized", "unrecorded": {"size": 2, "speed": None}}
    with pytest.raises(ArgumentError, match=r"unknown environment '.*:Absent'"):
        make(f"{__name__}:Absent")


def test_wrappers_of_the_users_are_told() -> None:
    wrapped = gymnasium.wrappers.ClipReward(gymnasium.make("Pendulum-v1"), -1.0, 1.0)
    kind = "gymnasium.wrappers.transform_reward:ClipReward"
    assert described(wrapped) == {
        **{"id": "Pendulum-v1", "kwargs": {}, "wrappers": []},
        "unrecorded": {"wrappers": [{"kind": kind, "min_reward": -1.0, "max_reward": 1.0}]},
    }
    monitored = gymnasium.wrappers.RecordEpisodeStatistics(Counting())
    assert described(monitored)["unrecorded"]["wrappers"] == [  # type: ignore[index]
        {"kind": "gymnasium.wrappers.common:RecordEpisodeStatistics"}
    ]
