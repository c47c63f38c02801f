"""The sweep that proves the list of ops that LiteRT runs: every op in both executors, on awkward numbers.

One row for each op, and for guards and dtypes that matter; all rows are one converted program. A row is a function of
``Inputs``; its outputs and the gradients of its floating-point outputs are compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from axonrl.policies.interpreter import LiteProgram
from axonrl.runtimes.litert import listing
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.listing import DOMAINS

Tensor = Any
Array = Any
FLOATS = (
    *(
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        -1.5,
        2.5,
        -2.5,
        6.0,
        6.0000005,
        3.1415927,
        -3.1415927,
        0.999999,
        -0.999999,
    ),
    *(1.000001, 0.9, 1.1, 1e-3, -1e-3, 1e-7, -1e-7, 1e-30, -1e-30, 10.0, -10.0, 20.0, -20.0, 88.0, -88.0, 88.7, -88.7),
    *(104.0, -104.0, 1e4, -1e4, 1e7, -1e7, 16777217.0, 1e20, -1e20, 8e37, 3e38, -3e38, np.nan, np.inf, -np.inf),
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


def of(function: Callable[[Tensor], Tensor], **how: Any) -> Row:
    """A row of a function of one awkward float."""
    return Row(lambda given: function(given.x), **how)


def of_two(function: Callable[[Tensor, Tensor], Tensor], **how: Any) -> Row:
    return Row(lambda given: function(given.x, given.y), **how)


def of_tame(function: Callable[[Tensor], Tensor], **how: Any) -> Row:
    """Of ordinary floats: where numbers are added up, both executors round in another order."""
    return Row(lambda given: function(given.z), **{"absolute": 1e-6, **how})


def of_integer(function: Callable[[Tensor], Tensor], **how: Any) -> Row:
    return Row(lambda given: function(given.i), gradient=False, **how)


def of_integers(function: Callable[[Tensor, Tensor], Tensor]) -> Row:
    return Row(lambda given: function(given.i, given.j), gradient=False)


def _filter(*shape: int) -> Tensor:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def _to_the(exponent: float) -> Callable[[Tensor], Tensor]:
    return lambda x: tf.pow(x, exponent)


def _loop(z: Tensor) -> Tensor:
    return tf.while_loop(
        lambda k, a: k < 5, lambda k, a: (k + 1, a * 0.5 + tf.gather(z, k % 3)), (0, tf.zeros_like(z[0]))
    )[1]


def rows() -> dict[str, Row]:
    raw, nn, math = tf.raw_ops, tf.nn, tf.math
    return {
        # pointwise
        "abs": of(tf.abs),
        "neg": of(tf.negative),
        "sign": of(tf.sign),
        "square": of(tf.square),
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
        "softsign": of(nn.softsign),
        "relu": of(nn.relu),
        "relu6": of(nn.relu6),
        "elu": of(nn.elu, absolute=1e-7),
        "selu": of(nn.selu, absolute=1e-7),
        "leaky relu": of(nn.leaky_relu),
        "erf": of(math.erf, absolute=5e-7),
        "erfc": of(math.erfc, absolute=1e-6),
        "atanh": of(math.atanh, absolute=1e-7),
        "floor": of(tf.floor),
        "ceil": of(math.ceil),
        "round": of(tf.round),
        "rint": of(math.rint),
        "reciprocal": of(math.reciprocal),
        "is finite": of(math.is_finite),
        "is inf": of(math.is_inf),
        "is nan": of(math.is_nan),
        "zeros": of(tf.zeros_like),
        "ones": of(tf.ones_like),
        "stop": of(lambda x: x + tf.stop_gradient(tf.square(x))),
        # of two
        "add": of_two(tf.add),
        "sub": of_two(tf.subtract),
        "mul": of_two(tf.multiply),
        "div": of_two(tf.divide),
        "div no nan": of_two(math.divide_no_nan),
        "mul no nan": of_two(math.multiply_no_nan),
        "maximum": of_two(tf.maximum),
        "minimum": of_two(tf.minimum),
        "squared difference": of_two(math.squared_difference),
        "floordiv": of_two(math.floordiv),
        "floormod": of_two(math.floormod),
        "xlogy": of_two(math.xlogy, domain=DOMAINS["Xlogy"], operand="y"),
        "xlog1py": of_two(math.xlog1py, domain=DOMAINS["Xlog1py"], operand="y"),
        "xdivy": of_two(math.xdivy),
        "less": of_two(tf.less),
        "less equal": of_two(tf.less_equal),
        "greater": of_two(tf.greater),
        "greater equal": of_two(tf.greater_equal),
        "equal": of_two(tf.equal),
        "not equal": of_two(tf.not_equal),
        "select": of_two(lambda x, y: tf.where(x > y, x, y)),
        "select by row": of_two(lambda x, y: raw.Select(condition=x[:, 3] > y[:, 3], x=x, y=y)),
        "atan2": of_two(tf.atan2),
        "power": Row(lambda v: tf.pow(tf.abs(v.z) + 0.1, v.w), absolute=1e-6),
        "decay": Row(lambda v: tf.pow(0.99, tf.abs(v.w) * 1e3)),
        "add n": of(lambda x: tf.add_n([x, x * 0.5, x])),
        **{f"to the {n}": of(_to_the(n), domain=(-8e37, 8e37)) for n in (2.0, 3.0, -1.0, -0.5)},
        "to the 0.5": of(lambda x: tf.pow(x, 0.5), domain=ROOTS),
        # guards
        "guarded sqrt": of(lambda x: tf.where(x > 0, tf.sqrt(x), 0.0), domain=ROOTS),
        "guarded rsqrt": of(lambda x: tf.where(x > 0, math.rsqrt(x), 0.0), domain=ROOTS),
        "guarded log": of(lambda x: tf.where(x > 0, math.log(x), 0.0), domain=ROOTS),
        "guarded log1p": of(lambda x: tf.where(x > -1, math.log1p(x), 0.0), domain=ROOTS),
        "guarded div": of_two(lambda x, y: tf.where(y == 0, 0.0, x / y)),
        "guarded floordiv": of_two(lambda x, y: tf.where(y == 0, 0.0, x // y)),
        "guarded exp": of(lambda x: tf.where(x < 50, tf.exp(x), 0.0), domain=(-np.inf, 88)),
        "entropy": Row(lambda v: nn.sigmoid(v.z) * math.log(nn.sigmoid(v.z)), absolute=1e-6),
        "near 1": Row(lambda v: math.log(1 - 1e-4 * tf.abs(v.z)), bound=1e-3),
        # sums, products, orders
        "sum": of_tame(lambda z: tf.reduce_sum(z, -1)),
        "sum, kept": of_tame(lambda z: tf.reduce_sum(z, -1, keepdims=True)),
        "mean": of_tame(lambda z: tf.reduce_mean(z, -1)),
        "max": of_tame(lambda z: tf.reduce_max(z, -1)),
        "min": of_tame(lambda z: tf.reduce_min(z, -1)),
        "prod": of_tame(lambda z: tf.reduce_prod(z[:, :6], -1), gradient=False),
        "any": of(lambda x: tf.reduce_any(x > 1e7, -1)),
        "all": of(lambda x: tf.reduce_all(x > 1e7, -1)),
        "cumsum": of_tame(lambda z: tf.cumsum(z, -1), absolute=1e-5),
        "cumsum, exclusive and reverse": of_tame(lambda z: tf.cumsum(z, -1, True, True), absolute=1e-5),
        "argmax": of_tame(lambda z: tf.argmax(z, -1)),
        "argmax, int32": of_tame(lambda z: tf.argmax(z, -1, tf.int32)),
        "argmin": of_tame(lambda z: tf.argmin(z, -1, tf.int32)),
        "top k": of_tame(lambda z: math.top_k(z[:2], 5)[0]),
        "sort": of_tame(lambda z: tf.sort(z[:2], -1)),
        "softmax": of_tame(nn.softmax),
        "log softmax": of_tame(nn.log_softmax),
        "log softmax, far": of_tame(lambda z: nn.log_softmax(z * 30), absolute=2e-5),
        "l2 loss": of_tame(nn.l2_loss),
        "logsumexp": of_tame(lambda z: tf.reduce_logsumexp(z, -1)),
        "sparse cross-entropy": Row(
            lambda v: nn.sparse_softmax_cross_entropy_with_logits(v.i[:, 3] % 5, v.z[:, :5]), absolute=1e-6, free=False
        ),
        "cross-entropy": Row(
            lambda v: nn.softmax_cross_entropy_with_logits(nn.softmax(v.w), v.z), absolute=1e-5, free=False
        ),
        "matmul": Row(lambda v: v.z @ tf.reshape(v.w, [48, 3]), absolute=1e-5, free=False),
        "matmul, transposed": Row(lambda v: tf.matmul(v.z, v.w, transpose_b=True), absolute=1e-5, free=False),
        "matmul, both transposed": Row(
            lambda v: tf.matmul(tf.reshape(v.z, [48, 3]), v.w, transpose_a=True, transpose_b=True),
            absolute=1e-5,
            free=False,
        ),
        "batched matmul": Row(lambda v: tf.reshape(v.z, [-1, 6, 8]) @ tf.reshape(v.w, [-1, 8, 6]), absolute=1e-5),
        "einsum": Row(lambda v: tf.einsum("bi,bj->bij", v.z[:, :4], v.w[:, :5]), absolute=1e-5),
        "bias": Row(lambda v: nn.bias_add(v.z, v.w[0]), absolute=1e-5),
        "relu of a product": Row(lambda v: nn.relu(v.z @ tf.reshape(v.w, [48, 3])), absolute=1e-5, free=False),
        "boolean mask": Row(lambda v: tf.reduce_sum(tf.boolean_mask(v.z, v.w[:, 0] > 0), 0), absolute=1e-5, free=False),
        "segment sum": of_tame(lambda z: math.unsorted_segment_sum(tf.transpose(z), tf.range(48) % 5, 6), free=False),
        # what only moves numbers
        "reshape": of(lambda x: tf.reshape(x, [-1, 2, 24])),
        "expand": of(lambda x: tf.expand_dims(x, 1)),
        "squeeze": of(lambda x: tf.squeeze(x[:, None], 1)),
        "transpose": of(lambda x: tf.transpose(tf.reshape(x, [-1, 2, 24]), [0, 2, 1])),
        "concat": of_two(lambda x, y: tf.concat([x, y], -1)),
        "concat, front": of_two(lambda x, y: tf.concat([x, y], 0)),
        "stack": of_two(lambda x, y: tf.stack([x, y], 1)),
        "unstack": of(lambda x: tf.unstack(x, axis=-1)[3:5]),
        "split": of(lambda x: tf.split(x, 2, -1)),
        "split, sizes": of(lambda x: tf.split(x, [5, 43], -1)),
        "slice": of(lambda x: tf.slice(x, [0, 3], [-1, 5])),
        "strided slice": of(lambda x: x[:, 1:20]),
        "strided slice, steps": of(lambda x: x[:, 1:20:3], gradient=False),
        "strided slice, one": of(lambda x: x[:, 7]),
        "ellipsis": of(lambda x: x[..., None, 3:5]),
        "reverse": of(lambda x: tf.reverse(x, [-1])),
        "pad": of(lambda x: tf.pad(x, [[0, 0], [2, 1]])),
        "pad, value": of(lambda x: tf.pad(x, [[0, 0], [2, 1]], constant_values=7.0)),
        "tile": of(lambda x: tf.tile(x, [1, 2])),
        "broadcast": of(lambda x: tf.broadcast_to(x[:, :1], [3, 4]), free=False),
        "gather": of_tame(lambda z: tf.gather(z, [2, 1, 1, 0], axis=0), free=False),
        "gather, columns": of_tame(lambda z: tf.gather(z, [3, 1, 0], axis=-1)),
        "gather, batched": Row(lambda v: tf.gather(v.z, v.i[:, 2:4] % 5, axis=1, batch_dims=1)),
        "gather nd": of_tame(lambda z: tf.gather_nd(z, [[2, 3], [0, 1]]), free=False),
        "one hot": of_integer(lambda i: tf.one_hot(i, 5)),
        "one hot, values": of_integer(lambda i: tf.one_hot(i, 5, on_value=3.0, off_value=-1.0)),
        "fill": of_tame(lambda z: tf.fill([3, 2], tf.reduce_max(z)), gradient=False, free=False),
        "shape": of(lambda x: tf.zeros(tf.shape(x)) + tf.cast(tf.size(x), tf.float32), gradient=False),
        "range": of(lambda x: tf.range(5.0) * x[:, 7:8]),
        "linspace": of(lambda x: tf.linspace(0.0, 1.0, 7) * x[:, 7:8]),
        "diag": of_tame(lambda z: tf.linalg.diag(z[:, :4]), gradient=False),
        "band": of_tame(lambda z: tf.linalg.band_part(tf.reshape(z, [-1, 6, 8]), 1, 2)),
        # integers
        "int add": of_integers(tf.add),
        "int sub": of_integers(tf.subtract),
        "int mul": of_integers(tf.multiply),
        "int div": of_integers(lambda i, j: i // tf.where(j == 0, 1, j)),
        "int mod": of_integers(lambda i, j: i % tf.where(j == 0, 1, j)),
        "int max": of_integers(tf.maximum),
        "int min": of_integers(tf.minimum),
        "int less": of_integers(tf.less),
        "int less equal": of_integers(tf.less_equal),
        "int greater": of_integers(tf.greater),
        "int greater equal": of_integers(tf.greater_equal),
        "int equal": of_integers(tf.equal),
        "int not equal": of_integers(tf.not_equal),
        "int abs": of_integer(tf.abs),
        "int neg": of_integer(tf.negative),
        "int sign": of_integer(tf.sign),
        "int square": of_integer(tf.square),
        "int sum": of_integer(lambda i: tf.reduce_sum(i, -1)),
        "int prod": of_integer(lambda i: tf.reduce_prod(i % 3 + 1, -1)),
        "int reduce max": of_integer(lambda i: tf.reduce_max(i, -1)),
        "int reduce min": of_integer(lambda i: tf.reduce_min(i, -1)),
        "int cumsum": of_integer(lambda i: tf.cumsum(i, -1)),
        "int argmax": of_integer(lambda i: tf.argmax(i, -1, tf.int32)),
        "int select": of_integers(lambda i, j: tf.where(i > j, i, j)),
        "int gather": of_integer(lambda i: tf.gather(i, [2, 0])),
        "int concat": of_integers(lambda i, j: tf.concat([i, j], -1)),
        "int stack": of_integers(lambda i, j: tf.stack([i, j], 1)),
        "int unstack": of_integer(lambda i: tf.unstack(i, axis=-1)[3]),
        "int slice": of_integer(lambda i: i[:, 1:4]),
        "int reshape": of_integer(lambda i: tf.reshape(i, [-1, 2, 8])),
        "int expand": of_integer(lambda i: tf.squeeze(tf.expand_dims(i, 1), 1)),
        "int transpose": of_integer(tf.transpose, free=False),
        "int tile": of_integer(lambda i: tf.tile(i, [1, 2])),
        "int pad": of_integer(lambda i: tf.pad(i, [[0, 0], [2, 1]])),
        "int range": of_integer(lambda i: tf.range(tf.reduce_max(i % 5) + 3)),
        "int fill": of_integer(lambda i: tf.fill([3, 2], tf.reduce_max(i)), free=False),
        "int broadcast": of_integer(lambda i: tf.broadcast_to(i[:, :1], [3, 4]), free=False),
        "int split": of_integer(lambda i: tf.split(i, [5, 11], -1)),
        "int zeros": of_integer(lambda i: tf.zeros_like(i) + tf.ones_like(i)),
        "int reverse": of_integer(lambda i: tf.reverse(i, [-1])),
        "int sort": of_integer(lambda i: math.top_k(i[:2], 3)[0]),
        "long add": Row(lambda v: v.long + 3, gradient=False),
        "long sub": Row(lambda v: v.long - 3, gradient=False),
        "long mul": Row(lambda v: v.long * 1000003, gradient=False),
        "long mod": Row(lambda v: v.long % 7, gradient=False),
        "long compare": Row(
            lambda v: (
                [op(v.long, 7) for op in (tf.equal, tf.not_equal, tf.less, tf.less_equal, tf.greater)]
                + [v.long >= 7, tf.where(v.long > 7, v.long, -v.long)]
            ),
            gradient=False,
        ),
        "long max": Row(lambda v: [tf.maximum(v.long, 7), tf.minimum(v.long, 7)], gradient=False),
        "long parts": Row(
            lambda v: (
                [
                    v.long[:, 1:3],
                    tf.reshape(v.long, [-1, 8]),
                    tf.stack([v.long, v.long], 1),
                    tf.concat([v.long, v.long], 0),
                    tf.gather(v.long, [1, 0]),
                    tf.expand_dims(v.long, 1),
                ]
            ),
            gradient=False,
        ),
        # bits
        "and": Row(lambda v: v.bits & (v.z > 0), gradient=False),
        "or": Row(lambda v: v.bits | (v.z > 0), gradient=False),
        "not": Row(lambda v: ~v.bits, gradient=False),
        "bits equal": Row(lambda v: [tf.equal(v.bits, v.z > 0), tf.not_equal(v.bits, v.z > 0)], gradient=False),
        "bits parts": Row(
            lambda v: (
                [
                    v.bits[:, 1:3],
                    tf.reshape(v.bits, [-1, 24]),
                    tf.stack([v.bits, v.bits], 1),
                    tf.concat([v.bits, v.bits], 0),
                    tf.gather(v.bits, [1, 0]),
                    tf.expand_dims(v.bits, 1),
                    tf.where(v.bits, v.bits, v.z > 0),
                ]
            ),
            gradient=False,
        ),
        # casts
        "from bool": Row(lambda v: [tf.cast(v.bits, t) for t in (tf.float32, tf.int32, tf.int64)], gradient=False),
        "from double": Row(lambda v: tf.cast(v.double, tf.float32), gradient=False),
        "from byte": Row(lambda v: [tf.cast(v.byte, t) for t in (tf.float32, tf.int32, tf.int64)], gradient=False),
        "from int8": Row(lambda v: [tf.cast(v.small, t) for t in (tf.float32, tf.int32)], gradient=False),
        "from int": Row(lambda v: [tf.cast(v.i, t) for t in (tf.float32, tf.int64, tf.bool)], gradient=False),
        "from long": Row(lambda v: [tf.cast(v.long, t) for t in (tf.float32, tf.int32, tf.bool)], gradient=False),
        "from float": Row(
            lambda v: [tf.cast(v.z * 100, tf.int32), tf.cast(v.z * 100, tf.int64), tf.cast(v.x, tf.bool)],
            gradient=False,
        ),
        "byte parts": Row(
            lambda v: (
                [
                    v.byte[:, 1:3],
                    tf.reshape(v.byte, [-1, 8]),
                    tf.gather(v.byte, [1, 0]),
                    tf.concat([v.byte, v.byte], 0),
                    tf.expand_dims(v.byte, 1),
                    tf.transpose(v.byte),
                ]
            ),
            gradient=False,
        ),
        # images, forward
        "convolution": of_tame(
            lambda z: nn.conv2d(tf.reshape(z, [-1, 6, 8, 1]), _filter(3, 3, 1, 2), 1, "SAME"), gradient=False
        ),
        "convolution, strides": of_tame(
            lambda z: nn.conv2d(tf.reshape(z, [-1, 6, 8, 1]), _filter(3, 3, 1, 2), 2, "VALID"), gradient=False
        ),
        "depthwise": of_tame(
            lambda z: nn.depthwise_conv2d(tf.reshape(z, [-1, 6, 4, 2]), _filter(3, 3, 2, 1), [1, 1, 1, 1], "SAME"),
            gradient=False,
        ),
        "max pool": of_tame(lambda z: nn.max_pool2d(tf.reshape(z, [-1, 6, 8, 1]), 2, 2, "VALID"), gradient=False),
        "mean pool": of_tame(lambda z: nn.avg_pool2d(tf.reshape(z, [-1, 6, 8, 1]), 2, 2, "VALID"), gradient=False),
        "power of any": of_two(tf.pow, gradient=False),
        "power of int": of_integer(lambda i: tf.pow(i % 5, 3)),
        "mirror": of(lambda x: tf.pad(x, [[0, 0], [2, 1]], "REFLECT"), gradient=False),
        "scatter": of_tame(lambda z: tf.scatter_nd([[1], [0]], z[:2], [3, 48])),
        "scatter, add": of_tame(lambda z: tf.tensor_scatter_nd_add(z, [[1], [0]], z[:2])),
        "max, of a vector": of_tame(lambda z: tf.reduce_max(z[0], 0)),
        "bit xor": of_integers(tf.bitwise.bitwise_xor),
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
    content = convert({"forward": forward, "backward": backward}, [])
    signatures = LiteProgram(content).signatures
    found: dict[str, list[str]] = {name: [] for name in chosen}
    for way, function in (("forward", forward), ("backward", backward)):
        expected = function(*map(tf.constant, given))
        signature = signatures[way]
        signature.resize([np.array(array.shape, np.int32) for array in given])
        flat = iter(signature(list(given)))
        for name in sorted(expected):
            for a in expected[name]:
                found[name] += _differences(way, chosen[name], given, a.numpy(), next(flat))
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
    yield node.op, listing.type_of(node)
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
    incoming = [_incoming(given, tensor) for tensor in outputs]
    floats = [given.x, given.y, given.z, given.w]
    gradients = tf.gradients(outputs, floats, incoming) if outputs else []
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
