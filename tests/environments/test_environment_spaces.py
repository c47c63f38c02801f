import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple

from axonrl.core.protocols import ArraySpec
from axonrl.environments import spaces
from axonrl.environments.actions import actions_for
from axonrl.errors import ArgumentError
from axonrl.tests.raising import raised

BOOLEANS: Any = Box(0, 1, (10, 10, 4), bool)
CARTPOLE_HIGH = np.array([4.8, np.inf, 0.41887903, np.inf], np.float32)


@pytest.mark.parametrize(
    ("space", "shape", "dtype"),
    [
        (Box(-CARTPOLE_HIGH, CARTPOLE_HIGH), (4,), np.float32),
        (Box(0, 255, (84, 84, 4), np.uint8), (84, 84, 4), np.uint8),
        (BOOLEANS, (10, 10, 4), np.bool_),
        (Discrete(3, start=-1), (), np.int32),
        (MultiDiscrete(np.array([[2, 3], [4, 5]])), (2, 2), np.int32),
    ],
)
def test_one_array(space: Any, shape: Any, dtype: Any) -> None:
    assert spaces.observation_spec(space) == ArraySpec(shape, dtype)


def test_dict_and_tuple_become_flat_dictionaries() -> None:
    space = Dict(
        {
            "image": Box(0, 255, (8, 8, 1), np.uint8),
            "arm": Dict({"angle": Box(-1, 1, (2,)), "grip": MultiBinary(1)}),
            "pair": Tuple([Discrete(3), Box(-1, 1, (1,), np.float64)]),
        }
    )
    assert spaces.observation_spec(space) == {
        "arm/angle": ArraySpec((2,), np.float32),
        "arm/grip": ArraySpec((1,), np.int8),
        "image": ArraySpec((8, 8, 1), np.uint8),
        "pair/0": ArraySpec((), np.int32),
        "pair/1": ArraySpec((1,), np.float32),
    }
    assert spaces.observation_spec(Tuple([Discrete(2), Discrete(3)])) == dict.fromkeys("01", ArraySpec((), np.int32))


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Dict({"a": Box(-1, 1, (1,)), "b": Text(3)}), r"Text\(.* is not supported"),
        (Box(0, 2**31, (2,), np.int64), r"Box.*from 0 to 2147483648, which do not fit int32"),
        (Discrete(2**31 + 1), r"Discrete.*from 0 to 2147483648"),
        (MultiDiscrete([2, 2**31], start=[0, 1]), r"MultiDiscrete.*from 0 to 2147483648"),
        (Dict({"a/b": Discrete(2), "a": Dict({"b": Discrete(2)})}), "two entries that are both called 'a/b'"),
        (Dict({"a": Dict({})}), "an empty Dict at 'a'"),
        (Tuple([]), "an empty Tuple$"),
    ],
)
def test_unsupported_observation_spaces_are_named(space: Any, message: Any) -> None:
    caught = raised(ArgumentError, spaces.observation_spec, space, match=message)
    assert caught.argument in ("observation_space", "space")


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (Box(0, 9, (2,), np.int32), "is not supported; supported are float Box, Discrete, Multi"),
        (Dict({"a/b": Discrete(2), "a": Dict({"b": Discrete(2)})}), "action space .* has two entries that are both"),
        (Box(-1, 1, (0,)), r"the action space Box\(.*\) has no components$"),
        (Tuple([Discrete(2), Box(-1, 1, (2, 0))]), r"the action space Tuple\(.*\) has no components at '1'$"),
    ],
)
def test_unsupported_action_spaces_are_named(space: Any, message: str) -> None:
    caught = raised(ArgumentError, spaces.action_spec, space, match=message)
    assert str(space) in str(caught)
    assert (caught.argument, caught.value) == ("action_space", space)


EVERY_KIND: list[Any] = [
    Box(np.array([-0.1, -np.inf]), np.array([1 / 3, np.inf]), dtype=np.float64),
    Box(np.float16(0.1), np.inf, (2, 1), np.float16),
    Box(0, 255, (84, 84, 4), np.uint8),
    BOOLEANS,
    Box(-np.inf, 2**63 - 2, (2,), np.int64),
    Box(np.array([-np.inf, 3.0]), np.array([np.inf, 9.0]), dtype=np.int32),
    Box(0, 2**64 - 1, (), np.uint64),
    Discrete(4, start=-7, dtype=np.int16),
    MultiDiscrete([2, 3], dtype=np.int32, start=[-1, 5]),
    MultiBinary([2, 3]),
]


def test_json_round_trip_is_exact() -> None:
    space: Any = Dict([("z", Discrete(2)), ("a", Tuple(EVERY_KIND)), ("b", Dict({}))])
    text = json.dumps(spaces.to_json(space), allow_nan=False, sort_keys=True)
    assert_same(spaces.from_json(json.loads(text)), space)


def assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    assert (found, found.dtype) == (expected, expected.dtype)
    if isinstance(expected, Box):  # Box compares with a tolerance
        for name in ("low", "high", "bounded_below", "bounded_above"):
            given, wanted = getattr(found, name), getattr(expected, name)
            assert given.dtype == wanted.dtype
            np.testing.assert_array_equal(given, wanted)
    elif isinstance(expected, Dict):
        assert list(found.spaces) == list(expected.spaces)
        for key in expected.spaces:
            assert_same(found[key], expected[key])
    elif isinstance(expected, Tuple):
        for one, other in zip(found.spaces, expected.spaces, strict=True):
            assert_same(one, other)


def test_json_is_small_for_images() -> None:
    assert spaces.to_json(Box(0, 255, (84, 84, 4), np.uint8)) == {
        "type": "Box",
        "dtype": "uint8",
        "shape": [84, 84, 4],
        "low": 0,
        "high": 255,
        "bounded_below": True,
        "bounded_above": True,
    }


def test_json_errors_say_what_is_wrong() -> None:
    wrong: list[tuple[Any, Any, str, str]] = [
        (spaces.to_json, Text(3), "space", r"the space Text\(.* is not supported"),
        (spaces.from_json, {"type": "Text"}, "type", r"type must be one of Box, Discrete, .*; got 'Text'"),
        (spaces.from_json, {"type": "Discrete", "n": 3}, "start", "space: start is missing"),
    ]
    for convert, given, argument, message in wrong:
        assert raised(ArgumentError, convert, given, match=message).argument == argument


def test_composite_actions_are_a_flat_dictionary() -> None:
    space = Dict({"arm": Tuple([Box(-1, 1, (2,), np.float64), MultiBinary(3)]), "gear": Discrete(3, start=5)})
    expected = {
        "arm/0": ArraySpec((2,), np.float32),
        "arm/1": ArraySpec((3,), np.int8),
        "gear": ArraySpec((), np.int32),
    }
    assert spaces.action_spec(space) == expected
    actions = actions_for(space, 2)
    given = {
        "arm/0": np.array([[0.5, 3], [-3, 0]], np.float32),
        "arm/1": np.array([[1, 0, 1], [0, 0, 1]]),
        "gear": np.array([5, 7]),
    }
    first, second = actions.each(given)
    assert space.contains(first)
    assert space.contains(second)
    assert (first["arm"][0].tolist(), first["arm"][1].tolist(), first["gear"]) == ([0.5, 1], [1, 0, 1], 5)
    batch = actions.batch(given)
    assert batch["arm"][0].tolist() == [[0.5, 1], [-1, 0]]
    assert (batch["arm"][1].dtype, batch["gear"].tolist()) == (np.int8, [5, 7])
    one = actions_for(space, 1).single({name: value[1:] for name, value in given.items()})
    assert (one["arm"][0].tolist(), one["gear"]) == ([-1, 0], 7)
    for wrong in ({"arm/0": given["arm/0"]}, given["gear"]):
        with pytest.raises(ArgumentError, match="must be a mapping of 'arm/0', 'arm/1', 'gear' to arrays, got"):
            actions.batch(wrong)
    with pytest.raises(ArgumentError, match="the action 8 is not in Discrete"):
        actions.each({**given, "gear": np.array([5, 8])})
