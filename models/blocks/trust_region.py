"""A step within a trust region, by conjugate gradients and a line search. The weights are one vector, float32 [P].

Source: Schulman et al. 2015, https://arxiv.org/abs/1502.05477, appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

from ...core.tensorflow_import import keras, tf

Tensor: TypeAlias = Any

_SMALL_RESIDUAL = 1e-5
"""Share of the norm of the right-hand side below which a residual counts as rounding."""


def flat(variables: Sequence[Any]) -> Tensor:
    """Concatenate the values of Keras variables, float32 [P]."""
    return tf.concat([tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in variables], axis=0)


def with_weights(variables: Sequence[Any], weights: Tensor) -> AbstractContextManager[Any]:
    """A context in which layers compute with these weights [P] instead of their variables, which do not change.

    Outputs of layers are then a function of one tensor, as loops and second derivatives need.
    """
    scope: AbstractContextManager[Any] = keras.StatelessScope(
        state_mapping=list(zip(variables, _split_vector(weights, variables), strict=True))
    )
    return scope


def assign(variables: Sequence[Any], weights: Tensor) -> None:
    """Change Keras variables to weights [P]."""
    for variable, value in zip(variables, _split_vector(weights, variables), strict=True):
        variable.assign(value)


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, iterations: int) -> Tensor:
    """An approximate solution x of ``H x = target``, from products with H only.

    Source: Hestenes and Stiefel 1952, https://doi.org/10.6028/jres.049.044, section 3.

    Args:
        product: from v to H v, float32 [P] both; H is symmetric and positive definite.
        target: float32 [P].
        iterations: maximum; stops earlier when the residual is only rounding.

    Returns:
        float32 [P]; zeros where the target is zero or not finite.
    """

    def unfinished(i: Tensor, x: Tensor, residual: Tensor, direction: Tensor, square: Tensor) -> Tensor:
        return tf.logical_and(i < iterations, square > _SMALL_RESIDUAL**2 * target_square)

    def body(i: Tensor, x: Tensor, residual: Tensor, direction: Tensor, square: Tensor) -> tuple[Tensor, ...]:
        image = product(direction)
        length = square / tf.reduce_sum(direction * image)
        residual = residual - length * image
        next_square = tf.reduce_sum(tf.square(residual))
        next_direction = residual + (next_square / square) * direction
        return i + 1, x + length * direction, residual, next_direction, next_square

    target_square = tf.reduce_sum(tf.square(target))
    start = (tf.constant(0), tf.zeros_like(target), target, target, target_square)
    solution: Tensor = tf.while_loop(unfinished, body, start, parallel_iterations=1)[1]
    return solution


class Step(NamedTuple):
    """Result of a line search."""

    weights: Tensor
    """float32 [P]; the initial weights, bit for bit, if nothing was found."""
    fraction: Tensor
    """Fraction of the full step; 0 if nothing was found. This and the following are float32 scalars."""
    gain: Tensor
    """Increase of the objective."""
    kl: Tensor
    """Divergence from the start."""


def line_search(
    evaluate: Callable[[Tensor], tuple[Tensor, Tensor]],
    weights: Tensor,
    step: Tensor,
    *,
    max_kl: float,
    steps: int,
    shrink: float | Tensor,
    linear: bool = False,
) -> Step:
    """The longest of ``step``, ``shrink * step``, ``shrink^2 * step``, ... that improves within the trust region.

    Args:
        evaluate: from weights [P] to the objective's gain and the divergence from the start, float32 scalars.
        weights: the start, float32 [P].
        step: the full step, float32 [P]; nothing is found if it is zero or not finite.
        max_kl: the largest accepted divergence.
        steps: maximum number of steps to try.
        shrink: in 0 .. 1.
        linear: try ``step``, ``(1 - shrink) * step``, ``(1 - 2 * shrink) * step``, ..., 0 instead.
    """

    def unfinished(i: Tensor, fraction: Tensor, found: Tensor, *best: Tensor) -> Tensor:
        return tf.logical_and(i < steps, tf.logical_not(found))

    def body(i: Tensor, fraction: Tensor, found: Tensor, *best: Tensor) -> tuple[Tensor, ...]:
        tried = weights + fraction * step
        gain, kl = evaluate(tried)
        found = tf.logical_and(gain > 0, kl <= max_kl)  # false for NaN
        shorter = tf.maximum(fraction - shrink, 0.0) if linear else shrink * fraction
        return i + 1, tf.where(found, fraction, shorter), found, tried, gain, kl

    zero = tf.constant(0.0)
    start = (tf.constant(0), tf.constant(1.0), tf.constant(False), weights, zero, zero)
    _, fraction, found, tried, gain, kl = tf.while_loop(unfinished, body, start, parallel_iterations=1)
    return Step(
        *(
            tf.where(found, new, old)
            for new, old in zip((tried, fraction, gain, kl), (weights, zero, zero, zero), strict=True)
        )
    )


def _split_vector(vector: Tensor, variables: Sequence[Any]) -> list[Tensor]:
    """Split a vector [P] into the shapes of variables."""
    shapes = [tuple(variable.shape) for variable in variables]
    parts = tf.split(vector, [math.prod(shape) for shape in shapes])
    return [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
