"""A digest of what functions do, not of what their parts are called."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.runtimes.litert.conversion import ConversionError
from axonrl.runtimes.litert.fingerprint import fingerprint

SPEC = tf.TensorSpec([2, 3])


def digest(function: Callable[..., Any], spec: Any = SPEC, variables: int = 2, name: str = "f", more: str = "") -> str:
    kept = [tf.Variable(np.zeros([3, 3], np.float32), name=f"v{i}") for i in range(variables)]
    traced = tf.function(lambda x: function(x, *kept), autograph=False).get_concrete_function(spec)
    return fingerprint({name: traced}, kept, more)


def base(x: Any, v: Any, w: Any) -> Any:
    y = tf.tanh(x @ v) * 2.0
    v.assign_sub(0.1 * w)
    return y


def test_a_second_trace_has_the_same() -> None:
    first = digest(base)
    assert len(first) == 64
    with tf.name_scope("elsewhere"):
        tf.Variable(0.0)
        assert digest(base) == first

    def renamed(x: Any, v: Any, w: Any) -> Any:
        with tf.name_scope("scope"):
            return base(x, v, w)

    assert digest(renamed) == first


def test_names_do_not_count_by_their_order_either() -> None:
    """TensorFlow sorts by name what must be done before: layer_10 comes before layer_9."""

    def named(*names: str) -> str:
        def function(x: Any, *variables: Any) -> Any:
            for name, variable in zip(names, variables, strict=True):
                variable.assign_add(variable, name=name)
            return x

        return digest(function)

    assert named("layer_8", "layer_9") == named("layer_9", "layer_10")


def through_inner(x: Any, v: Any, w: Any, factor: float = 2.0) -> Any:
    return tf.function(lambda y: tf.tanh(y) * factor, autograph=False)(x @ v)


def in_branch(x: Any, v: Any, w: Any, factor: float = 2.0) -> Any:
    return tf.cond(x[0, 0] > 0, lambda: v * factor, lambda: v - 1.0)


def in_loop(x: Any, v: Any, w: Any, factor: float = 2.0) -> Any:
    return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * factor), [0, x])


@pytest.mark.parametrize("function", [through_inner, in_branch, in_loop])
def test_functions_inside_count_by_what_they_do(function: Callable[..., Any]) -> None:
    def other(x: Any, v: Any, w: Any) -> Any:
        return function(x, v, w, factor=3.0)

    assert digest(function) == digest(function)
    assert digest(function) != digest(other)


def test_what_was_made_outside_counts_by_its_contents() -> None:
    """TensorFlow keeps small constants in the graph, and hands large ones in."""

    def shifting(by: Any) -> Callable[..., Any]:
        return lambda x, v, w: x[0, 0] + by

    zeros, ones = (tf.fill([200], tf.constant(number)) for number in (0.0, 1.0))
    assert digest(shifting(zeros)) == digest(shifting(tf.zeros([200])))
    assert digest(shifting(zeros)) != digest(shifting(ones))
    assert digest(shifting(zeros)) != digest(shifting(tf.zeros([200, 1])))


def test_a_table_from_outside_has_no_digest() -> None:
    keys = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1]), tf.constant([1, 0]))
    table: Any = tf.lookup.StaticHashTable(keys, 0)
    message = r"uses a resource \(such as a lookup table\) made outside model_fn"
    with pytest.raises(ConversionError, match=message):
        digest(lambda x, v, w: table.lookup(tf.cast(x, tf.int32)))


DIFFERENT: dict[str, dict[str, Any]] = {
    "another op": {"function": lambda x, v, w: (tf.sin(x @ v) * 2.0, v.assign_sub(0.1 * w))[0]},
    "another constant": {"function": lambda x, v, w: (tf.tanh(x @ v) * 2.5, v.assign_sub(0.1 * w))[0]},
    "another step": {"function": lambda x, v, w: (tf.tanh(x @ v) * 2.0, v.assign_sub(0.2 * w))[0]},
    "no step": {"function": lambda x, v, w: tf.tanh(x @ v) * 2.0},
    "the other variable": {"function": lambda x, v, w: (tf.tanh(x @ v) * 2.0, w.assign_sub(0.1 * w))[0]},
    "variables swapped": {"function": lambda x, v, w: base(x, w, v)},
    "an attribute": {
        "function": lambda x, v, w: (tf.tanh(tf.matmul(x, v, transpose_b=True)) * 2.0, v.assign_sub(0.1 * w))[0]
    },
    "another order of assigning and reading": {
        "function": lambda x, v, w: (v.assign_sub(0.1 * w), tf.tanh(x @ v) * 2.0)[1]
    },
    "one more output": {"function": lambda x, v, w: (base(x, v, w), w + 0.0)},
    "another batch": {"spec": tf.TensorSpec([4, 3])},
    "a free batch": {"spec": tf.TensorSpec([None, 3])},
    "one more variable": {"function": lambda x, v, w, u: base(x, v, w), "variables": 3},
    "another name": {"name": "g"},
    "another version": {"more": "2.0"},
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT)
def test_what_does_something_else_has_another(change: dict[str, Any]) -> None:
    assert digest(**{"function": base, **change}) != digest(base)


def test_inputs_outputs_shapes_and_types_count() -> None:
    def two(function: Callable[..., Any]) -> str:
        return fingerprint({"f": tf.function(function, autograph=False).get_concrete_function(SPEC, SPEC)}, [])

    assert two(lambda x, y: x - y) == two(lambda a, b: a - b)
    assert two(lambda x, y: x - y) != two(lambda x, y: y - x)

    def one(index: int) -> str:
        traced = tf.function(lambda x: tf.split(x, 3, axis=1)[index], autograph=False).get_concrete_function(SPEC)
        return fingerprint({"f": traced}, [])

    assert len({one(0), one(1), one(2)}) == 3
    traced = tf.function(lambda x: -x, autograph=False).get_concrete_function(SPEC)
    kept = [tf.Variable(value) for value in (0.0, [0.0], 0, np.float64(0))]
    assert len({fingerprint({"f": traced}, [variable]) for variable in kept}) == 4
    kept[0].assign(1.0)
    assert fingerprint({"f": traced}, [kept[0]]) == fingerprint({"f": traced}, [tf.Variable(5.0)])  # but not values
