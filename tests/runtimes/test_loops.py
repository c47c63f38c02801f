"""LiteRT programs: loops and branches make the handles of their variables themselves, and compute what they should."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from axonrl.policies.interpreter import LiteProgram
from axonrl.runtimes.litert import conversion
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.loops import with_own_handles

SCALAR = tf.TensorSpec([], tf.float32)
Made: TypeAlias = "tuple[Any, list[Any], list[float], list[list[float]]]"
"""A function of x, its variables, what these are at first, and what two calls with x = 1 return and make of them."""


def repeat(count: int, once: Callable[[], Any]) -> Any:
    return tf.while_loop(lambda i: i < count, lambda i: (once(), i + 1)[1:], [tf.constant(0)])[0]


def converted(function: Callable[[Any], Any], variables: list[Any]) -> bytes:
    traced = tf.function(function, autograph=False).get_concrete_function(SCALAR)
    return convert({"f": traced}, variables)


def results(content: bytes, values: list[float]) -> list[list[float]]:
    """What two calls with x = 1 return, each followed by what the variables are then."""
    signatures = LiteProgram(content).signatures
    signatures["set"]([np.array(value, np.float32) for value in values])
    found = []
    for _ in range(2):
        (y,) = signatures["f"]([np.array(1, np.float32)])
        found.append([float(y), *(float(value) for value in signatures["get"]([]))])
    return found


def handed_over(content: bytes) -> list[int]:
    """For each loop and conditional of a file, how many handles it is handed and hands on."""
    model = schema.ModelT.InitFromPackedBuf(content, 0)
    counts = []
    for graph in model.subgraphs:
        for operator in graph.operators:
            kind = model.operatorCodes[operator.opcodeIndex].builtinCode
            if kind in (schema.BuiltinOperator.WHILE, schema.BuiltinOperator.IF):
                kinds = [graph.tensors[tensor].type for tensor in (*operator.inputs, *operator.outputs)]
                counts.append(kinds.count(schema.TensorType.RESOURCE))
    return counts


def one_loop() -> Made:
    """Three times a += x, then b *= a; with x = 1 and from a, b = 0, 1: b = 1 * 2 * 3, then * 4 * 5 * 6."""
    a, b = tf.Variable(0.0), tf.Variable(1.0)

    def function(x: Any) -> Any:
        def once() -> None:
            a.assign_add(x)
            b.assign(b * a)

        repeat(3, once)
        return a + b

    return function, [a, b], [0.0, 1.0], [[9.0, 3.0, 6.0], [726.0, 6.0, 720.0]]


def loop_in_a_loop() -> Made:
    """Twice: three times a *= 2, then b += a; from a, b = 1, 0: b = 8 + 64; then a = 512, 4096."""
    a, b = tf.Variable(1.0), tf.Variable(0.0)

    def once() -> None:
        with tf.control_dependencies([repeat(3, lambda: a.assign(a * 2.0))]):
            b.assign_add(a.read_value())

    def function(x: Any) -> Any:
        repeat(2, once)
        return b + x

    return function, [a, b], [1.0, 0.0], [[73.0, 64.0, 72.0], [4_681.0, 4_096.0, 4_680.0]]


def the_same_loop_twice() -> Made:
    """A += 1 for three times, twice."""
    a = tf.Variable(0.0)
    loop = tf.function(lambda: repeat(3, lambda: a.assign_add(1.0)), autograph=False)

    def function(x: Any) -> Any:
        loop()
        loop()
        return a + x

    return function, [a], [0.0], [[7.0, 6.0], [13.0, 12.0]]


def a_variable_for_the_condition() -> Made:
    """A is doubled until it is 10: from 1 to 16; then not at all."""
    a = tf.Variable(1.0)

    def function(x: Any) -> Any:
        tf.while_loop(lambda i: a < 10.0, lambda i: (a.assign(a * 2.0), i + 1)[1:], [tf.constant(0)])
        return a + x

    return function, [a], [1.0], [[17.0, 16.0], [17.0, 16.0]]


def branches() -> Made:
    """Where a is 0 it becomes x, three times in a loop, and b = 10 a; else it becomes 0 again."""
    a, b = tf.Variable(0.0), tf.Variable(0.0)

    def function(x: Any) -> Any:
        def grow() -> Any:
            with tf.control_dependencies([repeat(3, lambda: a.assign_add(x))]):
                return tf.identity(b.assign(10.0 * a.read_value()))

        def shrink() -> Any:
            a.assign(0.0)
            return b + 0.0

        found = tf.cond(tf.equal(a, 0.0), grow, shrink)
        return found + a

    return function, [a, b], [0.0, 0.0], [[33.0, 3.0, 30.0], [30.0, 0.0, 30.0]]


LOOPS = [
    *((one_loop, 1), (loop_in_a_loop, 2), (the_same_loop_twice, 2)),
    *((a_variable_for_the_condition, 1), (branches, 2)),
]


@pytest.mark.parametrize(("make", "loops"), LOOPS)
def test_loops_compute_what_they_should_and_are_handed_no_handle(make: Callable[[], Made], loops: int) -> None:
    function, variables, values, expected = make()
    content = converted(function, variables)
    assert results(content, values) == expected
    assert handed_over(content) == [0] * loops


def test_the_converter_alone_hands_handles_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversion, "with_own_handles", lambda content: content)
    function, variables, _, _ = branches()
    assert min(handed_over(converted(function, variables))) > 0


def test_a_program_without_variables_in_loops_stays_as_it_is() -> None:
    x = tf.TensorSpec([3])
    traced = tf.function(lambda x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), [0, x])[1])
    content = convert({"f": traced.get_concrete_function(x)}, [])
    assert with_own_handles(content) is content


def test_constants_stay_aligned() -> None:
    """As the schema asks: LiteRT reads them in place."""
    a, table = tf.Variable(0.0), np.arange(100, dtype=np.float32)

    def function(x: Any) -> Any:
        repeat(3, lambda: a.assign_add(tf.reduce_sum(tf.constant(table) * x)))
        return a.read_value()

    content = converted(function, [a])
    start = np.frombuffer(content, np.uint8).__array_interface__["data"][0]
    model = schema.Model.GetRootAs(content)
    buffers = [model.Buffers(i).DataAsNumpy() for i in range(model.BuffersLength()) if model.Buffers(i).DataLength()]
    assert any(buffer.nbytes == table.nbytes for buffer in buffers)
    assert [(buffer.__array_interface__["data"][0] - start) % 16 for buffer in buffers] == [0] * len(buffers)
    assert results(content, [0.0]) == [[14_850.0, 14_850.0], [29_700.0, 29_700.0]]
