"""What is rewritten before a conversion: against TensorFlow's own, alone and in a program that trains."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.policies.interpreter import LiteProgram
from axonrl.runtimes.litert import op_rewrites
from axonrl.runtimes.litert.conversion import convert

Make = Callable[..., Any]
nan, inf = math.nan, math.inf
TINY = float(np.finfo(np.float32).tiny)
AWKWARD = [
    *(nan, inf, -inf, 0.0, -0.0, 6.0, np.nextafter(np.float32(6), 7), 1.0, -1.0, 1e30, -1e30, TINY, -TINY, -0.25, 3.5)
]


def gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *more: tf.gradients(function(x, *more), x)[0]


def rewritten(function: Callable[..., Any], *specs: Any) -> tuple[set[str], Callable[..., Any]]:
    """The ops of a function whose library was rewritten, and a function that runs it in TensorFlow."""
    inner = tf.function(function, autograph=False)
    outer = tf.function(lambda *inputs: inner(*inputs), autograph=False).get_concrete_function(*specs)  # noqa: PLW0108
    definition = outer.graph.as_graph_def()
    op_rewrites.rewrite(definition.library)
    names = [tensor.name for tensor in outer.graph.inputs]

    def run(*inputs: Any) -> Any:
        with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
            (output,) = tf.graph_util.import_graph_def(definition, return_elements=[outer.graph.outputs[0].name])
            return session.run(output, {f"import/{name}": value for name, value in zip(names, inputs, strict=True)})

    return {node.op for body in definition.library.function for node in body.node_def}, run


ADAM = [tf.Variable(value) for value in ([5.0] * 4, [2.0, 2.0, 0.0, 0.0], [0.0, inf, 0.0, 0.0])]
"""Weights, first and second moments."""


def adam_step(gradient: Any, **how: bool) -> Any:
    """The weights after a step of Adam, in a branch of an inner function, read by what waits for the op alone."""
    powers = {"beta1_power": 0.5, "beta2_power": 0.75}  # of the first step
    settings = {**powers, "lr": 0.5, "beta1": 0.5, "beta2": 0.75, "epsilon": 1.0}
    var, m, v = (variable.handle for variable in ADAM)

    def step() -> Any:
        op = tf.raw_ops.ResourceApplyAdam(var=var, m=m, v=v, grad=gradient, **settings, **how)
        with tf.control_dependencies([op]):
            return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in (var, m, v)]

    return tf.concat(tf.cond(tf.reduce_sum(gradient) < 0, lambda: [tf.zeros(4)] * 3, step), 0)


def test_a_step_of_adam_in_litert() -> None:
    """By hand: m = m + (g - m) / 2, v = v + (g * g - v) / 4, weight = weight - m / 2 / (sqrt(v) + 1) * 0.5 / 0.5.

    An infinite second moment becomes NaN, so that weights do not silently stop; a gradient whose square overflows
    makes it infinite.
    """
    for variable, value in zip(ADAM, ([5.0] * 4, [2.0, 2.0, 0.0, 0.0], [0.0, inf, 0.0, 0.0]), strict=True):
        variable.assign(value)
    concrete = tf.function(adam_step, autograph=False).get_concrete_function(tf.TensorSpec([4]))
    signatures = LiteProgram(convert({"f": concrete}, ADAM)).signatures
    signatures["set"]([variable.numpy() for variable in ADAM])
    gradient = np.array([4, 4, 0, 1e20], np.float32)
    expected = [[4.5, nan, 5, 5], [3, 3, 0, 5e19], [4, nan, 0, inf]]
    for found in (*signatures["f"]([gradient]), concrete(tf.constant(gradient))):
        np.testing.assert_allclose(np.reshape(found, (3, 4)), expected, rtol=1e-6)
    assert signatures["f"]([-gradient])[0].tolist() == [0] * 12


SLICES = {
    "last column": lambda x: x[:, -1],
    "from the end": lambda x: x[-3:-1],
    "ellipsis in the middle": lambda x: x[1:, ..., 0],
    "ellipsis of nothing": lambda x: x[:, 1:3, ..., 0],
    "new axis, ellipsis and a number": lambda x: x[None, ..., None, 1],
    "without a beginning": lambda x: x[:2, :4],
    "beyond the end": lambda x: x[:, 2:100],
    "the end before the beginning": lambda x: x[3:1],
}


@pytest.mark.parametrize("take", SLICES.values(), ids=SLICES)
def test_gradients_of_slices(take: Make) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    gradient = gradient_of(lambda x: tf.square(take(x)))
    ops, run = rewritten(gradient, tf.TensorSpec(x.shape))
    assert "StridedSliceGrad" not in ops
    np.testing.assert_array_equal(run(x), tf.function(gradient)(tf.constant(x)))
    if take(x).size:
        assert np.any(run(x))


@pytest.mark.parametrize(
    ("function", "op", "specs"),
    [
        (gradient_of(lambda x: x[::2]), "StridedSliceGrad", [tf.TensorSpec([5])]),
        (gradient_of(lambda x, n: x[n:]), "StridedSliceGrad", [tf.TensorSpec([5]), tf.TensorSpec([], tf.int32)]),
        (gradient_of(lambda x: x[1:]), "StridedSliceGrad", [tf.TensorSpec([None])]),
        (gradient_of(tf.nn.leaky_relu), "LeakyReluGrad", [tf.TensorSpec([5], tf.float64)]),
        (lambda x: tf.tanh(x) * x, "Mul", [tf.TensorSpec([5])]),
        (lambda x: x / tf.tanh(x), "RealDiv", [tf.TensorSpec([5])]),
        (lambda x: x - tf.tanh(x), "Sub", [tf.TensorSpec([5])]),
        (lambda x: x**0.3, "Pow", [tf.TensorSpec([5])]),
        (lambda n: n - n, "Sub", [tf.TensorSpec([5], tf.int32)]),
        (functools.partial(adam_step, use_nesterov=True), "ResourceApplyAdam", [tf.TensorSpec([4])]),
    ],
)
def test_what_is_not_in_the_table_is_left_alone(function: Make, op: str, specs: list[Any]) -> None:
    ops, _ = rewritten(function, *specs)
    assert op in ops
    assert "PartitionedCall" not in ops


@pytest.mark.parametrize("alpha", [None, 0.01])
def test_the_slope_of_leaky_relu_is_the_nodes(alpha: float | None) -> None:
    gradient = gradient_of(lambda x: tf.nn.leaky_relu(x) if alpha is None else tf.nn.leaky_relu(x, alpha))
    ops, run = rewritten(gradient, tf.TensorSpec([2]))
    assert "LeakyReluGrad" not in ops
    np.testing.assert_allclose(run([-1.0, 1.0]), [alpha or 0.2, 1], rtol=1e-6)


def test_an_op_whose_type_is_the_default_one_is_found_where_defaults_are_left_out() -> None:
    """A saved graph leaves them out, and to look for one must not put an empty one in."""
    inner = tf.function(gradient_of(tf.nn.leaky_relu), autograph=False)
    outer = tf.function(lambda x: inner(x), autograph=False).get_concrete_function(tf.TensorSpec([2]))  # noqa: PLW0108
    library = outer.graph.as_graph_def().library
    (node,) = [node for body in library.function for node in body.node_def if node.op == "LeakyReluGrad"]
    del node.attr["T"], node.attr["alpha"]
    op_rewrites.rewrite(library)
    assert node.op == "PartitionedCall"
    assert set(node.attr) == {"f", "Tin", "Tout"}


def plus_0(x: Any) -> Any:
    """NaN where x is not finite: so TensorFlow's clip_by_global_norm does not hide what overflowed."""
    return 1 / x + (x - x)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "log_sigmoid": tf.math.log_sigmoid,
    "1 / sqrt": lambda x: 1 / tf.sqrt(x),
    "cube's gradient": gradient_of(lambda x: x**3),
    "-5": lambda x: x**-5.0,
    "x - x": lambda x: x - x,
    "scalars": lambda x: tf.stack([plus_0(tf.reduce_max(x[start:stop])) for start, stop in ((0, 1), (1, 3), (4, 6))]),
    "log_softmax's gradient": gradient_of(lambda x: tf.nn.log_softmax(x)[0]),
    "logsumexp": tf.reduce_logsumexp,
    "clip_by_global_norm of 0": lambda x: tf.clip_by_global_norm([x[3:5]], 1.0)[0][0],
    "clip_by_global_norm of infinity": lambda x: tf.clip_by_global_norm([x[1:4]], 1.0)[0][0],
    "clip_by_global_norm of what overflows": lambda x: tf.clip_by_global_norm([x[9:12]], 1.0)[0][0],
    "quotient": lambda x: 3 / x,
    "the largest number": lambda x: tf.where(x > 0, x, tf.float32.min),
}
"""What the sweep does not run."""


def test_functions_of_awkward_numbers_in_litert() -> None:
    """Most were found to be other functions in LiteRT as it is, without a word, and some on some processors only."""
    x = np.array([v for v in AWKWARD if abs(v) != TINY and str(v) != "-0.0"] + [100, -30, 1e-8, 0.39, 0.41], np.float32)

    def program(x: Any) -> list[Any]:
        return [function(x) for function in FUNCTIONS.values()]

    concrete = tf.function(program, autograph=False).get_concrete_function(tf.TensorSpec(x.shape))
    found = LiteProgram(convert({"f": concrete}, [])).signatures["f"]([x])
    for name, ours, theirs in zip(FUNCTIONS, found, concrete(tf.constant(x)), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-5, atol=1e-37, err_msg=name)


def test_relu_of_a_product_in_litert() -> None:
    """The converter makes one op of the two, which leaves relu out, unless there is a bias in between."""
    rng = np.random.default_rng(0)
    kernel = tf.Variable(rng.standard_normal((4, 5)).astype(np.float32))
    bias = tf.Variable(rng.standard_normal(5).astype(np.float32))
    x = rng.standard_normal((8, 4)).astype(np.float32)
    between: dict[str, Callable[[Any], Any]] = {
        "nothing": lambda y: y,
        "a bias": lambda y: y + bias,
        "a bias of 0": lambda y: y + 0.0,
        "another shape": lambda y: tf.reshape(y, [-1]),
        "a function": tf.function(lambda y: y),
    }
    relus: list[Callable[[Any], Any]] = [
        tf.nn.relu,
        tf.nn.relu6,
        lambda y: tf.maximum(y, 0.0),
        lambda y: tf.clip_by_value(y, -1.0, 1.0),
    ]

    def program(x: Any) -> list[Any]:
        return [relu(change(x @ kernel)) for relu in relus for change in between.values()]

    concrete = tf.function(program, autograph=False).get_concrete_function(tf.TensorSpec(x.shape))
    signatures = LiteProgram(convert({"f": concrete}, [kernel, bias])).signatures
    signatures["set"]([kernel.numpy(), bias.numpy()])
    found = iter(signatures["f"]([x]))
    expected = iter(concrete(tf.constant(x)))
    for i in range(len(relus)):
        for name in between:
            np.testing.assert_allclose(next(found), next(expected), rtol=1e-5, atol=1e-6, err_msg=f"{i}: {name}")


def test_variables_with_themselves() -> None:
    """LiteRT would end the process."""
    v, w, u, kernel = (
        tf.Variable(tf.fill(shape, value)) for shape, value in (([3], 2.0), ([3], 3.0), ([3], 5.0), ([2], 7.0))
    )

    def program() -> list[Any]:
        before = v.read_value()
        v.assign(v * v + 1)
        return [before, v * v, before * v, w + w, tf.nn.l2_loss(u), kernel * tf.reshape(kernel, [2])]

    concrete = tf.function(program, autograph=False).get_concrete_function()
    signatures = LiteProgram(convert({"f": concrete}, [v, w, u, kernel])).signatures
    signatures["set"]([v.numpy(), w.numpy(), u.numpy(), kernel.numpy()])
    found = [array.tolist() for array in signatures["f"]([])]
    assert found == [[2.0] * 3, [25.0] * 3, [10.0] * 3, [6.0] * 3, 37.5, [49.0] * 2]
    assert signatures["get"]([])[0].tolist() == [5.0] * 3
