"""The errors' fields, which survive pickling: processes hand errors to each other."""

import pickle
from typing import Any

import pytest

from axonrl.errors import ArgumentError, BrokenEnvironmentError, CheckpointError, NonFiniteError


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
