from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks import losses
from axonrl.tests.models.blocks.derivatives import gradients


def run(function: Any, *arrays: Any) -> Any:
    """A function of constants; the algorithms' tests run it in programs."""
    kinds = {True: tf.int32, False: tf.float32}
    return function(*[tf.constant(array, kinds[np.asarray(array).dtype.kind == "i"]) for array in arrays]).numpy()


def test_large_margin() -> None:
    values, action = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [4.0, 5.5, 6.0], [1.0, 1.0, 1.0]], [1, 2, 2, 0]
    # max(1.8, 2, 3.8) - 2; 6 - 6, others are 1 lower; max(4.8, 6.3, 6) - 6; 1.8 - 1
    expected = [1.8, 0.0, 0.3, 0.8]
    np.testing.assert_allclose(run(lambda q, a: losses.large_margin(q, a, 0.8), values, action), expected, rtol=1e-6)
    mask = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0]], np.bool_)
    found = run(lambda q, a: losses.large_margin(q, a, 0.8, tf.constant(mask)), values, action)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.0, 0.0], atol=1e-6)


def test_an_illegal_action_has_no_part_in_a_soft_policy_whatever_the_values() -> None:
    mask = tf.constant([[True, False, True]])
    values, nothing = [[-3000.0, 5.0, -3001.0]], [[0.0, 0.0, 0.0]]  # divided by the temperature: below -1e9
    found = run(lambda q, s: losses.soft_value(q, s, 1e-6, mask), values, values)
    np.testing.assert_allclose(found, [-3000.0])
    found = run(lambda s, a: losses.munchausen_bonus(s, a, 1e-6, -0.5, mask), values * 2, [0, 2])
    np.testing.assert_allclose(found, [0.0, -0.5])
    assert np.isfinite(run(lambda q: losses.soft_value(q, q, 1.0, tf.constant([[False] * 3])), nothing)).all()


def test_dueling() -> None:
    value, advantage = [[10.0], [0.0]], [[1.0, 2.0, 6.0], [0.0, 0.0, 3.0]]
    mean = run(lambda v, a: losses.dueling(v, a, "mean"), value, advantage)
    np.testing.assert_allclose(mean, [[8.0, 9.0, 13.0], [-1.0, -1.0, 2.0]])
    largest = run(lambda v, a: losses.dueling(v, a, "max"), value, advantage)
    np.testing.assert_allclose(largest, [[5.0, 6.0, 10.0], [-3.0, -3.0, 0.0]])
    naive = run(lambda v, a: losses.dueling(v, a, "naive"), value, advantage)
    np.testing.assert_allclose(naive, [[11.0, 12.0, 16.0], [0.0, 0.0, 3.0]])
    with pytest.raises(ValueError, match="baseline must be one of mean, max, naive; got 'median'"):
        losses.dueling(tf.zeros((1, 1)), tf.zeros((1, 2)), "median")


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient"),
    [
        (1.1, 2.0, -2.2, -2.2),
        (1.5, 2.0, -2.4, 0.0),  # good and already likelier: cut at 1.2 A
        (1.5, -2.0, 3.0, 3.0),  # bad and likelier: to be undone, at any distance
        (0.5, 2.0, -1.0, -1.0),  # good and less likely: likewise
        (0.5, -2.0, 1.6, 0.0),  # bad and already less likely: cut at 0.8 A
    ],
)
def test_clipped_surrogate(ratio: float, advantage: float, loss: float, gradient: float) -> None:
    def surrogate(log_ratio: Any) -> Any:
        return losses.clipped_surrogate(log_ratio, tf.constant([advantage]), tf.constant(0.2))

    assert run(surrogate, [np.log(ratio)]) == pytest.approx(loss)
    assert gradients(surrogate, [np.log(ratio)])[0] == pytest.approx([gradient])


@pytest.mark.parametrize(
    ("value", "clip", "error", "gradient"),
    [
        (4.0, None, 1.0, 2.0),
        (1.2, 0.5, 3.24, -3.6),  # near the recorded 1
        (2.0, 0.5, 2.25, 0.0),  # moved beyond 1.5: the error of 1.5 counts, which is larger
        (0.0, 0.5, 9.0, -6.0),  # moved away from the return 3: larger than that of 0.5
    ],
)
def test_clipped_squared(value: float, clip: float | None, error: float, gradient: float) -> None:
    def squared(predicted: Any) -> Any:
        return losses.clipped_squared(predicted, tf.constant([1.0]), tf.constant([3.0]), clip)

    assert run(squared, [value]) == pytest.approx(error)
    assert gradients(squared, [value])[0] == pytest.approx([gradient])


def test_rescaling_by_hand_and_back() -> None:
    # sqrt(|x| + 1) - 1 is 0, 1, 2, -1 and 9; a hundredth of x is added
    values, scaled = [0.0, 3.0, 8.0, -3.0, 99.0], [0.0, 1.03, 2.08, -1.03, 9.99]
    np.testing.assert_allclose(run(lambda x: losses.rescaled(x, 0.01), values), scaled, rtol=1e-6)
    np.testing.assert_allclose(run(lambda x: losses.unrescaled(x, 0.01), scaled), values, rtol=1e-5)
    wide = np.concatenate([sign * np.logspace(-5, 5, 21) for sign in (-1, 1)]).astype(np.float32)
    found = run(lambda x: losses.unrescaled(losses.rescaled(x, 1e-3), 1e-3), wide)
    np.testing.assert_allclose(found, wide, rtol=1e-5, atol=2e-6)
