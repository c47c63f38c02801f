"""Statistics of several runs, on numbers worked out by hand."""

import numpy as np
import pytest

from axonrl.run_dir.statistics import (
    interquartile_mean,
    interval,
    intervals,
    mean,
    probability_of_improvement,
    stratified_interval,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([9.0, 1.0, 2.0], 4.0),  # a quarter of three is none
        ([100.0, 2.0, 4.0, -50.0], 3.0),
        ([1, 2, 3, 4, 5, 6, 7, 80], 4.5),  # without 1, 2, 7 and 80
        ([1, 2, 3, 4, 5, 6, 70], 4.0),  # of seven, one on each side
    ],
)
def test_interquartile_mean(values: list[float], expected: float) -> None:
    assert interquartile_mean(np.array(values)) == expected


def test_the_interval_of_two_runs_is_that_of_their_four_draws() -> None:
    """Of 0 and 1, a mean is 0, 0.5, 0.5 or 1, each as likely: 2.5 % of the draws lie within the outer quarters."""
    assert interval([0.0, 1.0]) == (0.5, 0.0, 1.0)


def test_the_bounds_of_five_runs() -> None:
    """Of 3125 draws of 0, 0, 0, 0, 1 the ones follow the binomial distribution: 2.5 % and 97.5 % are none and three.

    P(none) = 0.33; P(at most two) = 0.942 and P(at most three) = 0.993.
    """
    assert list(interval([0.0, 0.0, 1.0, 0.0, 0.0])) == pytest.approx([0.2, 0.0, 0.6])


def test_one_run_has_no_width_and_equal_runs_have_none() -> None:
    assert interval([3.5]) == (3.5, 3.5, 3.5)
    assert interval([2.0] * 6, interquartile_mean) == (2.0, 2.0, 2.0)


def test_several_results_are_drawn_together() -> None:
    """A result that is another one plus 10 has bounds that are its plus 10, however many are reckoned at once."""
    values = np.arange(12.0).reshape(4, 3) ** 2
    value, low, high = intervals(np.hstack([values, values + 10]))
    np.testing.assert_allclose(value, mean(np.hstack([values, values + 10])))
    for bound in (low, high):
        np.testing.assert_allclose(bound[3:], bound[:3] + 10)
    wide = np.tile(values, (1, 200))
    np.testing.assert_array_equal(intervals(wide)[1], np.tile(low[:3], 200))
    assert interval(values[:, 0]) == (value[0], low[0], high[0])


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([[1.0, 5.0, 9.0]], [[2.0, 6.0]], 0.5),  # 5 > 2, 9 > 2, 9 > 6: three of six
        ([[4.0, 5.0]], [[1.0, 2.0, 3.0]], 1.0),
        ([[2.0]], [[2.0, 2.0]], 0.5),  # equal
        ([[1.0, 2.0]], [[2.0, 3.0]], 0.125),  # one tie of four pairs
        ([[3.0, 4.0], [0.0]], [[1.0], [5.0, 6.0]], 0.5),  # always on the first task, never on the second
    ],
)
def test_probability_of_improvement(first: list[list[float]], second: list[list[float]], expected: float) -> None:
    assert probability_of_improvement(first, second).value == pytest.approx(expected)


def test_the_bounds_of_a_probability() -> None:
    """Of 0 and 2 against 1, a draw of the first has its 2 never, once or twice: 0, 0.5 or 1, with 1/4, 1/2 and 1/4."""
    assert probability_of_improvement([[0.0, 2.0]], [[1.0]]) == pytest.approx((0.5, 0.0, 1.0))
    assert probability_of_improvement([[4.0, 5.0, 6.0]], [[1.0, 2.0]]) == pytest.approx((1.0, 1.0, 1.0))


def test_draws_stay_within_their_task() -> None:
    """Every draw has both of a task's runs, which are equal, so the mean of the tasks is always the same: 5.

    Drawn from all four runs at once it would be anything from 0 to 10.
    """
    assert stratified_interval([[0.0, 0.0], [10.0, 10.0]], mean) == (5.0, 5.0, 5.0)


def test_the_bounds_of_two_tasks() -> None:
    """The mean of a draw of 0 and 4, and of 10: (0, 4 or 8 + 10) / 3, with 1/4, 1/2 and 1/4."""
    found = stratified_interval([[0.0, 4.0], [10.0]], mean)
    assert found == pytest.approx((14 / 3, 10 / 3, 18 / 3))


def test_the_interquartile_mean_of_tasks() -> None:
    """Of 0, 1, 2, 3 and 10, 11, 12, 13 the middle four are 2, 3, 10, 11."""
    assert stratified_interval([[0.0, 1.0, 2.0, 3.0], [10.0, 11.0, 12.0, 13.0]]).value == 6.5
