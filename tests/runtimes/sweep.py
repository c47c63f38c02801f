"""The sweep that proves the list of ops that LiteRT runs: every op in both executors, on awkward numbers.

A row is a function of ``Inputs``: of one op, or of several that are proven for the same numbers; many rows are one
converted program. The outputs and the gradients of each floating-point output are compared.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from axonrl.policies.interpreter import LiteProgram
from axonrl.runtimes.litert import op_allowlist
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.op_allowlist import DOMAINS

Tensor = Any
Array = Any
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 6.0, 6.0000005, 3.1415927, -3.1415927, 0.999999),
    *(-0.999999, 1.000001, 0.9, 1.1, 1e-3, -1e-3, 1e-7, -1e-7, 1e-30, -1e-30, 10.0, -10.0, 20.0, -20.0, 88.0, -88.0),
    *(88.7, -88.7, 104.0, -104.0, 1e4, -1e4, 1e7, -1e7, 16777217.0, 1e20, -1e20, 8e37, 3e38, -3e38),
    *(np.nan, np.inf, -np.inf),
)
INTEGERS = (0, 1, -1, 2, -2, 3, 7, -7, 100, -100, 255, 256, 65536, -65536, 2**31 - 1, -(2**31))
ROOTS = (-np.inf, 8e37)
"""Where LiteRT's square roots and logarithms are right."""
INCOMING = (1.0, 0.0, -2.5)
"""The gradients of a row's outputs, by row of the inputs: 0 is what a guard hands on for what it left out."""


class Inputs(NamedTuple):
    """``x``, ``y`` are awkward floats, ``z`` and ``w`` ordinary ones, ``i`` and ``j`` awkward integers; all [3, N]."""

    x: Tensor
    y: Tensor
    z: Tensor
    w: Tensor
    i: Tensor
    j: Tensor
    bits: Tensor
    long: Tensor
    byte: Tensor
    small: Tensor
    incoming: Tensor
    double: Tensor


@dataclasses.dataclass(frozen=True)
class Row:
    """``function`` of the inputs, and where and how closely its results must agree.

    Args:
        function: returns a tensor [3, ...], or a list of such.
        domain: which finite numbers of the ``operand`` are compared; NaN and infinities always are.
        operand: of the inputs.
        bound: relative.
        absolute: what may be added to it; the default is that of denormal numbers, which LiteRT may take for 0.
        gradient: compare gradients.
        free: with a batch axis of any size, as an actor has it; else of a known one, as a learner has it.
    """

    function: Callable[[Inputs], Any]
    domain: tuple[float, float] = (-np.inf, np.inf)
    operand: str = "x"
    bound: float = 1e-5
    absolute: float = 2e-38
    gradient: bool = True
    free: bool = True


def inputs() -> Inputs:
    rng = np.random.default_rng(0)
    floats, integers = np.array(FLOATS, np.float32), np.array(INTEGERS, np.int32)
    z, w = (rng.standard_normal((3, 48)).astype(np.float32) for _ in range(2))
    z[0, :2], z[2, :6] = 0, z[2, 6:12]  # zeros and equal numbers
    return Inputs(
        x=np.stack([floats] * 3),
        y=np.stack([rng.permutation(floats) for _ in range(3)]),
        z=z,
        w=w,
        i=np.stack([integers] * 3),
        j=np.stack([rng.permutation(integers) for _ in range(3)]),
        bits=rng.random((3, 48)) < 0.5,
        long=np.stack([integers] * 3).astype(np.int64),
        byte=rng.integers(0, 256, (3, 16)).astype(np.uint8),
        small=rng.integers(-128, 128, (3, 16)).astype(np.int8),
        incoming=np.array(INCOMING, np.float32),
        double=np.stack([floats] * 3).astype(np.float64),
    )


def of(function: Callable[[Tensor], Any], **how: Any) -> Row:
    """A row of a function of one awkward float."""
    return Row(lambda given: function(given.x), **how)


def of_two(function: Callable[[Tensor, Tensor], Any], **how: Any) -> Row:
    return Row(lambda given: function(given.x, given.y), **how)


def of_tame(function: Callable[[Tensor], Any], **how: Any) -> Row:
    """Of ordinary floats: where numbers are added up, both executors round in another order."""
    return Row(lambda given: function(given.z), **{"absolute": 1e-6, **how})


def of_integer(function: Callable[[Tensor], Any], **how: Any) -> Row:
    return Row(lambda given: function(given.i), gradient=False, **how)


def of_integers(function: Callable[[Tensor, Tensor], Any]) -> Row:
    return Row(lambda given: function(given.i, given.j), gradient=False)


def _filter(*shape: int) -> Tensor:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _image(z: Tensor) -> Tensor:
    return tf.reshape(z, [-1, 6, 8, 1])


def _compared(x: Tensor, y: Tensor) -> list[Tensor]:
    comparisons = tf.less, tf.less_equal, tf.greater, tf.greater_equal, tf.equal, tf.not_equal
    return [compare(x, y) for compare in comparisons]


def _parts(x: Tensor, columns: int, stacked: bool = True) -> list[Tensor]:
    """What is done to tensors that only select or name things."""
    parts = [x[:, 1:3], tf.reshape(x, [-1, columns]), tf.gather(x, [1, 0]), tf.concat([x, x], 0), tf.expand_dims(x, 1)]
    return [*parts, tf.stack([x, x], 1)] if stacked else parts


def _loop(z: Tensor) -> Tensor:
    return tf.while_loop(
        lambda k, a: k < 5, lambda k, a: (k + 1, a * 0.5 + tf.gather(z, k % 3)), (0, tf.zeros_like(z[0]))
    )[1]


def adam(gradient: Tensor, *variables: Any, **how: bool) -> list[Tensor]:
    """A step of Adam on weights, first and second moment, and all three after it."""
    var, m, v = (variable.handle for variable in variables)
    powers = {"beta1_power": 0.5, "beta2_power": 0.9, "beta1": 0.9, "beta2": 0.99}
    tf.raw_ops.ResourceApplyAdam(var=var, m=m, v=v, grad=gradient, lr=0.1, epsilon=1e-7, **powers, **how)
    return [variable.read_value() for variable in variables]


STATE = [tf.Variable(tf.zeros([3, 48])) for _ in range(3)]
"""Weights and moments of Adam; a row sets them."""


def _adam(given: Inputs) -> list[Tensor]:
    """Every awkward gradient with other awkward moments; the second within ``ROOTS``."""
    second = tf.abs(given.x[:, ::-1])
    second = tf.where(tf.math.is_finite(second) & (second > ROOTS[1]), 1.0, second)
    for variable, value in zip(STATE, (given.z, given.y, second), strict=True):
        variable.assign(value)
    return adam(given.x, *STATE)


def rows() -> dict[str, Row]:
    raw, nn, math = tf.raw_ops, tf.nn, tf.math
    return {
        # pointwise
        "simple": of(lambda x: [tf.abs(x), -x, tf.sign(x), tf.square(x), math.reciprocal(x), nn.softsign(x)]),
        "relu": of(lambda x: [nn.relu(x), nn.relu6(x), nn.leaky_relu(x)]),
        "rounding": of(lambda x: [tf.floor(x), math.ceil(x), tf.round(x), math.rint(x)]),
        "kinds": of(lambda x: [math.is_finite(x), math.is_inf(x), math.is_nan(x)]),
        "constant": of(lambda x: [tf.zeros_like(x), tf.ones_like(x), x + tf.stop_gradient(tf.square(x))]),
        "sqrt": of(tf.sqrt, domain=DOMAINS["Sqrt"]),
        "rsqrt": of(math.rsqrt, domain=DOMAINS["Rsqrt"]),
        "exp": of(tf.exp, domain=DOMAINS["Exp"]),
        "expm1": of(math.expm1, domain=DOMAINS["Expm1"]),
        "log": of(math.log, domain=DOMAINS["Log"]),
        "log1p": of(math.log1p, domain=DOMAINS["Log1p"]),
        "sin": of(tf.sin, domain=DOMAINS["Sin"], absolute=1e-6),
        "cos": of(tf.cos, domain=DOMAINS["Cos"], absolute=1e-6),
        "tanh": of(tf.tanh, absolute=1e-6),
        "sigmoid": of(tf.sigmoid, domain=DOMAINS["Sigmoid"]),
        "softplus": of(nn.softplus, domain=DOMAINS["Softplus"], absolute=1e-7),
        "units": of(lambda x: [nn.elu(x), nn.selu(x), math.atanh(x)], absolute=1e-7),
        "erf": of(math.erf, absolute=5e-7),
        "erfc": of(math.erfc, absolute=1e-6),
        # of two
        "arithmetic": of_two(lambda x, y: [x + y, x - y, x * y, x / y, math.squared_difference(x, y)]),
        "no nan": of_two(lambda x, y: [f(x, y) for f in (math.divide_no_nan, math.multiply_no_nan, math.xdivy)]),
        "extremes": of_two(lambda x, y: [tf.maximum(x, y), tf.minimum(x, y)]),
        "remainders": of_two(lambda x, y: [x // y, math.floormod(x, y)]),
        "xlogy": of_two(math.xlogy, domain=DOMAINS["Xlogy"], operand="y"),
        "xlog1py": of_two(math.xlog1py, domain=DOMAINS["Xlog1py"], operand="y"),
        "comparisons": of_two(_compared),
        "select": of_two(lambda x, y: [tf.where(x > y, x, y), raw.Select(condition=x[:, 3] > y[:, 3], x=x, y=y)]),
        "atan2": of_two(tf.atan2),
        "power": Row(lambda v: tf.pow(tf.abs(v.z) + 0.1, v.w), absolute=1e-6),
        "decay": Row(lambda v: tf.pow(0.99, tf.abs(v.w) * 1e3)),
        "power of any": of_two(tf.pow, gradient=False),
        "add n": of(lambda x: tf.add_n([x, x * 0.5, x])),
        "powers": of(lambda x: [tf.pow(x, n) for n in (2.0, 3.0, -1.0, -0.5)], domain=(-8e37, 8e37)),
        "to the 0.5": of(lambda x: tf.pow(x, 0.5), domain=ROOTS),
        # guards
        "guarded roots": of(
            lambda x: [
                *(tf.where(x > 0, function(x), 0.0) for function in (tf.sqrt, math.rsqrt, math.log)),
                tf.where(x > -1, math.log1p(x), 0.0),
            ],
            domain=ROOTS,
        ),
        "guarded div": of_two(lambda x, y: [tf.where(y == 0, 0.0, x / y), tf.where(y == 0, 0.0, x // y)]),
        "guarded exp": of(lambda x: tf.where(x < 50, tf.exp(x), 0.0), domain=(-np.inf, 88)),
        "entropy": Row(lambda v: nn.sigmoid(v.z) * math.log(nn.sigmoid(v.z)), absolute=1e-6),
        "near 1": Row(lambda v: math.log(1 - 1e-4 * tf.abs(v.z)), bound=1e-3),
        # sums, products, orders
        "reductions": of_tame(
            lambda z: [
                tf.reduce_sum(z, -1, keepdims=True),
                *(f(z, -1) for f in (tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min)),
                tf.reduce_max(z[0], 0),
            ]
        ),
        "prod": of_tame(lambda z: tf.reduce_prod(z[:, :6], -1), gradient=False),
        "any and all": of(lambda x: [tf.reduce_any(x > 1e7, -1), tf.reduce_all(x > 1e7, -1)]),
        "cumsum": of_tame(lambda z: [tf.cumsum(z, -1), tf.cumsum(z, -1, True, True)], absolute=1e-5),
        "places": of_tame(lambda z: [tf.argmax(z, -1), tf.argmax(z, -1, tf.int32), tf.argmin(z, -1, tf.int32)]),
        "order": of_tame(lambda z: [math.top_k(z[:2], 5)[0], tf.sort(z[:2], -1)]),
        "softmax": of_tame(lambda z: [nn.softmax(z), nn.log_softmax(z), nn.l2_loss(z), tf.reduce_logsumexp(z, -1)]),
        "log softmax, far": of_tame(lambda z: nn.log_softmax(z * 30), absolute=2e-5),
        "sparse cross-entropy": Row(
            lambda v: nn.sparse_softmax_cross_entropy_with_logits(v.i[:, 3] % 5, v.z[:, :5]), absolute=1e-6, free=False
        ),
        "cross-entropy": Row(
            lambda v: nn.softmax_cross_entropy_with_logits(nn.softmax(v.w), v.z), absolute=1e-5, free=False
        ),
        "matmul": Row(
            lambda v: [
                v.z @ tf.reshape(v.w, [48, 3]),
                tf.matmul(v.z, v.w, transpose_b=True),
                tf.matmul(tf.reshape(v.z, [48, 3]), v.w, transpose_a=True, transpose_b=True),
                nn.relu(v.z @ tf.reshape(v.w, [48, 3])),
                tf.reduce_sum(tf.boolean_mask(v.z, v.w[:, 0] > 0), 0),
            ],
            absolute=1e-5,
            free=False,
        ),
        "batched matmul": Row(
            lambda v: [
                tf.reshape(v.z, [-1, 6, 8]) @ tf.reshape(v.w, [-1, 8, 6]),
                tf.einsum("bi,bj->bij", v.z[:, :4], v.w[:, :5]),
                nn.bias_add(v.z, v.w[0]),
            ],
            absolute=1e-5,
        ),
        "segment sum": of_tame(lambda z: math.unsorted_segment_sum(tf.transpose(z), tf.range(48) % 5, 6), free=False),
        # what only moves numbers
        "shapes": of(
            lambda x: [
                tf.reshape(x, [-1, 2, 24]),
                tf.expand_dims(x, 1),
                tf.squeeze(x[:, None], 1),
                tf.transpose(tf.reshape(x, [-1, 2, 24]), [0, 2, 1]),
            ]
        ),
        "joined": of_two(lambda x, y: [tf.concat([x, y], -1), tf.concat([x, y], 0), tf.stack([x, y], 1)]),
        "split": of(lambda x: [*tf.unstack(x, axis=-1)[3:5], *tf.split(x, 2, -1), *tf.split(x, [5, 43], -1)]),
        "slice": of(lambda x: [tf.slice(x, [0, 3], [-1, 5]), x[:, 1:20], x[:, 7], x[..., None, 3:5]]),
        "slice, steps": of(lambda x: x[:, 1:20:3], gradient=False),
        "pad": of(lambda x: [tf.pad(x, [[0, 0], [2, 1]]), tf.pad(x, [[0, 0], [2, 1]], constant_values=7.0)]),
        "mirror": of(lambda x: tf.pad(x, [[0, 0], [2, 1]], "REFLECT"), gradient=False),
        "tile": of(lambda x: [tf.tile(x, [1, 2]), tf.reverse(x, [-1])]),
        "broadcast": of(lambda x: tf.broadcast_to(x[:, :1], [3, 4]), free=False),
        "gather": of_tame(
            lambda z: [tf.gather(z, [2, 1, 1, 0], axis=0), tf.gather_nd(z, [[2, 3], [0, 1]])], free=False
        ),
        "gather, columns": of_tame(lambda z: tf.gather(z, [3, 1, 0], axis=-1)),
        "gather, batched": Row(lambda v: tf.gather(v.z, v.i[:, 2:4] % 5, axis=1, batch_dims=1)),
        "scatter": of_tame(
            lambda z: [tf.scatter_nd([[1], [0]], z[:2], [3, 48]), tf.tensor_scatter_nd_add(z, [[1], [0]], z[:2])]
        ),
        "one hot": of_integer(lambda i: [tf.one_hot(i, 5), tf.one_hot(i, 5, on_value=3.0, off_value=-1.0)]),
        "fill": of_tame(lambda z: tf.fill([3, 2], tf.reduce_max(z)), gradient=False, free=False),
        "shape": of(lambda x: tf.zeros(tf.shape(x)) + tf.cast(tf.size(x), tf.float32), gradient=False),
        "range": of(lambda x: [tf.range(5.0) * x[:, 7:8], tf.linspace(0.0, 1.0, 7) * x[:, 7:8]]),
        "diag": of_tame(lambda z: tf.linalg.diag(z[:, :4]), gradient=False),
        "band": of_tame(lambda z: tf.linalg.band_part(tf.reshape(z, [-1, 6, 8]), 1, 2)),
        # integers
        "int arithmetic": of_integers(lambda i, j: [i + j, i - j, i * j, tf.maximum(i, j), tf.minimum(i, j)]),
        "int div": of_integers(lambda i, j: [i // tf.where(j == 0, 1, j), i % tf.where(j == 0, 1, j)]),
        "int comparisons": of_integers(lambda i, j: [*_compared(i, j), tf.where(i > j, i, j)]),
        "int simple": of_integer(lambda i: [tf.abs(i), -i, tf.sign(i), tf.square(i), tf.pow(i % 5, 3)]),
        "int xor": of_integers(tf.bitwise.bitwise_xor),
        "int reductions": of_integer(
            lambda i: [
                *(f(i, -1) for f in (tf.reduce_sum, tf.reduce_max, tf.reduce_min, tf.cumsum)),
                tf.reduce_prod(i % 3 + 1, -1),
                tf.argmax(i, -1, tf.int32),
                math.top_k(i[:2], 3)[0],
            ]
        ),
        "int joined": of_integers(lambda i, j: [tf.concat([i, j], -1), tf.stack([i, j], 1)]),
        "int parts": of_integer(
            lambda i: [
                tf.gather(i, [2, 0]),
                tf.unstack(i, axis=-1)[3],
                i[:, 1:4],
                tf.reshape(i, [-1, 2, 8]),
                tf.squeeze(tf.expand_dims(i, 1), 1),
                tf.tile(i, [1, 2]),
                tf.pad(i, [[0, 0], [2, 1]]),
                *tf.split(i, [5, 11], -1),
                tf.zeros_like(i) + tf.ones_like(i),
                tf.reverse(i, [-1]),
            ]
        ),
        "int range": of_integer(lambda i: tf.range(tf.reduce_max(i % 5) + 3)),
        "int of known size": of_integer(
            lambda i: [tf.transpose(i), tf.fill([3, 2], tf.reduce_max(i)), tf.broadcast_to(i[:, :1], [3, 4])],
            free=False,
        ),
        "long": Row(
            lambda v: [
                *(v.long + 3, v.long - 3, v.long * 1000003, v.long % 7),
                *(tf.maximum(v.long, 7), tf.minimum(v.long, 7)),
                *(*_compared(v.long, tf.constant(7, tf.int64)), tf.where(v.long > 7, v.long, -v.long)),
            ],
            gradient=False,
        ),
        "long parts": Row(lambda v: _parts(v.long, 8), gradient=False),
        # bits and bytes
        "bits": Row(
            lambda v: [
                *(v.bits & (v.z > 0), v.bits | (v.z > 0), ~v.bits, tf.where(v.bits, v.bits, v.z > 0)),
                *(tf.equal(v.bits, v.z > 0), tf.not_equal(v.bits, v.z > 0)),
            ],
            gradient=False,
        ),
        "bits parts": Row(lambda v: _parts(v.bits, 24), gradient=False),
        "byte parts": Row(lambda v: [*_parts(v.byte, 8, stacked=False), tf.transpose(v.byte)], gradient=False),
        # casts
        "casts": Row(
            lambda v: [
                *(tf.cast(v.bits, t) for t in (tf.float32, tf.int32, tf.int64)),
                *(tf.cast(v.byte, t) for t in (tf.float32, tf.int32, tf.int64)),
                *(tf.cast(v.small, t) for t in (tf.float32, tf.int32)),
                *(tf.cast(v.i, t) for t in (tf.float32, tf.int64, tf.bool)),
                *(tf.cast(v.long, t) for t in (tf.float32, tf.int32, tf.bool)),
                *(tf.cast(v.z * 100, tf.int32), tf.cast(v.z * 100, tf.int64), tf.cast(v.x, tf.bool)),
                tf.cast(v.double, tf.float32),
            ],
            gradient=False,
        ),
        # images, forward
        "images": of_tame(
            lambda z: [
                nn.conv2d(_image(z), _filter(3, 3, 1, 2), 1, "SAME"),
                nn.conv2d(_image(z), _filter(3, 3, 1, 2), 2, "VALID"),
                nn.depthwise_conv2d(tf.reshape(z, [-1, 6, 4, 2]), _filter(3, 3, 2, 1), [1, 1, 1, 1], "SAME"),
                nn.max_pool2d(_image(z), 2, 2, "VALID"),
                nn.avg_pool2d(_image(z), 2, 2, "VALID"),
            ],
            gradient=False,
        ),
        # variables
        "adam": Row(_adam, gradient=False, free=False),
        # control
        "branch": of_tame(lambda z: tf.cond(tf.reduce_sum(z) > 0, lambda: z * 2, lambda: z - 1), gradient=False),
        "loop": of_tame(_loop, gradient=False, free=False),
    }


class Swept(NamedTuple):
    """What came of a row: the ops that it is made of, with their types, and where the executors differ."""

    ops: frozenset[tuple[str, str]]
    differences: tuple[str, ...]


def sweep(chosen: Mapping[str, Row]) -> dict[str, Swept]:
    """Run these rows, forward and their gradients, in both executors."""
    given = inputs()
    ops: dict[str, set[tuple[str, str]]] = {name: set() for name in chosen}
    forward = _traced(_forward, chosen, ops, [None, *given.x.shape[1:]])
    backward = _traced(_backward, chosen, ops, given.x.shape)
    content = convert({"forward": forward, "backward": backward}, STATE)
    signatures = LiteProgram(content).signatures
    signatures["set"]([variable.numpy() for variable in STATE])
    found: dict[str, list[str]] = {name: [] for name in chosen}
    for way, function in (("forward", forward), ("backward", backward)):
        expected = function(*map(tf.constant, given))
        signature = signatures[way]
        signature.resize([np.array(array.shape, np.int32) for array in given])
        flat = iter(signature(list(given)))
        for name in sorted(expected):
            for i, a in enumerate(expected[name]):
                found[name] += _differences(f"{way} {i}", chosen[name], given, a.numpy(), next(flat))
    return {name: Swept(frozenset(ops[name]), tuple(found[name])) for name in chosen}


def _traced(make: Any, chosen: Mapping[str, Row], ops: dict[str, set[tuple[str, str]]], shape: Sequence[Any]) -> Any:
    def call(*tensors: Tensor) -> dict[str, list[Tensor]]:
        graph = tf.compat.v1.get_default_graph()
        outputs = {}
        for name, row in chosen.items():
            before = len(graph.get_operations())
            outputs[name] = make(row, Inputs(*tensors))
            for op in graph.get_operations()[before:]:
                ops[name] |= set(_kinds(graph, op.node_def))
        return {name: tensors for name, tensors in outputs.items() if tensors}

    specs = [tf.TensorSpec([shape[0], *array.shape[1:]], array.dtype) for array in inputs()]
    return tf.function(call, autograph=False).get_concrete_function(*specs)


def _kinds(graph: Any, node: Any) -> Iterator[tuple[str, str]]:
    yield node.op, op_allowlist.type_of(node)
    for attribute in node.attr.values():
        for called in (attribute.func, *attribute.list.func):
            if called.name:
                for inner in graph._get_function(called.name).graph.get_operations():
                    yield from _kinds(graph, inner.node_def)


def _forward(row: Row, given: Inputs) -> list[Tensor]:
    return _outputs(row, given) if row.free else []


def _backward(row: Row, given: Inputs) -> list[Tensor]:
    return [*([] if row.free else _outputs(row, given)), *(_gradients(row, given) if row.gradient else [])]


def _outputs(row: Row, given: Inputs) -> list[Tensor]:
    return [tf.cast(t, tf.int32) if t.dtype == tf.bool else t for t in tf.nest.flatten(row.function(given))]


def _gradients(row: Row, given: Inputs) -> list[Tensor]:
    outputs = [t for t in tf.nest.flatten(row.function(given)) if t.dtype == tf.float32]
    floats = [given.x, given.y, given.z, given.w]
    gradients = [gradient for t in outputs for gradient in tf.gradients(t, floats, _incoming(given, t))]
    return [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]


def _incoming(given: Inputs, output: Tensor) -> Tensor:
    if output.shape.rank == 0 or output.shape[0] != len(INCOMING):
        return tf.ones_like(output)
    return tf.reshape(given.incoming, [3] + [1] * (output.shape.rank - 1)) * tf.ones_like(output)


def _differences(way: str, row: Row, given: Inputs, expected: Array, found: Array) -> Iterator[str]:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        yield f"{way}: {expected.dtype}{expected.shape} became {found.dtype}{found.shape}"
        return
    if expected.dtype.kind == "f":
        with np.errstate(all="ignore"):
            close = np.abs(expected - found) <= row.bound * np.abs(expected) + row.absolute
        same = close | (expected == found) | (np.isnan(expected) & np.isnan(found))
    else:
        same = expected == found
    operand = getattr(given, row.operand)
    if same.shape == operand.shape and operand.dtype.kind == "f":
        low, high = row.domain
        same |= np.isfinite(operand) & ((operand < low) | (operand > high))
    for place in np.argwhere(~same)[:3]:
        where = tuple(place)
        at = f"x={given.x[where]:.7g}, y={given.y[where]:.7g}" if same.shape == given.x.shape else str(where)
        yield f"{way} at {at}: {found[where]:.7g} instead of {expected[where]:.7g}"
