"""Branches: a MultiDiscrete space of two choices and three, from 0 and from 10, and a Discrete one."""

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from axonrl.core.protocols import NO_LEGAL_ACTION
from axonrl.models.blocks.branches import Branches

TWO: Any = Branches(spaces.MultiDiscrete([2, 3], start=[0, 10]), "Test")
ONE: Any = Branches(spaces.Discrete(3, start=5), "Test")
SQUARE = Branches(spaces.MultiDiscrete(np.full((2, 2), 2)), "Test")
VALUES = np.array([[1, 2, 3, 5, 4], [2, 1, 9, 8, 7]], np.float32)
MASK = np.array([[1, 1, 1, 0, 1], [0, 1, 0, 0, 0]], bool)


def test_rows_are_branches_filled_up() -> None:
    rows = TWO.rows(tf.constant(VALUES))
    assert rows.numpy().tolist() == [[1, 2, 0], [3, 5, 4], [2, 1, 0], [9, 8, 7]]
    several = TWO.rows(tf.constant(np.stack([VALUES, -VALUES], axis=-1)))  # two numbers of each choice
    assert several.shape == (4, 3, 2)
    np.testing.assert_array_equal(several[..., 1], -rows)
    assert ONE.rows(VALUES) is VALUES
    assert SQUARE.rows(tf.constant([[1, 2, 3, 4, 5, 6, 7, 8]])).numpy().tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_greedy_actions_are_in_the_environments_units() -> None:
    assert TWO.greedy(tf.constant(VALUES), None).numpy().tolist() == [[1, 11], [0, 10]]
    # Negative values are below what is filled up, which is no choice.
    assert TWO.greedy(tf.constant(-VALUES), None).numpy().tolist() == [[0, 10], [1, 12]]
    legal = TWO.greedy(tf.constant(VALUES), tf.constant(MASK))
    assert legal.numpy().tolist() == [[1, 12], [1, NO_LEGAL_ACTION]]
    assert legal.dtype == tf.int32
    assert ONE.greedy(tf.constant([[1.0, 3.0, 2.0]]), None).numpy().tolist() == [6]
    assert SQUARE.greedy(tf.constant([[0.0, 1, 1, 0, 0, 1, 1, 0]]), None).numpy().tolist() == [[[1, 0], [1, 0]]]


def test_a_single_branch_keeps_the_shape_of_its_actions() -> None:
    single: Any = Branches(spaces.MultiDiscrete([3], start=[5]), "Test")
    mask = tf.constant([[True, False, True], [False, False, False]])
    values = tf.constant([[1.0, 3.0, 2.0], [1.0, 3.0, 2.0]])
    assert single.greedy(values, None).numpy().tolist() == [[6], [6]]
    assert single.greedy(values, mask).numpy().tolist() == [[7], [NO_LEGAL_ACTION]]
    assert single.from_environment(tf.constant([[5], [7]])).numpy().tolist() == [0, 2]
