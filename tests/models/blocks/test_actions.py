"""Kinds of action spaces: outputs, greedy actions and the environment's units, worked out by hand."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import explorations
from axonrl.errors import ArgumentError
from axonrl.models.blocks.actions import Discrete, actions_of
from axonrl.models.blocks.box_actions import SquashedBox
from axonrl.tests.raising import raised

TWO_AXES = spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]), start=np.array([[1, -2], [0, 5]]))

# (space, outputs, behaviour policy, actions inside, actions of the environment)
KINDS: list[tuple[Any, int, Any, Any, Any]] = [
    (spaces.Discrete(3, start=-1), 3, explorations.Categorical, [2, 0], [1, -1]),
    (
        spaces.MultiDiscrete([2, 3], start=[5, -1]),
        5,
        explorations.MultiCategorical,
        [[1, 2], [0, 0]],
        [[6, 1], [5, -1]],
    ),
    (TWO_AXES, 11, explorations.MultiCategorical, [[1, 2, 3, 0]], [[[2, 0], [3, 5]]]),
    (spaces.MultiBinary((2, 1)), 2, explorations.Bernoulli, [[1, 0]], [[[1], [0]]]),
    (spaces.Box(-1, 1, (2,)), 2, explorations.Gaussian, [[0.5, 3.0]], [[0.5, 3.0]]),
    (spaces.Box(-1, 1, (2, 2), np.float64), 4, explorations.Gaussian, [[1.0, 2, 3, 4]], [[[1.0, 2], [3, 4]]]),
]


@pytest.mark.parametrize(("space", "outputs", "exploration", "inside", "outside"), KINDS)
def test_units(space: Any, outputs: int, exploration: Any, inside: Any, outside: Any) -> None:
    actions: Any = actions_of(space, "PPO")
    assert actions.num_outputs == outputs
    assert isinstance(actions.exploration(), exploration)
    if hasattr(actions, "to_environment"):
        assert actions.to_environment(tf.constant(inside)).numpy().tolist() == outside
    assert actions.from_environment(tf.constant(outside)).numpy().tolist() == inside


UNBOUNDED, BYTES = spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(0, 255, (2,), np.uint8)


@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (
            actions_of,
            [BYTES, spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([BYTES])}), None],
            "the action space of X must be Discrete, MultiDiscrete, MultiBinary, a Box of floats, or a Dict or Tuple of"
            " these, got ",
        ),
        (Discrete, [UNBOUNDED, spaces.MultiDiscrete([2]), None], "X needs a Discrete action space, got "),
        (
            SquashedBox,
            [UNBOUNDED, BYTES, spaces.Discrete(3), None],
            "X needs a bounded Box of floats as action space, got ",
        ),
    ],
)
def test_other_spaces_are_refused(make: Any, wrong: list[Any], message: str) -> None:
    for space in wrong:
        error = raised(ArgumentError, make, space, "X")
        assert (error.argument, error.value) == ("action_space", space)
        assert str(error).startswith(f"{message}{space!r}")
