"""How methods are compared by few runs, on numbers worked out by hand."""

import numpy as np
import pytest

from axonrl.runs.reliability import probability_of_improvement, stratified_interval
from axonrl.runs.statistics import interquartile_mean, interval, mean


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
    values = np.arange(7.0) ** 2
    assert stratified_interval([values.tolist()]) == pytest.approx(interval(values, interquartile_mean))
