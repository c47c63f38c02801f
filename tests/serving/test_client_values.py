"""Plain values: what is taken, how it is sent, and what is refused by its place."""

import enum
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from axonrl.serving.client import values
from axonrl.serving.client.errors import ArgumentError
from axonrl.tests.raising import raised

NAN, INF = float("nan"), float("inf")


class Tensor:
    """What is no NumPy array, but can become one, as TensorFlow's."""

    def __array__(self) -> Any:
        return np.array([1, 2])


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    ("given", "size", "expected"),
    [
        (np.array([0.5, 1], np.float32), 2, [0.5, 1.0]),
        ((np.float32(0.5), True), 2, [0.5, 1]),
        (Tensor(), 2, [1, 2]),
        ([Fraction(1, 2), Colour.RED], 2, [0.5, 1]),
        (np.float32(0.5), 1, [0.5]),
        (np.zeros((2, 1), np.uint8), (2, 1), [[0], [0]]),
        ([1e308, 1e308], 2, [1e308, 1e308]),  # their sum is infinite, they are not
        ({"a": np.array([1]), "b": 2}, None, {"a": [1], "b": 2}),
    ],
)
def test_states_that_are_taken(given: object, size: Any, expected: object) -> None:
    found = json.loads(values.encode(values.state(given, size)))
    assert found == expected
    assert str(found) == str(expected)  # 1 is not 1.0


@pytest.mark.parametrize(
    ("given", "size", "place"),
    [
        (np.array([NAN, 1]), 2, "state[0]"),
        ([0.5, 10**400], 2, "state[1]"),
        ([0.5, [1]], 2, "state[1]"),
        ([[1, 2], [3, 4, 5]], (2, 2), "state[1]"),
        ({1, 2}, 2, "state"),
        ({"a": [1, NAN]}, None, "state.a[1]"),
    ],
)
def test_states_that_are_refused(given: object, size: Any, place: str) -> None:
    assert raised(ArgumentError, values.state, given, size).argument == place


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    raised(ArgumentError, values.state, endless, None)


@pytest.mark.parametrize(
    ("given", "size", "expected"), [(np.array([0.5, -0.5]), 2, [0.5, -0.5]), ((0.5, 0.25), None, [0.5, 0.25])]
)
def test_actions_are_always_lists(given: object, size: int | None, expected: object) -> None:
    found = values.action(given, size)
    assert (found, str(found)) == (expected, str(expected))


@pytest.mark.parametrize(("given", "size", "place"), [(np.True_, 1, "action"), ([0.5, True], 2, "action[1]")])
def test_actions_that_are_refused(given: object, size: int | None, place: str) -> None:
    assert raised(ArgumentError, values.action, given, size).argument == place


def test_flags() -> None:
    assert [values.flag(given, "done") for given in (np.False_, 1, np.array(0))] == [False, True, False]
    assert raised(ArgumentError, values.flag, 2, "done").argument == "done"


@pytest.mark.parametrize("given", [-0.1, 1.01])
def test_noise_out_of_range(given: object) -> None:
    raised(ArgumentError, values.fraction, given, "noise")


@pytest.mark.parametrize("given", [2.0, True, (2, 0)])
def test_sizes_that_are_none(given: object) -> None:
    assert raised(ArgumentError, values.size, given, "state_size").argument == "state_size"


def test_hyperparameters_keep_their_kind() -> None:
    given = {"a": True, "b": None, "c": "relu", "d": np.float32(0.5), "e": (64, np.int64(64)), "f": {"g": np.True_}}
    expected = {"a": True, "b": None, "c": "relu", "d": 0.5, "e": [64, 64], "f": {"g": True}}
    assert values.setting(given, "config") == expected
    assert raised(ArgumentError, values.setting, {"lr": NAN}, "config").argument == "config.lr"
