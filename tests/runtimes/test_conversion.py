import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.policies.interpreter import LiteProgram
from axonrl.runtimes.litert.conversion import ConversionError, convert
from axonrl.tests.raising import raised

FOUR = tf.TensorSpec([4])
Function = Callable[..., Any]


def concrete(function: Function, *specs: Any) -> Any:
    return tf.function(function, autograph=False).get_concrete_function(*specs)


def run(function: Function, *arrays: Any) -> list[Any]:
    """What a converted function without variables returns."""
    arrays = tuple(np.asarray(array) for array in arrays)
    traced = concrete(function, *(tf.TensorSpec(array.shape, array.dtype) for array in arrays))
    return LiteProgram(convert({"f": traced}, [])).signatures["f"](arrays)


def dropout(x: Any) -> Any:
    return tf.nn.experimental.stateless_dropout(x, 0.5, seed=[1, 2])


def recurrent(x: Any) -> Any:
    # As an LSTM layer that is not unrolled: the gradient of a loop keeps lists of tensors.
    return tf.gradients(tf.scan(lambda total, y: tf.tanh(total + y), x), x)


@pytest.mark.parametrize(
    ("function", "ops"),
    [
        (dropout, "StatelessRandomGetKeyCounter, StatelessRandomUniformV2"),
        (lambda x: tf.linalg.inv(tf.reshape(x, [2, 2])), "MatrixInverse"),
        (lambda x: tf.cast(x, tf.float64) * 2, "Mul"),
    ],
)
def test_what_has_no_kernel_is_named(function: Function, ops: str) -> None:
    caught = raised(ConversionError, convert, {"f": concrete(function, FOUR)}, [])
    assert str(caught) == f"LiteRT has no kernel for {ops}"


def test_the_gradient_of_a_loop_is_refused() -> None:
    with pytest.raises(ConversionError, match="tensor lists, which the gradient of a loop needs"):
        convert({"f": concrete(recurrent, FOUR)}, [])


def test_variables_of_a_type_that_it_does_not_keep_are_refused() -> None:
    variable = tf.Variable(tf.zeros([2], tf.float16))
    with pytest.raises(ConversionError, match=r"^LiteRT has no kernel for AssignVariableOp, ReadVariableOp"):
        convert({"f": concrete(lambda x: tf.cast(variable, tf.float32) + x, tf.TensorSpec([2]))}, [variable])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + tf.constant(np.array([np.inf, 1, 2, 3], np.float32)),
        lambda x: x + tf.math.log(tf.constant([0.0, 1.0, 1.0, 0.0])),
    ],
)
def test_infinite_constants_are_refused_even_if_they_have_yet_to_be_computed(function: Function) -> None:
    message = "^an infinite constant, which LiteRT makes finite$"
    with pytest.raises(ConversionError, match=message):
        convert({"f": concrete(function, FOUR)}, [])


def test_the_largest_number_itself_is_none() -> None:
    (found,) = run(lambda x: tf.where(x > 0, x, tf.float32.min), np.array([-1, 2], np.float32))
    assert found.tolist() == [np.finfo(np.float32).min, 2]


def test_it_is_silent(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    variable = tf.Variable(tf.ones([4]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        LiteProgram(convert({"f": concrete(lambda x: (variable.assign_add(x), x), FOUR)}, [variable]))
        with pytest.raises(ConversionError):
            convert({"f": concrete(dropout, FOUR)}, [])
    assert [str(warning.message) for warning in caught] == []
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


def test_shapes_that_depend_on_data() -> None:
    """They convert, and are right as long as what comes out has a known shape."""

    def function(x: Any) -> list[Any]:
        chosen = tf.boolean_mask(x, x > 0)
        values, places = tf.unique(x)
        return [tf.reduce_sum(chosen), tf.reduce_mean(chosen), tf.size(values), places, tf.reduce_sum(tf.where(x > 0))]

    traced = concrete(function, FOUR)
    signature = LiteProgram(convert({"f": traced}, [])).signatures["f"]
    for x in ([1, -2, 3, 3], [-1, -2, -3, -4], [5, 6, 7, 8], [-1, 0, 0, 1]):
        pairs = zip(signature([np.array(x, np.float32)]), traced(tf.constant(x, tf.float32)), strict=True)
        for found, expected in pairs:
            np.testing.assert_allclose(found, expected.numpy(), rtol=1e-6)  # the mean of nothing is NaN


def test_outputs_may_be_inputs_and_may_be_the_same() -> None:
    def function(x: Any, unused: Any, z: Any) -> list[Any]:
        y = x + 1
        return [y, x, y, z, tf.constant(3)]

    found = run(function, np.array([1, 2], np.float32), np.int64(5), np.array([True, False]))
    assert [array.tolist() for array in found] == [[2, 3], [1, 2], [2, 3], [True, False], 3]
    assert [array.dtype for array in found] == [np.float32, np.float32, np.float32, np.bool_, np.int32]


def test_inputs_and_outputs_are_in_the_order_in_which_tensorflow_flattens() -> None:
    traced = concrete(
        lambda tree, scalar, more: {"b": tree["z"] - tree["a"], "a": (scalar, [2 * x for x in reversed(more)])},
        {"z": tf.TensorSpec([]), "a": tf.TensorSpec([])},
        tf.TensorSpec([], tf.int64),
        [tf.TensorSpec([])] * 12,  # by their names the tenth would come before the second
    )
    signature = LiteProgram(convert({"f": traced}, [])).signatures["f"]
    more = [np.array(i, np.float32) for i in range(12)]
    found = signature([np.array(1, np.float32), np.array(10, np.float32), np.array(2**62), *more])
    assert [array.tolist() for array in found] == [2**62, *range(22, -1, -2), 9]


def test_a_program_without_variables_has_neither_get_nor_set() -> None:
    program = LiteProgram(convert({"f": concrete(lambda x: -x, FOUR), "g": concrete(lambda x: x + 1, FOUR)}, []))
    assert set(program.signatures) == {"f", "g"}


def test_assignments_and_reads_keep_their_order() -> None:
    v, w = tf.Variable([0.0, 0.0]), tf.Variable([7.0, 7.0])

    def function(x: Any) -> list[Any]:
        before = v.read_value()
        v.assign(2 * x)
        doubled = v.read_value()
        v.assign_sub(x)
        v.assign(w.read_value())  # they swap, but for x
        w.assign(before + x)
        return [before, doubled, v.read_value(), w.read_value()]

    traced = concrete(function, tf.TensorSpec([2]))
    signatures = LiteProgram(convert({"f": traced}, [v, w])).signatures
    signatures["set"]([v.numpy(), w.numpy()])
    x = np.array([1, 2], np.float32)
    for _ in range(3):
        found, expected = signatures["f"]([x]), traced(tf.constant(x))
        assert [array.tolist() for array in found] == [tensor.numpy().tolist() for tensor in expected]
