"""Noise: what may be asked for, where, and which numbers come."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl import noise
from axonrl.noise import Request


def asked(call: Any) -> list[Request]:
    requests: list[Request] = []

    def supply(request: Request) -> Any:
        requests.append(request)
        return tf.zeros(request.shape, request.dtype)

    with noise.supplying(supply):
        call()
    return requests


def test_a_request_says_what_was_asked_for() -> None:
    assert asked(lambda: noise.normal([2, 3])) == [Request("normal", (2, 3))]
    assert asked(lambda: noise.normal(())) == [Request("normal", ())]
    assert asked(lambda: noise.normal(tf.TensorShape([4]))) == [Request("normal", (4,))]
    assert asked(lambda: noise.uniform([2], -1, 1)) == [Request("uniform", (2,), -1.0, 1.0)]
    assert asked(lambda: noise.permutation(5)) == [Request("permutation", (5,))]


def test_the_supplier_gives_the_value() -> None:
    with noise.supplying(lambda request: tf.fill(request.shape, 7.0)):
        assert noise.normal([2]).numpy().tolist() == [7.0, 7.0]


@pytest.mark.parametrize("call", [lambda: noise.normal([2]), lambda: noise.uniform([2]), lambda: noise.permutation(2)])
def test_outside_a_training_trace_there_is_none(call: Any) -> None:
    asked(call)  # what was open once is closed again
    with pytest.raises(ValueError, match="works only while a model_fn is traced in TRAIN or EVAL"):
        call()


def test_an_exception_closes_the_supply() -> None:
    with pytest.raises(RuntimeError, match="mine"), noise.supplying(lambda request: tf.zeros(request.shape)):
        raise RuntimeError("mine")
    with pytest.raises(ValueError, match="works only while"):
        noise.normal([2])


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ([None, 3], r"\[None, 3\]"),
        (tf.TensorShape([None, 3]), r"\(None, 3\)"),
        (tf.TensorShape(None), "<unknown>"),
        ([0], r"\[0\]"),
        ([2.0], r"\[2\.0\]"),
        ([True], r"\[True\]"),
        (3, "3"),
    ],
)
def test_shapes_must_be_static(shape: Any, shown: str) -> None:
    with pytest.raises(ValueError, match=f"needs a static shape of positive integers, got {shown}$"):
        asked(lambda: noise.normal(shape))


def test_the_size_of_a_permutation_must_be_static() -> None:
    with pytest.raises(ValueError, match=r"static shape of positive integers, got \[-1\]"):
        asked(lambda: noise.permutation(-1))


@pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), ("0", 1), (1.0, 1.0 + 1e-12)])
def test_bounds_must_be_an_interval(low: Any, high: Any) -> None:
    with pytest.raises(ValueError, match="needs numbers low < high, finite in float32; got"):
        asked(lambda: noise.uniform([2], low, high))


def test_draws_come_from_the_generator_alone() -> None:
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    normal = Request("normal", (2, 3)).draw(rng)
    uniform = Request("uniform", (1000,), 2.0, 4.0).draw(rng)
    permutation = Request("permutation", (6,)).draw(rng)

    assert normal.dtype == np.float32
    np.testing.assert_array_equal(normal, same.standard_normal((2, 3), dtype=np.float32))
    assert uniform.dtype == np.float32
    np.testing.assert_array_equal(uniform, 2 + 2 * same.random(1000, dtype=np.float32))
    assert permutation.dtype == np.int32
    np.testing.assert_array_equal(permutation, same.permutation(6))
    assert rng.bit_generator.state == same.bit_generator.state


def test_rounding_never_reaches_the_upper_bound() -> None:
    class Highest:
        def random(self, shape: tuple[int, ...], dtype: Any) -> Any:
            return np.full(shape, 1 - 2.0**-24, dtype)  # the largest number that a generator gives

    (drawn,) = Request("uniform", (1,), 1.0, 2.0).draw(Highest())  # type: ignore[arg-type]
    assert drawn == np.float32(2 - 2.0**-23)  # the largest float32 below 2


@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_value_without_axes_is_an_array(kind: str) -> None:
    drawn = Request(kind, ()).draw(np.random.default_rng(0))
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == ()
    assert drawn.dtype == np.float32
