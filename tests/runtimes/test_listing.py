"""The list of ops that LiteRT runs is what the sweep has proven, and what docs/executors.md shows."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import tensorflow as tf

from axonrl.runtimes.litert import op_allowlist
from axonrl.runtimes.litert.op_allowlist import LISTED, STRUCTURE
from axonrl.tests.runtimes.sweep import STATE, Swept, adam, rows, sweep

NAMES = list(rows())


@functools.cache
def swept(part: int) -> Mapping[str, Swept]:
    """A third of the rows: all at once would be the longest test."""
    return sweep({name: row for name, row in rows().items() if NAMES.index(name) % 3 == part})


@pytest.mark.parametrize("name", NAMES)
def test_both_executors_agree(name: str) -> None:
    assert swept(NAMES.index(name) % 3)[name].differences == ()


def test_the_list_is_what_the_sweep_has_proven() -> None:
    proven: dict[str, set[str]] = {}
    for part in range(3):
        for op, kind in {pair for result in swept(part).values() for pair in result.ops if pair[0] not in STRUCTURE}:
            proven.setdefault(op, set()).add(kind)
    assert {op: sorted(types) for op, types in LISTED.items()} == {op: sorted(types) for op, types in proven.items()}


def unproven(function: Callable[..., Any], *dtypes: tf.DType) -> str | None:
    specs = [tf.TensorSpec([4], dtype) for dtype in dtypes]
    return op_allowlist.find_unproven(tf.function(function, autograph=False).get_concrete_function(*specs).graph)


UNPROVEN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "stateful random op": (lambda y: y + tf.random.normal([4]), "op RandomStandardNormal"),
    "stateless random op": (lambda y: tf.nn.experimental.stateless_dropout(y, 0.5, seed=[1, 2]), "op Stateless"),
    "infinite constant": (lambda y: tf.where(y > 100, float("inf"), y), "an infinite constant"),
    "cast to bytes": (lambda y: tf.cast(y, tf.uint8), "op Cast of float32 to uint8"),
    "float64": (lambda y: tf.cast(tf.cast(y, tf.float64) * 2, tf.float32), "op "),
    "gradient of a slice with steps": (
        lambda y: tf.gradients(tf.square(y[::2]), y)[0],
        "op StridedSliceGrad of float32",
    ),
    "Adam with Nesterov's momentum": (
        lambda y: adam(y[0] + tf.zeros([3, 48]), *STATE, use_nesterov=True),
        "op ResourceApplyAdam of float32",
    ),
    "inside of a loop": (
        lambda y: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.math.lgamma(a)), (0, y))[1],
        "op Lgamma",
    ),
}


@pytest.mark.parametrize(("function", "found"), UNPROVEN.values(), ids=UNPROVEN)
def test_what_is_not_on_the_list_is_named(function: Callable[[Any], Any], found: str) -> None:
    assert (unproven(function, tf.float32) or "").startswith(found)


def test_types_that_litert_takes_for_quantized_numbers_are_not_on_the_list() -> None:
    assert unproven(lambda frames: tf.equal(frames, 3), tf.uint8) == "op Equal of uint8"
    assert unproven(tf.reduce_mean, tf.uint8) == "op Mean of uint8"


OF_TWINS = [tf.subtract, tf.divide, tf.maximum, tf.minimum, tf.math.squared_difference]
OF_TWINS += [lambda x, y: x.assign_add(y), lambda x, y: x.assign_sub(y)]


@pytest.mark.parametrize("op", OF_TWINS)
def test_ops_of_a_variable_and_itself_that_end_the_process(op: Callable[[Any, Any], Any]) -> None:
    variable, other = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    assert (unproven(lambda: op(variable, variable)) or "").endswith(" of a variable and itself")
    assert unproven(lambda: op(variable, other)) is None


def test_guards_and_inner_functions_are_on_the_list() -> None:
    assert unproven(lambda y: tf.where(y > 0, tf.sqrt(y), 0.0), tf.float32) is None
    assert unproven(lambda y: tf.gradients(tf.function(tf.nn.relu)(y), y)[0], tf.float32) is None
    assert unproven(lambda y: y**0.5, tf.float32) is None
