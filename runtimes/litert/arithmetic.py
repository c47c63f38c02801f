"""Replacements for ops that LiteRT lacks or computes wrongly, made of ops it computes correctly.

Each says what is wrong with LiteRT's op. Gradients take the same arguments as TensorFlow's ops of these names.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

Tensor: TypeAlias = Any

_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
"""Klambauer et al. 2017, https://arxiv.org/abs/1706.02515."""


def relu_grad(gradient: Tensor, feature: Tensor) -> Tensor:
    """The gradient of relu; ``feature`` is its input or its output."""
    return gradient * tf.cast(feature > 0, tf.float32)  # LiteRT's where is slow, as it works element by element


def relu6_grad(gradient: Tensor, feature: Tensor) -> Tensor:
    """The gradient of relu6; ``feature`` is its input or its output."""
    return tf.where((feature > 0) & (feature < 6), gradient, tf.zeros_like(gradient))


def elu_grad(gradient: Tensor, output: Tensor) -> Tensor:
    """The gradient of elu, from its output."""
    return tf.where(output < 0, gradient * (output + 1), gradient)


def leaky_relu_grad(gradient: Tensor, feature: Tensor, alpha: float) -> Tensor:
    """The gradient of leaky relu, from its input."""
    return tf.where(feature > 0, gradient, gradient * alpha)


def softsign_grad(gradient: Tensor, feature: Tensor) -> Tensor:
    """The gradient of softsign, from its input."""
    return gradient / tf.square(1 + tf.abs(feature))


def selu_grad(gradient: Tensor, output: Tensor) -> Tensor:
    """The gradient of selu, from its output. The converter's differs at 0."""
    return tf.where(output < 0, gradient * (output + _SELU_SCALE_ALPHA), gradient * _SELU_SCALE)


def sqrt_grad(output: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of the square root, from its output; 0 where ``gradient`` is 0, unlike the converter's."""
    return tf.where(tf.equal(gradient, 0), tf.zeros_like(gradient), divided_by_root(0.5 * gradient, output))


def reciprocal_grad(output: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of 1 / x, from its output; 0 where ``gradient`` is 0."""
    return tf.where(tf.equal(gradient, 0), tf.zeros_like(gradient), -gradient * output * output)


def rsqrt_grad(output: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of 1 / sqrt(x), from its output; 0 where ``gradient`` is 0."""
    return tf.where(tf.equal(gradient, 0), tf.zeros_like(gradient), -0.5 * gradient * output * output * output)


def strided_slice_grad(gradient: Tensor, shape: Sequence[int], kept: Sequence[slice]) -> Tensor:
    """The gradient of a slice with unit strides: ``gradient`` in its place, zeros around it.

    Args:
        gradient: the slice's gradient, in any shape with its number of elements.
        shape: shape before slicing.
        kept: the slice along each axis of ``shape``.
    """
    gradient = tf.reshape(gradient, [part.stop - part.start for part in kept])
    return tf.pad(gradient, [(part.start, size - part.stop) for part, size in zip(kept, shape, strict=True)])


def erf(x: Tensor) -> Tensor:
    """The error function, as x P(x^2) / Q(x^2) on -4 .. 4, accurate to 5e-7.

    Source of the coefficients: the rational approximation that Eigen and XLA use for float32.
    """
    x = tf.clip_by_value(x, -4.0, 4.0)
    p = (2.77068142e-08, -2.10102402e-06, -5.69250639e-05, -7.34990630e-04, -2.95459980e-03, -1.60960333e-02)
    q = (-1.45660718e-05, -2.13374055e-04, -1.68282697e-03, -7.37332916e-03, -1.42647390e-02)
    square = tf.square(x)
    return x * _horner((-2.72614225e-10, *p), square) / _horner(q, square)


def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), accurate to 5e-7, as gelu needs."""
    return 1 - erf(x)


def atanh(x: Tensor) -> Tensor:
    """The inverse hyperbolic tangent."""
    return 0.5 * (log1p(x) - log1p(-x))


def exp(x: Tensor) -> Tensor:
    """The exponential function. LiteRT's returns 0 for NaN."""
    return tf.where(tf.math.is_nan(x), x, tf.exp(x))


def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, accurate near 0, unlike LiteRT's."""
    half = tf.tanh(0.5 * x)
    return tf.where(tf.abs(x) < 0.5, 2 * half / (1 - half), exp(x) - 1)


def log(x: Tensor) -> Tensor:
    """The natural logarithm, accurate near 1, unlike LiteRT's."""
    return tf.where(tf.abs(x - 1) < 0.3, _twice_artanh((x - 1) / (x + 1)), _log_of_any(x))


def log1p(x: Tensor) -> Tensor:
    """log(1 + x), accurate near 0, unlike LiteRT's."""
    return tf.where(tf.abs(x) < 0.4, _twice_artanh(x / (2 + x)), _log_of_any(1 + x))


def _log_of_any(x: Tensor) -> Tensor:
    """LiteRT's logarithm returns 88 for NaN and infinity on some processors, with AVX2 but no AVX-512."""
    return tf.where(tf.math.is_finite(x) | (x < 0), tf.math.log(x), x)


def _twice_artanh(ratio: Tensor) -> Tensor:
    """2 artanh(ratio) by its series, for values up to 0.25."""
    return 2 * ratio * _horner((1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0), tf.square(ratio))


def xlogy(x: Tensor, y: Tensor) -> Tensor:
    """``x log(y)``, and 0 where x is 0. The converter would use LiteRT's logarithm."""
    return tf.where(tf.equal(x, 0), 0.0, x * log(y))


def xlog1py(x: Tensor, y: Tensor) -> Tensor:
    """``x log(1 + y)``, and 0 where x is 0; see :func:`xlogy`."""
    return tf.where(tf.equal(x, 0), 0.0, x * log1p(y))


def floor_div(x: Tensor, y: Tensor) -> Tensor:
    """The largest integer that is at most x / y. LiteRT's raises if y is 0."""
    return tf.floor(x / y)


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)). LiteRT's is infinite above 88, and 0 below -17."""
    return relu(x) + log1p(tf.exp(-tf.abs(x)))


def selu(x: Tensor) -> Tensor:
    """The scaled exponential linear unit. LiteRT's does not propagate NaN."""
    return tf.where(x < 0, _SELU_SCALE_ALPHA * (tf.exp(x) - 1), _SELU_SCALE * x)


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x). LiteRT's returns NaN for 0."""
    return divided_by_root(1.0, tf.sqrt(x))


def integer_power(x: Tensor, exponent: int) -> Tensor:
    """``x`` to a power other than 0. LiteRT's returns the largest finite number for infinity."""
    power = x
    for bit in f"{abs(exponent):b}"[1:]:
        power = tf.square(power)
        if bit == "1":
            power = power * x
    return power if exponent > 0 else 1 / power


def divided_by_root(x: Tensor, root: Tensor) -> Tensor:
    """``x`` divided by a square root, which the converter would replace by a product with LiteRT's rsqrt."""
    return x / tf.nn.relu(root)


def difference_to_itself(x: Tensor) -> Tensor:
    """``x - x``: NaN where x is not finite. The converter's is always 0."""
    return tf.where(tf.math.is_finite(x), tf.zeros_like(x), np.nan)


def is_inf(x: Tensor) -> Tensor:
    """Is it infinite? The converter's would compare with the largest finite number."""
    return tf.logical_not(tf.logical_or(tf.math.is_finite(x), tf.math.is_nan(x)))


def l2_loss(x: Tensor) -> Tensor:
    """Half the sum of squares. The converter replaces it by a product; see :func:`product_of_reads`."""
    return 0.5 * tf.reduce_sum(tf.square(x))


def relu(x: Tensor) -> Tensor:
    """Relu of a matrix product: the converter would fuse both and lose relu."""
    return tf.where(x <= 0, tf.zeros_like(x), x)


def relu6(x: Tensor) -> Tensor:
    """Relu6; see :func:`relu`."""
    return tf.where(x >= 6, 6 * tf.ones_like(x), relu(x))


def maximum(x: Tensor, y: Tensor) -> Tensor:
    """The maximum. LiteRT's may not propagate NaN, and the converter may take it for relu."""
    return tf.where((x >= y) | tf.math.is_nan(x), x, y)


def minimum(x: Tensor, y: Tensor) -> Tensor:
    """The minimum; see :func:`maximum`."""
    return tf.where((x <= y) | tf.math.is_nan(x), x, y)


def product_of_reads(x: Tensor, y: Tensor) -> Tensor:
    """Square of a variable. LiteRT's XNNPACK delegate crashes in some ops with a variable as both inputs."""
    return -(-x * y)


def sum_of_reads(x: Tensor, y: Tensor) -> Tensor:
    """Sum of a variable and itself; see :func:`product_of_reads`."""
    return -(-x - y)


def apply_adam(
    variable: Tensor,
    momentum: Tensor,
    velocity: Tensor,
    beta1_power: Tensor,
    beta2_power: Tensor,
    rate: Tensor,
    beta1: Tensor,
    beta2: Tensor,
    epsilon: Tensor,
    gradient: Tensor,
) -> None:
    """A step of Adam; the first three are handles. The converter's does not propagate infinite moments as NaN."""
    old = [tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32) for handle in (variable, momentum, velocity)]
    m = old[1] + (gradient - old[1]) * (1 - beta1)
    v = old[2] + (tf.square(gradient) - old[2]) * (1 - beta2)
    step = m * (rate * tf.sqrt(1 - beta2_power) / (1 - beta1_power)) / (tf.sqrt(v) + epsilon)
    for handle, value in ((variable, old[0] - step), (momentum, m), (velocity, v)):
        tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def product_with_transposed(x: Tensor, y: Tensor) -> Tensor:
    """The product of ``x`` [N, K] and ``y`` [M, K] transposed, as a batch of one: saves a sixth of a DQN's update.

    LiteRT has fast kernels for variable weights in batched products, but not in plain ones.
    """
    return tf.squeeze(tf.linalg.matmul(tf.expand_dims(x, 0), tf.expand_dims(y, 0), transpose_b=True), [0])


def _horner(coefficients: Sequence[float], x: Tensor) -> Tensor:
    return functools.reduce(lambda total, coefficient: total * x + coefficient, coefficients, tf.zeros_like(x))
