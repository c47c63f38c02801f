"""Optimizers: Keras optimizers, natural gradient, evolution, and modifiers of another optimizer's steps.

Each is a function that updates a problem's variables once, for some rows. Modifiers take the change of all weights as
one vector, and may replace it. Variables are created and noise is drawn when an optimizer is made, because steps may
run inside loops.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from .... import noise
from ....models.blocks import trust_region
from ....models.blocks.optimizers import clip_by_global_norm, optimizer_class
from ....models.blocks.rollouts import repeat
from ...common.layers.scopes import scopes
from .objectives import Hyper, Rows

Tensor: TypeAlias = Any
Scalars: TypeAlias = Mapping[str, Tensor]
Step: TypeAlias = Callable[[Rows, Tensor], Scalars]
"""Function of rows and the step's number in this update; updates the variables and returns float scalars."""

_ROUNDING = 1e-4
"""Added before rounding down, so that a third of 99 rows is 33."""


class Problem(NamedTuple):
    """Losses to minimise."""

    scope: str
    """Name scope of the optimizer's variables."""
    variables: Sequence[Any]
    names: Sequence[str]
    """Names of the scalars of ``losses``."""
    losses: Callable[[Rows], Scalars]
    """Function from rows to float scalars; ``loss`` is minimised."""
    divergence: Callable[[Rows], Callable[[], Tensor]]
    """Function from rows to a function that returns the change of the trained outputs since then, a float scalar whose
    second derivatives at that point are the Fisher information matrix."""


def make_step(
    spec: Mapping[str, Any],
    path: str,
    problem: Problem,
    hyper: Hyper,
    count: int,
    *,
    repeats: int = 1,
    valid: Tensor | None = None,
) -> Step:
    """An optimizer.

    Args:
        spec: optimizer in normal form.
        path: its path in the agent's normal form.
        problem: the losses to minimise.
        hyper: numbers of the normal form.
        count: number of rows of each step.
        repeats: number of steps in one update.
        valid: 1 for valid rows, float32 [count]; None if that differs between steps.
    """
    kind = spec["type"]
    if kind == "plus":
        first, second = (
            make_step(spec[name], f"{path}/{name}", problem, hyper, count, repeats=repeats, valid=valid)
            for name in ("optimizer1", "optimizer2")
        )
        return lambda rows, number: (first(rows, number), second(rows, number))[0]
    if kind == "evolutionary":
        return _evolutionary(spec, path, problem, hyper, repeats)
    if "optimizer" not in spec:
        return (_natural_gradient if kind == "natural_gradient" else _keras)(spec, path, problem, hyper)
    rows, times, known = count, repeats, valid
    if kind == "multi_step":
        times *= spec["num_steps"]
    elif kind == "subsampling_step":
        rows, known = max(1, math.floor(spec["fraction"] * count + _ROUNDING)), None
    step = make_step(spec["optimizer"], f"{path}/optimizer", problem, hyper, rows, repeats=times, valid=known)
    if kind == "multi_step":
        return _multi_step(step, spec["num_steps"], problem)
    if kind == "subsampling_step":
        return _subsampling(step, spec["fraction"], count, rows, repeats, valid)
    return (_clipping if kind == "clipping_step" else _optimizing)(step, spec, path, problem, hyper)


def is_natural(spec: Mapping[str, Any]) -> bool:
    """Is the innermost optimizer a natural gradient?"""
    inner = [spec[name] for name in ("optimizer", "optimizer1", "optimizer2") if name in spec]
    return any(map(is_natural, inner)) if inner else bool(spec["type"] == "natural_gradient")


def _keras(spec: Mapping[str, Any], path: str, problem: Problem, hyper: Hyper) -> Step:
    """A Keras optimizer, with gradients clipped by global norm."""
    known = ("type", "learning_rate", "gradient_norm_clipping")
    own = {name: value for name, value in spec.items() if name not in known and value is not None}
    rate, largest = hyper(f"{path}/learning_rate"), None
    if spec.get("gradient_norm_clipping") is not None:
        largest = hyper(f"{path}/gradient_norm_clipping")
    optimizer, variables = optimizer_class(spec["type"])(lambda: rate, **own), list(problem.variables)
    with scopes(problem.scope, "optimizer"):
        optimizer.build(variables)

    def step(rows: Rows, number: Tensor) -> Scalars:
        scalars = problem.losses(rows)
        found = tf.gradients(scalars["loss"], [variable.value for variable in variables])
        # A loss may not depend on a variable, such as a deterministic gradient on the standard deviation.
        gradients = [tf.zeros(v.shape) if g is None else g for g, v in zip(found, variables, strict=True)]
        gradients, _ = clip_by_global_norm(gradients, largest)
        optimizer.apply(gradients, variables)
        return scalars

    return step


def _natural_gradient(spec: Mapping[str, Any], path: str, problem: Problem, hyper: Hyper) -> Step:
    """A step along the natural gradient whose KL divergence, to second order, is the learning rate."""
    radius, damping = hyper(f"{path}/learning_rate"), hyper(f"{path}/cg_damping")
    variables = problem.variables

    def step(rows: Rows, number: Tensor) -> Scalars:
        start = trust_region.flat(variables)  # [P]
        divergence = problem.divergence(rows)
        with trust_region.with_weights(variables, start):
            scalars, difference = problem.losses(rows), divergence()
        gradient, slope = _gradient(scalars["loss"], start), _gradient(difference, start)

        def fisher(vector: Tensor) -> Tensor:
            return _gradient(tf.reduce_sum(slope * tf.stop_gradient(vector)), start) + damping * vector

        direction = trust_region.conjugate_gradient(fisher, gradient, spec["cg_max_iterations"])
        curvature = tf.reduce_sum(direction * fisher(direction))
        moved = start - tf.sqrt(2.0 * radius / curvature) * direction
        # A zero gradient has no direction, and its curvature is 0.
        trust_region.assign(variables, tf.where(curvature > 0, moved, start))
        return scalars

    return step


def _evolutionary(spec: Mapping[str, Any], path: str, problem: Problem, hyper: Hyper, repeats: int) -> Step:
    """The mean of Gaussian perturbations times the learning rate, each with the sign that lowers the loss."""
    rate, variables, samples = hyper(f"{path}/learning_rate"), problem.variables, spec["num_samples"]
    drawn = noise.normal([repeats, samples, sum(math.prod(variable.shape) for variable in variables)])

    def step(rows: Rows, number: Tensor) -> Scalars:
        start, scalars = trust_region.flat(variables), problem.losses(rows)
        changes = []
        for change in tf.unstack(rate * tf.gather(drawn, number)):  # [P]
            with trust_region.with_weights(variables, start + change):
                changes.append(tf.sign(scalars["loss"] - problem.losses(rows)["loss"]) * change)
        trust_region.assign(variables, start + tf.add_n(changes) / samples)
        return scalars

    return step


def _multi_step(step: Step, count: int, problem: Problem) -> Step:
    """Several steps, each on all rows."""
    names = list(problem.names)
    if count == 1:
        return step
    return lambda rows, number: repeat(lambda i: step(rows, number * count + i), names, count)[0]


def _subsampling(step: Step, fraction: float, count: int, drawn: int, repeats: int, valid: Tensor | None) -> Step:
    """A step on a fraction of the valid rows, drawn with replacement: ``floor(fraction * n)`` of n, at least one.

    Shapes are those for all rows; surplus draws are marked as not valid.
    """
    uniform = noise.uniform([repeats, drawn])
    order = None if valid is None else valid_first(valid, count)

    def sampled(rows: Rows, number: Tensor) -> Scalars:
        places = valid_first(rows["valid"], count) if order is None else order
        index, weight = subsample(tf.gather(uniform, number), rows["valid"], places, fraction)
        chosen = tf.nest.map_structure(lambda values: tf.gather(values, index), dict(rows))
        return step({**chosen, "valid": weight * chosen["valid"]}, number)

    return sampled


def valid_first(valid: Tensor, count: int) -> Tensor:
    """Indices of all rows, valid rows first and otherwise in order, int32 [count], from float32 [count]."""
    ranks = valid * count - tf.range(count, dtype=tf.float32)
    return tf.math.top_k(ranks, count).indices


def subsample(uniform: Tensor, valid: Tensor, order: Tensor, fraction: float) -> tuple[Tensor, Tensor]:
    """Rows drawn with replacement.

    Args:
        uniform: float32 [M] in 0 .. 1.
        valid: 1 for valid rows, float32 [B].
        order: result of :func:`valid_first`.
        fraction: fraction of the valid rows to draw.

    Returns:
        Indices, int32 [M], and weights, float32 [M]: 1 for the requested number of draws, then 0.
    """
    total = tf.reduce_sum(valid)
    ranks = tf.minimum(tf.floor(uniform * total), tf.maximum(total - 1.0, 0.0))
    wanted = tf.maximum(tf.floor(fraction * total + _ROUNDING), 1.0)
    weight = tf.cast(tf.range(uniform.shape[0], dtype=tf.float32) < wanted, tf.float32)
    return tf.gather(order, tf.cast(ranks, tf.int32)), weight


def _clipping(step: Step, spec: Mapping[str, Any], path: str, problem: Problem, hyper: Hyper) -> Step:
    """A step that clips another step's change."""
    threshold, variables = hyper(f"{path}/threshold"), problem.variables
    sizes = [math.prod(variable.shape) for variable in variables]

    def clipped(rows: Rows, number: Tensor) -> Scalars:
        start = trust_region.flat(variables)
        scalars = step(rows, number)
        change = clip_change(trust_region.flat(variables) - start, sizes, spec["mode"], threshold)
        trust_region.assign(variables, start + change)
        return scalars

    return clipped


def clip_change(change: Tensor, sizes: Sequence[int], mode: str, threshold: Tensor) -> Tensor:
    """A change of all weights, float32 [P], clipped to a threshold.

    Args:
        change: change of all variables, concatenated.
        sizes: sizes of the variables.
        mode: ``value`` clips each number, ``norm`` the norm of each variable's change, ``global_norm`` the global norm.
        threshold: float32 scalar.
    """
    if mode == "value":
        return tf.minimum(tf.maximum(change, -threshold), threshold)
    parts = [change] if mode == "global_norm" else tf.split(change, list(sizes))
    scaled = [part * (threshold / tf.maximum(tf.sqrt(tf.reduce_sum(tf.square(part))), threshold)) for part in parts]
    return scaled[0] if len(scaled) == 1 else tf.concat(scaled, axis=0)


def _optimizing(step: Step, spec: Mapping[str, Any], path: str, problem: Problem, hyper: Hyper) -> Step:
    """A line search: the largest fraction of another step that reaches enough of the expected decrease of the loss."""
    ratio, parameter, variables = hyper(f"{path}/ls_accept_ratio"), hyper(f"{path}/ls_parameter"), problem.variables

    def searched(rows: Rows, number: Tensor) -> Scalars:
        start = trust_region.flat(variables)
        with trust_region.with_weights(variables, start):
            before = problem.losses(rows)["loss"]
        gradient = _gradient(before, start)
        scalars = step(rows, number)
        whole = trust_region.flat(variables) - start

        def evaluate(weights: Tensor) -> tuple[Tensor, Tensor]:
            with trust_region.with_weights(variables, weights):
                lower = before - problem.losses(rows)["loss"]
            promised = -tf.reduce_sum(gradient * (weights - start))
            return tf.minimum(lower, lower - ratio * promised), tf.constant(0.0)

        found = trust_region.line_search(
            evaluate,
            start,
            whole,
            max_kl=0.0,  # the other step limits the divergence
            steps=spec["ls_max_iterations"],
            shrink=parameter,
            linear=spec["ls_mode"] == "linear",
        )
        trust_region.assign(variables, found.weights)
        return scalars

    return searched


def _gradient(value: Tensor, weights: Tensor) -> Tensor:
    """The gradient with respect to weights [P]; zeros if the value does not depend on them."""
    (gradient,) = tf.gradients(value, weights)
    return tf.zeros_like(weights) if gradient is None else gradient
