"""Checks of user-supplied values: every kind of wrong value once; and errors, whose fields survive pickling."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from axonrl.core.checks import all_finite, choice, count, counted, did_you_mean, flag, integer, number, plain, shortened
from axonrl.errors import ArgumentError, BrokenEnvironmentError, CheckpointError, NonFiniteError
from axonrl.tests.raising import raised


def refused(check: Callable[..., Any], *arguments: Any, **bounds: Any) -> ArgumentError:
    caught = raised(ArgumentError, check, "Room.size", *arguments, **bounds)
    assert caught.argument == "Room.size"
    assert caught.value is arguments[0]
    return caught


@pytest.mark.parametrize("value", [math.nan, -math.inf, True, "1", None, np.True_])
def test_what_is_not_a_finite_number(value: Any) -> None:
    refused(number, value)


@pytest.mark.parametrize(("value", "bounds"), [(0, {"above": 0}), (-0.1, {"at_least": 0}), (1.1, {"at_most": 1})])
def test_numbers_outside_their_bounds(value: float, bounds: Any) -> None:
    refused(number, value, **bounds)


def test_numbers_become_floats() -> None:
    for value in (1, 1.0, np.float32(1), np.int64(1)):
        found = number("x", value, above=0, at_least=1, at_most=1)
        assert (found, type(found)) == (1.0, float)


@pytest.mark.parametrize("value", [0, 1.5, True, "3", math.nan])
def test_what_is_not_a_count(value: Any) -> None:
    refused(count, value)


@pytest.mark.parametrize("value", [1, 2.5, True, math.inf, 2**63, 1e30, np.float32(1e30)])
def test_what_is_not_an_integer_in_bounds(value: Any) -> None:
    refused(integer, value, at_least=2)


def test_integers_become_ints() -> None:
    for found in (
        count("x", np.int32(3)),
        count("x", 3e0),
        integer("x", 3.0, at_least=3),
        integer("x", np.uint8(3), at_least=0),
        integer("x", np.float32(3), at_least=0),
    ):
        assert (found, type(found)) == (3, int)
    assert integer("x", 2**63 - 1, at_least=0) == 2**63 - 1


def test_integers_of_hundreds_of_digits() -> None:
    for value in (10**400, -(10**5000)):
        refused(number, value)
        refused(integer, value, at_least=0)


def test_truth_values_may_be_numpys() -> None:
    assert [flag("x", value) for value in (True, np.False_)] == [True, False]
    for value in (1, "true", None, np.array([True])):
        refused(flag, value)


def test_numpys_values_as_json_has_them() -> None:
    given = {"a": np.float32(0.5), "b": [np.array([[1, 2]]), (np.True_, np.str_("x"))], "c": np.array(3), "d": len}
    assert repr(plain(given)) == repr({"a": 0.5, "b": [[[1, 2]], (True, "x")], "c": 3, "d": len})
    moment = np.datetime64("2026-01-01")
    assert plain(moment) is moment


@pytest.mark.parametrize("value", ["Adam", ["adam"]])
def test_what_is_not_a_choice(value: Any) -> None:
    refused(choice, value, ["adam", "sgd"])
    assert choice("x", "sgd", iter(["adam", "sgd"])) == "sgd"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (lambda: refused(number, "x"), "Room.size must be a finite number, got 'x'"),
        (
            lambda: refused(number, 2, above=0, at_least=0.5, at_most=1),
            "Room.size must be a finite number above 0 and of at least 0.5 and of at most 1, got 2",
        ),
        (lambda: refused(count, 0), "Room.size must be an integer of at least 1, got 0"),
        (lambda: refused(integer, 0.5, at_least=0), "Room.size must be an integer of at least 0, got 0.5"),
        (
            lambda: refused(number, 31_536_001, at_least=-1e30, at_most=31_536_000),
            "Room.size must be a finite number of at least -1e+30 and of at most 31,536,000, got 31536001",
        ),
        (lambda: refused(count, 9, at_most=8), "Room.size must be an integer of at most 8, got 9"),
        (
            lambda: refused(count, 2**20_000),
            "Room.size must be an integer of at most 9,223,372,036,854,775,807, got int of 20,001 bits",
        ),
        (
            lambda: refused(choice, "adm", ["adam", "sgd"]),
            "Room.size must be one of adam, sgd; got 'adm' (did you mean 'adam'?)",
        ),
    ],
)
def test_messages(error: Any, message: str) -> None:
    assert str(error()) == message


def test_suggestions_and_short_values() -> None:
    assert did_you_mean("ADAMM", ["sgd", "adam"]) == " (did you mean 'adam'?)"
    assert did_you_mean(3, ["sgd"]) == ""
    assert did_you_mean("batch", ["path", "batch_size"]) == " (did you mean 'batch_size'?)"  # "path" is as similar
    assert did_you_mean("MyHok", ["hook", "MyHook"]) == " (did you mean 'MyHook'?)"
    assert shortened("a\n  b") == "'a\\n b'"
    assert shortened(np.zeros((2, 2))) == "array([[0., 0.], [0., 0.]])"
    assert shortened("x" * 100) == "'" + "x" * 76 + "..."


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_all_finite(dtype: Any) -> None:
    array = np.ones((300, 3), dtype)
    assert all_finite(array)
    assert all_finite(array[:0])
    for bad in (np.nan, np.inf, -np.inf):
        array[299, 2] = bad
        assert not all_finite(array)


def test_an_argument_error_keeps_its_fields() -> None:
    value = [1, "two"]
    error = ArgumentError("size must be 2, got 3", "size", value)
    for one in (error, pickle.loads(pickle.dumps(error))):
        assert type(one) is ArgumentError
        assert isinstance(one, ValueError)
        assert (str(one), one.argument, one.value) == ("size must be 2, got 3", "size", value)


@pytest.mark.parametrize(
    ("kind", "base", "environment"),
    [(BrokenEnvironmentError, RuntimeError, 2), (NonFiniteError, ArithmeticError, None)],
)
def test_an_error_keeps_its_environment(kind: Any, base: Any, environment: int | None) -> None:
    error = pickle.loads(pickle.dumps(kind("the reward is nan", environment)))
    assert isinstance(error, base)
    assert (type(error), str(error), error.environment) == (kind, "the reward is nan", environment)


def test_a_checkpoint_error_is_a_runtime_error() -> None:
    assert issubclass(CheckpointError, RuntimeError)


def test_a_number_with_its_noun() -> None:
    assert [counted(number, "seed") for number in (0, 1, 2000)] == ["0 seeds", "1 seed", "2,000 seeds"]
