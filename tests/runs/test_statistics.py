"""What several runs say together, on numbers that can be reckoned by hand."""

import numpy as np
import pytest

from axonrl.runs.statistics import interquartile_mean, interval, intervals, mean


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
