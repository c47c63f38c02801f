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


Q = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
ACTION = [2, 0]
REWARD = [1.0, -1.0]
DISCOUNT = [0.5, 0.0]
NEXT_Q = [[2.0, 8.0, 4.0], [9.0, 9.0, 9.0]]


def test_squared_and_huber() -> None:
    np.testing.assert_allclose(run(losses.squared, [-3.0, 0.0, 0.5]), [4.5, 0.0, 0.125])
    np.testing.assert_allclose(run(losses.huber, [-3.0, -1.0, -0.5, 0.0, 2.0]), [2.5, 0.5, 0.125, 0.0, 1.5])
    np.testing.assert_allclose(run(lambda e: losses.huber(e, delta=2.0), [-3.0, 1.0]), [4.0, 0.5])


@pytest.mark.parametrize(
    ("loss", "expected"), [(losses.huber, [-1.0, -0.5, 0.0, 0.5, 1.0]), (losses.squared, [-3.0, -0.5, 0.0, 0.5, 4.0])]
)
def test_the_gradient_is_the_error_clipped_or_not(loss: Any, expected: Any) -> None:
    np.testing.assert_allclose(gradients(loss, [-3.0, -0.5, 0.0, 0.5, 4.0])[0], expected)


def test_action_values() -> None:
    np.testing.assert_allclose(run(losses.action_values, Q, ACTION), [3.0, 4.0])


def test_large_margin() -> None:
    values, action = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [4.0, 5.5, 6.0], [1.0, 1.0, 1.0]], [1, 2, 2, 0]
    # max(1.8, 2, 3.8) - 2; 6 - 6, others are 1 lower; max(4.8, 6.3, 6) - 6; 1.8 - 1
    expected = [1.8, 0.0, 0.3, 0.8]
    np.testing.assert_allclose(run(lambda q, a: losses.large_margin(q, a, 0.8), values, action), expected, rtol=1e-6)
    mask = np.array([[1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0]], np.bool_)
    found = run(lambda q, a: losses.large_margin(q, a, 0.8, tf.constant(mask)), values, action)
    np.testing.assert_allclose(found, [0.0, 0.0, 0.0, 0.0], atol=1e-6)


def test_half_square_sum() -> None:
    assert run(lambda a, b: losses.half_square_sum([a, b]), [[1.0, 2.0], [0.0, 1.0]], [3.0]) == 7.5


def test_td_error() -> None:
    # 1 + 0.5 * 8 - 3, and -1 - 4: the second has terminated
    np.testing.assert_allclose(run(losses.td_error, [3.0, 4.0], REWARD, DISCOUNT, [8.0, 9.0]), [2.0, -5.0])


def test_double_value_is_that_of_the_action_that_the_selector_prefers() -> None:
    selector = [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    np.testing.assert_allclose(run(losses.double_value, NEXT_Q, selector), [4.0, 9.0])


LOG_3 = float(np.log(3))


def test_soft_value() -> None:
    # t = 2, so that the policy is softmax of [0, log 3]: 1/4 and 3/4.
    values, selector = [[1.0, 5.0]], [[0.0, 2 * LOG_3]]
    expected = 0.25 * (1 + 2 * np.log(4)) + 0.75 * (5 + 2 * np.log(4 / 3))
    np.testing.assert_allclose(run(lambda q, s: losses.soft_value(q, s, 2.0), values, selector), [expected], rtol=1e-6)
    # Of its own policy it is t times the log of the sum: 2 log(1 + 3).
    np.testing.assert_allclose(run(lambda s: losses.soft_value(s, s, 2.0), selector), [2 * np.log(4)], rtol=1e-6)
    masked = run(lambda q, s: losses.soft_value(q, s, 2.0, tf.constant([[True, False]])), values, selector)
    np.testing.assert_allclose(masked, [1.0])  # one legal action: nothing to choose


def test_munchausen_bonus() -> None:
    def bonus(lowest: float, mask: Any = None) -> Any:
        return run(lambda s, a: losses.munchausen_bonus(s, a, 2.0, lowest, mask), [[0.0, 2 * LOG_3]] * 2, [0, 1])

    np.testing.assert_allclose(bonus(-10), [-2 * np.log(4), 2 * np.log(3 / 4)], rtol=1e-6)
    np.testing.assert_allclose(bonus(-1), [-1, 2 * np.log(3 / 4)], rtol=1e-6)  # -2.77 is below the lowest
    np.testing.assert_allclose(bonus(-10, tf.constant([[True, False], [True, True]])), [0, 2 * np.log(3 / 4)], 1e-6)


def test_an_illegal_action_has_no_part_in_a_soft_policy_whatever_the_values() -> None:
    mask = tf.constant([[True, False, True]])
    values, nothing = [[-3000.0, 5.0, -3001.0]], [[0.0, 0.0, 0.0]]  # divided by the temperature: below -1e9
    found = run(lambda q, s: losses.soft_value(q, s, 1e-6, mask), values, values)
    np.testing.assert_allclose(found, [-3000.0])
    found = run(lambda s, a: losses.munchausen_bonus(s, a, 1e-6, -0.5, mask), values * 2, [0, 2])
    np.testing.assert_allclose(found, [0.0, -0.5])
    assert np.isfinite(run(lambda q: losses.soft_value(q, q, 1.0, tf.constant([[False] * 3])), nothing)).all()


def test_no_gradient_flows_into_the_target() -> None:
    to_prediction, *to_others = gradients(losses.td_error, [3.0, 4.0], REWARD, DISCOUNT, [8.0, 9.0])
    np.testing.assert_allclose(to_prediction, [-1.0, -1.0])
    assert to_others == [None, None, None]


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
