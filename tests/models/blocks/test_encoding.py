from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.models.blocks import input_tensors

NUMBERED: Any = {7: spaces.Discrete(2), 8: spaces.Box(-1, 1, (1,))}
"""Keys of a Dict may be integers."""

# (space, observations as they come at the boundary [B, ...], what the network takes)
ENCODED: list[tuple[Any, Any, Any]] = [
    (spaces.Box(-1, 1, (2,), np.float64), np.array([[0.5, -1.0]], np.float64), [[0.5, -1.0]]),
    (spaces.Box(0, 255, (1, 2), np.uint8), np.array([[[0, 255]], [[51, 102]]], np.uint8), [[[0, 1]], [[0.2, 0.4]]]),
    (spaces.Discrete(3, start=-1), np.array([-1, 1], np.int32), [[1, 0, 0], [0, 0, 1]]),
    (spaces.MultiDiscrete([2, 3], start=[4, 7]), np.array([[4, 9]], np.int32), [[1, 0, 0, 0, 1]]),
    (spaces.MultiDiscrete(np.array([[2], [2]])), np.array([[[1], [0]]], np.int32), [[0, 1, 1, 0]]),
    (spaces.MultiBinary(3), np.array([[1, 0, 1]], np.int8), [[1, 0, 1]]),
    (
        spaces.Dict({"z": spaces.Discrete(2), "a": spaces.Box(0, 255, (2, 1), np.uint8), "m": spaces.Box(-1, 1, (1,))}),
        {
            "z": np.array([1, 0], np.int32),
            "m": np.array([[0.5], [-0.5]], np.float32),
            "a": np.array([[[255], [0]], [[51], [51]]], np.uint8),
        },
        [[1, 0, 0.5, 0, 1], [0.2, 0.2, -0.5, 1, 0]],  # a, m, z
    ),
    (
        spaces.Dict(
            {"z": spaces.Dict({"q": spaces.Box(-1, 1, (2,)), "p": spaces.Discrete(2)}), "a": spaces.Discrete(2)}
        ),
        {"z/q": np.array([[0.5, 0.25]], np.float32), "a": np.array([1], np.int32), "z/p": np.array([0], np.int32)},
        [[0, 1, 1, 0, 0.5, 0.25]],  # a, z/p, z/q
    ),
    (
        spaces.Tuple([spaces.Discrete(2), spaces.Dict({"b": spaces.Box(-1, 1, (1,))})]),
        {"0": np.array([1], np.int32), "1/b": np.array([[0.5]], np.float32)},
        [[0, 1, 0.5]],
    ),
    (
        spaces.Dict({"in": spaces.Dict(NUMBERED)}),
        {"in/7": np.array([1], np.int32), "in/8": np.array([[0.5]], np.float32)},
        [[0, 1, 0.5]],
    ),
]


@pytest.mark.parametrize(("space", "observation", "expected"), ENCODED)
def test_observations_become_float_tensors(space: Any, observation: Any, expected: Any) -> None:
    tensors = tf.nest.map_structure(tf.constant, observation)
    encoded = input_tensors.encode(tensors, space)
    assert encoded.dtype == tf.float32
    np.testing.assert_allclose(encoded, expected, rtol=1e-6)
    assert tuple(encoded.shape[1:]) == input_tensors.encoded_shape(space)


def test_the_batch_axis_may_be_free() -> None:
    space, observation, expected = ENCODED[-4]
    specs = tf.nest.map_structure(lambda x: tf.TensorSpec((None, *x.shape[1:]), x.dtype), observation)
    function: Any = tf.function(lambda o: input_tensors.encode(o, space)).get_concrete_function(specs)
    assert function.structured_outputs.shape.as_list() == [None, 5]
    np.testing.assert_allclose(function(tf.nest.map_structure(tf.constant, observation)), expected, rtol=1e-6)


def test_other_spaces_are_refused() -> None:
    space = spaces.Dict({"a": spaces.Text(3)})
    with pytest.raises(
        ValueError, match="needs Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple observations, got"
    ):
        input_tensors.encoded_shape(space)


def test_a_joined_shape_remembers_its_parts() -> None:
    """In the order of the encoding; parts within parts count by themselves."""
    image, vector = spaces.Box(0, 255, (4, 5, 3), np.uint8), spaces.Box(-1, 1, (2,))
    inner = spaces.Dict({"z": image, "a": spaces.Discrete(3)})
    shape = input_tensors.encoded_shape(spaces.Dict({"v": vector, "b": inner}))
    assert shape == (3 + 60 + 2,)
    assert isinstance(shape, input_tensors.JoinedShape)
    assert shape.parts == ((3,), (4, 5, 3), (2,))
    assert not isinstance(input_tensors.encoded_shape(image), input_tensors.JoinedShape)
