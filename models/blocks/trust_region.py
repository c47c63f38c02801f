"""A step within a trust region, by conjugate gradients and a line search. The weights are one vector, float32 [P].

Source: Schulman et al. 2015, https://arxiv.org/abs/1502.05477, appendix C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias

import keras
import tensorflow as tf

Tensor: TypeAlias = Any

_SMALL_RESIDUAL = 1e-5
"""Share of the norm of the right-hand side below which a residual is rounding."""


def flat(variables: Sequence[Any]) -> Tensor:
    """The values of Keras variables, one after another, float32 [P]."""
    return tf.concat([tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in variables], axis=0)


def with_weights(variables: Sequence[Any], weights: Tensor) -> AbstractContextManager[Any]:
    """Within it layers compute with these weights [P] in place of their variables, which stay as they are.

    So what layers return is a function of one tensor, which loops and second derivatives can take.
    """
    scope: AbstractContextManager[Any] = keras.StatelessScope(
        state_mapping=list(zip(variables, _shaped(weights, variables), strict=True))
    )
    return scope


def assign(variables: Sequence[Any], weights: Tensor) -> None:
    """Change Keras variables to weights [P]."""
    for variable, value in zip(variables, _shaped(weights, variables), strict=True):
        variable.assign(value)


def conjugate_gradient(product: Callable[[Tensor], Tensor], target: Tensor, iterations: int) -> Tensor:
    """An approximate solution x of ``H x = target``, from products with H only.

    Source: Hestenes and Stiefel 1952, https://doi.org/10.6028/jres.049.044, section 3.

    Args:
        product: from v to H v, float32 [P] both; H is symmetric and positive definite.
        target: float32 [P].
        iterations: at most; it ends where nothing but rounding is left.

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
    """What a line search found."""

    weights: Tensor
    """float32 [P]; where it found nothing, those that it started from, bit for bit."""
    fraction: Tensor
    """Of the full step; 0 where it found nothing. This and the others are float32 scalars."""
    gain: Tensor
    """By how much the objective grew."""
    kl: Tensor
    """Divergence from where it started."""


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
    """The longest of the steps ``step``, ``shrink * step``, ``shrink^2 * step``, ... that improves within the region.

    Args:
        evaluate: from weights [P] to the objective's gain and the divergence from the start, float32 scalars.
        weights: where it starts, float32 [P].
        step: the full step, float32 [P]; where it is not finite, or zero, there is nothing to find.
        max_kl: the largest divergence that is accepted.
        steps: to try at most.
        shrink: in 0 .. 1.
        linear: try ``step``, ``(1 - shrink) * step``, ``(1 - 2 * shrink) * step``, ... instead, down to 0.
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


def _shaped(vector: Tensor, variables: Sequence[Any]) -> list[Tensor]:
    """A vector [P] in the shapes of variables."""
    shapes = [tuple(variable.shape) for variable in variables]
    parts = tf.split(vector, [math.prod(shape) for shape in shapes])
    return [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
