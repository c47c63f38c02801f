import re
from typing import Any

import numpy as np
import pytest

from axonrl import schedules
from axonrl.errors import ArgumentError
from axonrl.schedules import (
    Cosine,
    Exponential,
    InverseTime,
    Linear,
    NaturalExponential,
    PiecewiseConstant,
    Polynomial,
    make_schedule,
)
from axonrl.tests.raising import raised

LINEAR: Any = Linear  # untyped, for wrong arguments
PIECEWISE: Any = PiecewiseConstant
EXPONENTIAL: Any = Exponential

# (schedule, time, value worked out by hand)
VALUES: list[tuple[Any, float, float]] = [
    (schedules.Constant(0.3), 10**9, 0.3),
    (Linear(1.0, 0.05, 10_000), 1, 0.999905),
    (Linear(1.0, 0.05, 10_000), 9_999, 0.050095),
    (Linear(1.0, 0.05, 10_000), 10_000, 0.05),
    (Linear(1.0, 0.05, 10_000), 10**9, 0.05),
    (Polynomial(1.0, 0.0, 10, power=2), 9, 0.01),
    (Polynomial(3.0, 1.0, 4, power=0.5), 3, 2.0),
    (Polynomial(3.0, 1.0, 4, power=0.5), 99, 1.0),
    (Exponential(0.8, 0.5, 10), 5, 0.5656854249),
    (Exponential(0.8, 0.5, 10, floor=0.3), 20, 0.3),
    (Exponential(0.8, 0.5, 10, staircase=True), 9, 0.8),
    (Exponential(0.8, 0.5, 10, staircase=True), 29, 0.2),
    (NaturalExponential(2.0, 0.5, 10), 20, 0.7357588823),  # 2 / e
    (NaturalExponential(2.0, 0.5, 10, floor=0.3), 40, 0.3),  # 2 / e^2 is 0.27
    (NaturalExponential(2.0, 0.5, 10, staircase=True), 29, 0.7357588823),
    (InverseTime(0.6, 0.5, 10), 40, 0.2),
    (InverseTime(0.6, 0.5, 10, floor=0.25), 40, 0.25),
    (InverseTime(0.6, 0.5, 10, staircase=True), 19, 0.4),
    (Cosine(1.0, 0.2, 12), 4, 0.8),  # cos(60 degrees) = 1/2
    (Cosine(1.0, 0.2, 12), 8, 0.4),
    (Cosine(1.0, 0.2, 12), 12, 0.2),
    (PiecewiseConstant((10, 20), (1.0, 0.5, 0.1)), 9, 1.0),
    (PiecewiseConstant((10, 20), (1.0, 0.5, 0.1)), 10, 0.5),
    (PiecewiseConstant((10, 20), (1.0, 0.5, 0.1)), 20, 0.1),
    (PiecewiseConstant((), (0.7,)), 5, 0.7),
    # Polyaxon's with stop_decay_at, as docs/explorations.md has them: 0.15 to 0.0001 in 100,000, up to 40,000
    (Linear(0.15, 0.09004, 40_000), 20_000, 0.12002),  # 0.0001 + 0.1499 * 0.8
    (Linear(0.15, 0.09004, 40_000), 90_000, 0.09004),  # 0.0001 + 0.1499 * 0.6
    (Exponential(1.0, 0.5, 10, floor=0.1767766953), 20, 0.25),
    (Exponential(1.0, 0.5, 10, floor=0.1767766953), 30, 0.1767766953),  # up to 25: 0.5 ** 2.5
]


# (schedule over the run, share of the run, value worked out by hand)
RUN_VALUES: list[tuple[Any, float, float]] = [
    (Linear(0.8, 0.0, 1.0, over="run"), 0.5, 0.4),
    (Linear(1.0, 0.2, 0.1, over="run"), 0.05, 0.6),
    (Polynomial(1.0, 0.0, 0.5, power=2, over="run"), 0.25, 0.25),
    (Exponential(0.8, 0.5, 0.5, over="run"), 1.0, 0.2),
    (NaturalExponential(2.0, 1.0, 0.5, over="run"), 0.5, 0.7357588823),
    (InverseTime(0.6, 0.5, 0.25, over="run"), 1.0, 0.2),
    (Cosine(1.0, 0.2, 0.75, over="run"), 0.25, 0.8),
    (PiecewiseConstant((0.25, 0.5), (1.0, 0.5, 0.1), over="run"), 0.25, 0.5),
]


@pytest.mark.parametrize(("schedule", "t", "expected"), VALUES + RUN_VALUES)
def test_values_on_the_host(schedule: Any, t: Any, expected: Any) -> None:
    for given in (t, np.array(t)[()]):  # a number of Python, or of NumPy
        value = schedule(given)
        assert isinstance(value, float)
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
    array = schedule(np.array([[t], [t]]))
    assert (array.shape, array.dtype) == ((2, 1), np.float64)
    assert array == pytest.approx(np.full((2, 1), expected), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("values", "dtype"), [(VALUES, "int64"), (RUN_VALUES, "float32")])
def test_values_of_tensors_are_those_of_the_host(values: Any, dtype: str) -> None:
    import keras
    import tensorflow as tf

    def all_at(t: Any) -> list[Any]:
        return [schedule(t) for schedule, _, _ in values]

    traced = tf.function(all_at, autograph=False)
    for index, (schedule, t, expected) in enumerate(values):
        one, several = (tf.constant(given, dtype) for given in (t, [t, t]))
        for value in (traced(one)[index], schedule(one), schedule(keras.Variable(one, dtype=dtype))):
            assert (value.dtype, value.shape) == (tf.float32, ())
            assert float(value) == pytest.approx(expected, rel=1e-6, abs=1e-7)
        assert schedule(several).numpy() == pytest.approx([expected] * 2, rel=1e-6, abs=1e-7)


def test_they_end_exactly_at_stop() -> None:
    assert Linear(1.0, 0.05, 7)(7) == Cosine(1.0, 0.05, 7)(7) == 0.05


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"kind": "constant", "value": 2}, schedules.Constant(2.0)),
        ({"kind": "linear", "start": 1, "stop": 0.05, "duration": 1e4}, Linear(1.0, 0.05, 10_000)),
        ({"kind": "exponential", "start": 1, "rate": 0.9, "duration": 5}, Exponential(1.0, 0.9, 5, floor=0.0)),
        ({"kind": "piecewise_constant", "boundaries": [3], "values": [1, 0.5]}, PiecewiseConstant((3,), (1.0, 0.5))),
        (
            {"kind": "inverse_time", "start": 1, "rate": 2, "duration": 5, "floor": 0.1, "staircase": True},
            InverseTime(1.0, 2.0, 5, floor=0.1, staircase=True),
        ),
    ],
)
def test_make_schedule_from_a_mapping(mapping: Any, expected: Any) -> None:
    schedule = make_schedule(mapping)
    assert schedule == expected
    assert make_schedule(schedules.as_value(schedule)) == expected
    assert isinstance(getattr(schedule, "duration", 0), int)


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"kind": "linear", "start": 1, "stop": 0}, Linear(1.0, 0.0, 1.0, over="run")),
        ({"kind": "linear", "start": 1, "stop": 0, "duration": 0.25}, Linear(1.0, 0.0, 0.25, over="run")),
        (
            {"kind": "piecewise_constant", "boundaries": [0.5], "values": [1, 0.5]},
            PiecewiseConstant((0.5,), (1.0, 0.5), over="run"),
        ),
    ],
)
def test_over_the_run_the_duration_is_a_share_of_it_and_all_of_it_by_default(mapping: Any, expected: Any) -> None:
    schedule = make_schedule({**mapping, "over": "run"})
    assert schedule == expected
    assert schedules.follows_run(schedule)
    assert not schedules.follows_run(make_schedule(0.1))


def test_make_schedule_from_a_number_or_a_callable() -> None:
    def own(t: Any, ops: Any = None) -> Any:
        return t

    linear = Linear(1.0, 0.0, 5)
    assert make_schedule(0.25) == schedules.Constant(0.25)
    assert make_schedule(linear) is linear
    assert make_schedule(own, at_least=0, at_most=1) is own


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("fast", "epsilon must be a finite number, got 'fast'"),
        ({"kind": "linaer", "start": 1}, "got 'linaer' (did you mean 'linear'?)"),
        (
            {"kind": "linear", "start": 1, "stop": 0, "durration": 5},
            "epsilon: a linear schedule has no 'durration' (did you mean 'duration'?), only start, stop, duration",
        ),
        ({"kind": "linear", "start": 1}, "epsilon: a linear schedule also needs stop, duration"),
        (
            {"kind": "linear", "start": 1, "stop": 0, "duration": 390, "over": "run"},
            "epsilon: Linear.duration must be a finite number above 0 and of at most 1, got 390",
        ),
        (
            {"kind": "piecewise_constant", "boundaries": [2], "values": [1, 0], "over": "run"},
            "epsilon: PiecewiseConstant.boundaries must be a finite number above 0 and of at most 1, got 2",
        ),
        (
            {"kind": "linear", "start": 1, "stop": 0, "duration": 0.5},
            "epsilon: Linear.duration must be an integer of at least 1, got 0.5",
        ),
        (
            {"kind": "linear", "start": 1, "stop": 0, "duration": 1, "over": "rnu"},
            "Linear.over must be one of run; got",
        ),
        ({"kind": "constant", "value": 1, "over": "run"}, "epsilon: a constant schedule has no 'over', only value"),
        (Linear, "epsilon takes a schedule: got the class Linear, expected Linear(...)"),
    ],
)
def test_make_schedule_refuses(value: Any, message: str) -> None:
    caught = raised(ArgumentError, make_schedule, value, "epsilon", match=re.escape(message))
    assert (caught.argument, caught.value) == ("epsilon", value)


@pytest.mark.parametrize(
    ("schedule", "bounds"),
    [
        (Linear(0.1, 0.9, 5), (0.1, 0.9)),
        (Polynomial(0.9, 0.1, 5, 2), (0.1, 0.9)),
        (Exponential(0.9, 0.5, 5, floor=0.2), (0.2, 0.9)),
        (Exponential(0.9, 1.0, 5), (0.9, 0.9)),
        (InverseTime(0.9, 0.5, 5), (0.0, 0.9)),
        (Cosine(0.1, 0.9, 5), (0.1, 0.9)),
        (PiecewiseConstant((1, 2), (0.5, 0.7, 0.1)), (0.1, 0.7)),
    ],
)
def test_a_schedule_that_leaves_the_range_is_refused(schedule: Any, bounds: Any) -> None:
    low, high = bounds
    assert schedule.bounds == bounds
    assert make_schedule(schedule, at_least=low, at_most=high) is schedule
    for tighter in ({"at_least": low + 1e-9}, {"at_most": high - 1e-9}):
        with pytest.raises(ArgumentError, match=r"epsilon must stay in .* \.\. ") as caught:
            make_schedule(schedule, "epsilon", **tighter)
        assert (caught.value.argument, caught.value.value) == ("epsilon", schedule)


@pytest.mark.parametrize(
    ("argument", "make"),
    [
        ("Constant.value", lambda: schedules.Constant(float("inf"))),
        ("Linear.duration", lambda: LINEAR(1.0, 0.0, 0)),
        ("Polynomial.power", lambda: Polynomial(1.0, 0.0, 5, 0)),
        ("Polynomial.start", lambda: Polynomial(float("nan"), 0.0, 5, 1)),
        ("Exponential.rate", lambda: Exponential(1.0, 0.0, 5)),
        ("Exponential.rate", lambda: Exponential(1.0, 1.1, 5)),
        ("Exponential.floor", lambda: Exponential(1.0, 0.5, 5, floor=2)),
        ("Exponential.staircase", lambda: EXPONENTIAL(1.0, 0.5, 5, staircase=1)),
        ("NaturalExponential.rate", lambda: NaturalExponential(1.0, 0.0, 5)),
        ("InverseTime.rate", lambda: InverseTime(1.0, -0.1, 5)),
        ("Cosine.stop", lambda: Cosine(1.0, float("nan"), 5)),
        ("PiecewiseConstant.values", lambda: PiecewiseConstant((5,), (1.0, float("nan")))),
        ("PiecewiseConstant.boundaries", lambda: PiecewiseConstant((0,), (1, 2))),
    ],
)
def test_a_wrong_value_is_named(argument: str, make: Any) -> None:
    assert raised(ArgumentError, make).argument == argument


def test_messages_of_piecewise_constant() -> None:
    for arguments, message in (
        ((5, (1.0, 2.0)), "boundaries must be a list of numbers, got 5"),
        (((5,), (1.0,)), "values must have 2 numbers, one more than boundaries, got (1.0,)"),
        (((5, 5), (1, 2, 3)), "boundaries must increase, got (5, 5)"),
    ):
        raised(ArgumentError, PIECEWISE, *arguments, match=re.escape(message))


def test_schedules_are_frozen() -> None:
    linear: Any = Linear(1.0, 0.0, 5)
    with pytest.raises(AttributeError):
        linear.start = 2.0
