"""Masks in the maths of models, worked out by hand, and what of observations is a mask."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.core.protocols import NO_LEGAL_ACTION
from axonrl.errors import ArgumentError
from axonrl.models.blocks.actions import Discrete, actions_of
from axonrl.models.blocks.distributions import Categorical
from axonrl.models.blocks.observations import Observations
from axonrl.tests.raising import raised

VALUES = tf.constant([[1.0, 3, 2], [4, 1, 1], [-7, -8, -9]])
MASK = tf.constant([[True, False, True], [False, True, True], [False, False, False]])
BOX, THREE = spaces.Box(-1, 1, (2,)), spaces.Discrete(3, start=5)


def test_probabilities_are_those_of_legal_actions_renormalised() -> None:
    logits = tf.Variable(np.log([[1.0, 96, 3]]), dtype=tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        policy = Categorical(logits, tf.constant([[True, False, True]]))
        log_prob, entropy = policy.log_prob(tf.constant([2])), policy.entropy()
    assert log_prob.numpy() == pytest.approx(np.log(0.75))
    assert entropy.numpy() == pytest.approx(-0.25 * np.log(0.25) - 0.75 * np.log(0.75))
    np.testing.assert_allclose(tape.gradient(log_prob, logits), [[-0.25, 0, 0.25]], rtol=1e-6)
    # dH/dz = -p (log p + H); illegal actions are left alone
    gradient = -0.25 * (np.log(0.25) + entropy.numpy())
    np.testing.assert_allclose(tape.gradient(entropy, logits), [[*gradient, 0, *-gradient]], rtol=1e-5)


def test_nothing_becomes_nan() -> None:
    logit = 3e38
    logits = tf.Variable([[logit, 1.0, 2.0], [logit, 1.0, 2.0], [logit, 1.0, 2.0]])
    mask = tf.constant([[False, True, True], [False, True, False], [False] * 3])
    with tf.GradientTape() as tape:
        policy = Categorical(logits, mask)
        everything = tf.stack([policy.entropy(), policy.log_prob(tf.constant([1, 1, 1]))])
    assert np.isfinite(everything).all()
    assert everything.numpy()[:, 1].tolist() == [0, 0]  # one legal action: certain
    gradient = tape.gradient(everything, logits).numpy()
    assert np.isfinite(gradient).all()
    assert (gradient[~mask.numpy()] == 0).all()


def test_greedy_actions_are_legal_or_marked() -> None:
    assert Discrete(THREE, "DQN").greedy(VALUES, MASK).numpy().tolist() == [7, 6, NO_LEGAL_ACTION]
    actions: Any = actions_of(spaces.MultiDiscrete([2, 3], start=[5, -1]), "PPO")
    mask = tf.constant([[True, False, False, True, True], [False, False, True, False, False]])
    outputs = {"logits": tf.constant([[1.0, 9, 9, 1, 3]] * 2), "action_mask": mask}
    assert actions.likeliest(outputs).numpy().tolist() == [[5, 1], [NO_LEGAL_ACTION, -1]]


BITS = [
    spaces.MultiBinary(3),
    spaces.Box(0, 1, (3,), np.uint8),
    spaces.Box(0, 1, (3,), np.dtype(np.bool_)),  # type: ignore[arg-type] # Gymnasium takes it
]


@pytest.mark.parametrize("space", BITS)
def test_the_mask_is_no_input(space: Any) -> None:
    bits = tf.constant([[1, 0, 1]])
    observations = Observations(spaces.Dict({"legal": space, "x": BOX}), THREE, "legal")
    seen = {"legal": bits, "x": tf.constant([[0.5, -1]])}
    assert observations.shape == (2,)
    assert observations.encode(seen).numpy().tolist() == [[0.5, -1]]
    assert observations.masks(seen)["action_mask"].numpy().tolist() == [[True, False, True]]


def test_one_other_entry_is_seen_as_if_it_were_the_plain_observation() -> None:
    frames = spaces.Box(0, 255, (4, 4, 1), np.uint8)
    space = spaces.Dict({"observation": frames, "action_mask": spaces.MultiBinary(3)})
    assert Observations(space, THREE).shape == (4, 4, 1)
    inner = spaces.Dict({"a": BOX, "b": spaces.Discrete(3)})
    observations = Observations(spaces.Dict({"observation": inner, "action_mask": spaces.MultiBinary(3)}), THREE)
    seen = {
        "observation/a": tf.constant([[0.5, -1]]),
        "observation/b": tf.constant([1]),
        "action_mask": tf.ones([1, 3]),
    }
    assert observations.encode(seen).numpy().tolist() == [[0.5, -1, 0, 1, 0]]
    several = Observations(spaces.Dict({"a": BOX, "b": BOX, "action_mask": spaces.MultiBinary(3)}), THREE)
    assert several.shape == (4,)
    joined: Any = Observations(spaces.Dict({"a": BOX, "b": frames, "action_mask": spaces.MultiBinary(3)}), THREE)
    assert joined.shape.parts == ((2,), (4, 4, 1))
    assert Observations(BOX, THREE).masks(tf.zeros([1, 2])) == {}


@pytest.mark.parametrize(
    ("space", "actions", "name", "argument", "message"),
    [
        ({"x": BOX, "action_mask": BOX}, THREE, "action_mask", "observation_space", "mask of 3 actions, MultiBinary"),
        (
            {"x": BOX, "m": spaces.MultiBinary(4)},
            spaces.MultiDiscrete([2, 3]),
            "m",
            "observation_space",
            "of 5 actions",
        ),
        ({"action_mask": spaces.MultiBinary(3)}, THREE, "action_mask", "observation_space", "nothing but the mask"),
        ({"x": BOX, "action_mask": spaces.MultiBinary(2)}, BOX, "action_mask", "action_space", "another name"),
        ({"x": BOX}, THREE, "legal", "action_mask", "names 'legal', which is no entry of"),
    ],
)
def test_what_is_no_mask_is_refused(space: Any, actions: Any, name: str, argument: str, message: str) -> None:
    error = raised(ArgumentError, Observations, spaces.Dict(space), actions, name, match=message)
    assert error.argument == argument
