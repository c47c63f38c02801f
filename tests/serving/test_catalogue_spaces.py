from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from axonrl.environments import spaces
from axonrl.errors import ArgumentError
from axonrl.serving.catalogue import Recipe, recipe
from axonrl.tests.raising import raised

UNBOUNDED = {"type": "Box", "dtype": "float32", "shape": [2], "low": "-inf", "high": "inf"}


def made(model: str, **config: Any) -> Recipe:
    return recipe(model, {"seed": 0, **config})


def test_sizes() -> None:
    found = made("dqn", state_size=4, action_size=2)
    assert spaces.from_json(found.observation) == Box(-np.inf, np.inf, (4,), np.float32)
    assert spaces.from_json(found.action) == Discrete(2)
    assert found.config["discrete"] is True
    assert "action_low" not in found.config
    assert made("dqn", state_size=4, action_size=2, action_low=0.0, action_high=1.0) == found  # a client's defaults
    called = made("dqn", obs_size=4, action_size=2)
    assert (called.config["obs_size"], called.observation) == (4, found.observation)
    assert "state_size" not in called.config


def test_shapes_and_bounds() -> None:
    found = made("ddpg", state_size=(2, 3), action_size=2, action_low=[-1, -2], action_max=3)
    assert spaces.from_json(found.observation) == Box(-np.inf, np.inf, (2, 3), np.float32)
    assert spaces.from_json(found.action) == Box(np.array([-1, -2], np.float32), np.array([3, 3], np.float32))
    assert found.config["state_size"] == [2, 3]
    assert (found.config["action_low"], found.config["action_high"]) == ([-1.0, -2.0], 3.0)


def test_actions_are_in_0_to_1_unless_said_otherwise() -> None:
    assert spaces.from_json(made("ppo", state_size=1, action_size=3).action) == Box(0, 1, (3,), np.float32)
    assert made("ppo", state_size=1, action_size=3, is_discrete=True).action["type"] == "Discrete"


def test_a_described_space() -> None:
    space = Dict({"picture": Box(0, 255, (8, 8), np.uint8), "bits": MultiBinary(3), "choice": Discrete(4, start=1)})
    found = made("dqn", observation_space=spaces.to_json(space), action_size=2)
    assert spaces.from_json(found.observation) == space
    assert found.config["observation_space"] == found.observation
    assert recipe("dqn", found.config) == found
    assert made("dqn", observation_space=nested(7), action_size=2).observation == nested(7)


@pytest.mark.parametrize(
    ("config", "argument"),
    [
        *(({"state_size": size}, "state_size") for size in (None, 0, True, [10**5, 2])),
        ({"state_size": 4, "observation_space": UNBOUNDED}, "observation_space"),
        *(({"action_size": size}, "action_size") for size in (1025, [2, 2])),
        ({"discrete": False}, "discrete"),
        ({"discrete": 1}, "discrete"),
        ({"discrete": True, "is_discrete": True}, "is_discrete"),
        ({"action_low": -1}, "action_low"),
        *(({"model": "ddpg", "action_low": low}, "action_low") for low in (1, [0], [[0, 0]])),
    ],
)
def test_wrong_sizes_and_bounds(config: dict[str, Any], argument: str) -> None:
    given = {"model": "dqn", "state_size": 4, "action_size": 2, **config}
    assert raised(ArgumentError, made, **given).argument == argument


def nested(times: int) -> dict[str, Any]:
    return UNBOUNDED if not times else {"type": "Tuple", "spaces": [nested(times - 1)]}


@pytest.mark.parametrize(
    "space",
    [
        *(5, {"type": ["Box"]}),
        {**UNBOUNDED, "shape": [10**5, 2]},
        {**UNBOUNDED, "dtype": "O"},
        {**UNBOUNDED, "low": "nan"},
        {**UNBOUNDED, "__class__": 1},
        {"type": "Discrete", "n": 10**9, "start": 0, "dtype": "int64"},
        {"type": "Discrete", "n": 3, "start": 2**62, "dtype": "int64"},
        {"type": "MultiBinary", "n": [10**6, 10**6]},
        {"type": "MultiDiscrete", "nvec": [0], "start": [0], "dtype": "int64"},
        {"type": "Dict", "spaces": [["a", UNBOUNDED], ["a", UNBOUNDED]]},
        {"type": "Dict", "spaces": [["a/b", UNBOUNDED], ["a", {"type": "Dict", "spaces": [["b", UNBOUNDED]]}]]},
        {"type": "Tuple", "spaces": []},
        {"type": "Tuple", "spaces": [UNBOUNDED] * 65},
        nested(8),
    ],
    ids=lambda space: str(space)[:60],
)
def test_wrong_described_spaces(space: Any) -> None:
    wrong = raised(ArgumentError, made, "dqn", observation_space=space, action_size=2)
    assert wrong.argument == "observation_space"
