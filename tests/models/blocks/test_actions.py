"""Kinds of action spaces: outputs, greedy actions and the environment's units, worked out by hand."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import explorations
from axonrl.errors import ArgumentError
from axonrl.models.blocks.actions import Discrete, SquashedBox, actions_of
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


def test_leaves_of_composite_actions_have_names_and_distributions_of_their_own() -> None:
    arm = spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.MultiBinary(2)])
    actions: Any = actions_of(
        spaces.Dict({"arm": arm, "gear": spaces.Discrete(3, start=5), "k": spaces.Box(0, 1, ())}), "PPO"
    )
    assert (actions.num_outputs, actions.num_scales) == (8, 3)
    assert isinstance(actions.exploration(), explorations.Composite)
    described = actions.described(tf.constant([[1.0, 2, 3, -4, 5, 6, 7, 8]]), tf.constant([0.1, 0.2, 0.3]))
    assert {name: np.round(value, 3).tolist() for name, value in described.items()} == {
        "mean/arm/0": [[1, 2]],
        "log_std/arm/0": [np.array([0.1, 0.2], np.float32).round(3).tolist()],
        "logits/arm/1": [[3, -4]],
        "logits/gear": [[5, 6, 7]],
        "mean/k": [[8]],
        "log_std/k": [np.array([0.3], np.float32).round(3).tolist()],
    }
    assert actions.shaped(described)["mean/k"].shape == (1,)
    likeliest = {name: value.numpy().tolist() for name, value in actions.likeliest(described).items()}
    assert likeliest == {"arm/0": [[1, 2]], "arm/1": [[1, 0]], "gear": [7], "k": [8]}
    inside = actions.from_environment({name: tf.constant(value) for name, value in likeliest.items()})
    assert {name: value.numpy().tolist() for name, value in inside.items()} == {
        "arm/0": [[1, 2]],
        "arm/1": [[1, 0]],
        "gear": [2],
        "k": [[8]],
    }
    assert actions.distribution(described).log_prob(inside).shape == (1,)


def test_greedy_actions_begin_at_the_start_of_the_space() -> None:
    assert Discrete(spaces.Discrete(3, start=5), "DQN").greedy(
        tf.constant([[1.0, 3, 2], [4, 1, 1]])
    ).numpy().tolist() == [6, 5]


def test_squashed_actions_are_scaled_to_the_bounds() -> None:
    actions = SquashedBox(spaces.Box(np.array([[-2], [10]], np.float32), np.array([[2], [30]], np.float32)), "SAC")
    assert actions.num_outputs == 2
    assert isinstance(actions.exploration(), explorations.SquashedGaussian)
    outer = actions.to_environment(tf.constant([[-1.0, 0.5]]))
    assert outer.numpy().tolist() == [[[-2.0], [25.0]]]
    assert actions.from_environment(outer).numpy().tolist() == [[-1.0, 0.5]]
    mean, log_std = actions.gaussian({"mean": tf.constant([[7.0]]), "log_std": tf.constant([[3.0, -30.0, 1.0]])})
    assert (mean.numpy().tolist(), log_std.numpy().tolist()) == ([[7.0]], [[2.0, -20.0, 1.0]])


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
