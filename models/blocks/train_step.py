"""Training step: the loss from errors, a step of an optimizer, and the specs of EVAL and TRAIN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ...core.errors import ArgumentError
from ...core.protocols import EstimatorSpec, Modes
from ...core.tensorflow_import import tf
from .optimizers import OptimizerParams, clip_by_global_norm, learning_rate_at, make_optimizer

Tensor: TypeAlias = Any


def check_transitions(labels: Mapping[str, Any], algorithm: str) -> None:
    """Refuse batches that are not single transitions, before a network sees them.

    Raises:
        ArgumentError: rewards are not [B].
    """
    shape = labels["reward"].shape
    if shape.rank != 1:
        message = f"{algorithm} needs batches [B, ...] of single transitions, from a ReplayMemory; got rewards of shape"
        raise ArgumentError(f"{message} {shape}", "memory")


def mean_error(error: Tensor, labels: Mapping[str, Any]) -> Tensor:
    """The loss from errors [B]: their mean, each times ``weight`` if a prioritized memory gives weights."""
    return tf.reduce_mean(error * labels["weight"] if "weight" in labels else error)


def minimize(loss: Tensor, variables: Sequence[Any], optimizer: Any, max_gradient_norm: float | None) -> Tensor:
    """One step of the optimizer on these variables only; returns the global norm of the gradients before clipping."""
    gradients = tf.gradients(loss, [variable.value for variable in variables])
    gradients, norm = clip_by_global_norm(gradients, max_gradient_norm)
    optimizer.apply(gradients, variables)
    return norm


def minimizing(
    terms: Callable[[Any], dict[str, Tensor]],
    variables: Sequence[Any],
    labels: Mapping[str, Any],
    params: OptimizerParams,
) -> tuple[Callable[[Any], dict[str, Tensor]], Tensor]:
    """A step of one optimizer, which a loop may repeat: its variables are built here.

    Args:
        terms: from the argument of a step to float scalars by name, ``loss`` among them.
        variables: the trained Keras variables.
        labels: the batch, with ``global_step`` and ``progress``.
        params: parameters of the optimizer.

    Returns:
        The step, which returns the scalars and ``gradient_norm`` (before clipping); and the learning rate.
    """
    learning_rate = learning_rate_at(params.learning_rate, labels)
    optimizer = make_optimizer(params.optimizer, learning_rate, params.optimizer_epsilon)
    optimizer.build(variables)

    def step(argument: Any) -> dict[str, Tensor]:
        scalars = terms(argument)
        norm = minimize(scalars["loss"], variables, optimizer, params.max_gradient_norm)
        return {**scalars, "gradient_norm": norm}

    return step, learning_rate


def gradient_steps(
    step: Callable[[Mapping[str, Tensor], int], tuple[Tensor, Mapping[str, Tensor]]],
    batch: Mapping[str, Tensor],
    updates: int,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Gradient steps on equal parts of a batch.

    Args:
        step: from a part, and its number, to its TD errors [B] and float scalars by name; assigns variables.
        batch: name to [updates * B, ...].
        updates: number of steps.

    Returns:
        The TD errors of all parts in order, [updates * B], and the means of the scalars.

    Raises:
        ArgumentError: ``updates`` does not divide the batch.
    """
    parts = [batch]
    if updates > 1:
        _check_divides(updates, batch)
        split = {name: tf.split(value, updates) for name, value in batch.items()}
        parts = [{name: values[i] for name, values in split.items()} for i in range(updates)]
    td_errors, scalars = zip(*(step(part, i) for i, part in enumerate(parts)), strict=True)
    means = {name: tf.add_n([one[name] for one in scalars]) / updates for name in scalars[0]}
    return tf.concat(td_errors, axis=0), means


def stacked_parts(batch: Mapping[str, Tensor], updates: int) -> dict[str, Tensor]:
    """Equal parts of a batch [updates * B, ...], one for each gradient step, for :func:`over_parts`."""
    _check_divides(updates, batch)
    return {name: tf.reshape(value, [updates, -1, *value.shape[1:]]) for name, value in batch.items()}


def over_parts(
    update: Callable[[Mapping[str, Tensor], Tensor], tuple[Tensor, Mapping[str, Tensor]]],
    parts: Mapping[str, Tensor],
    names: Sequence[str],
) -> tuple[Tensor, dict[str, Tensor]]:
    """:func:`gradient_steps` in a loop, so that the program does not grow with their number.

    Args:
        update: from a part, and its number as an int32 scalar, to its TD errors [B] and float scalars by name; assigns
            variables. It cannot create variables: build optimizers first.
        parts: name to [updates, ...], ``reward`` [updates, B] among them.
        names: names of the scalars.

    Returns:
        The TD errors of all parts in order, [updates * B], and the means of the scalars.
    """
    count = parts["reward"].shape[0]

    def body(i: Tensor, td_errors: Tensor, sums: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        td_error, scalars = update({name: tf.gather(value, i) for name, value in parts.items()}, i)
        td_errors += tf.one_hot(i, count)[:, tf.newaxis] * td_error
        return i + 1, td_errors, sums + tf.stack([scalars[name] for name in names])

    start = (tf.constant(0), tf.zeros(parts["reward"].shape), tf.zeros(len(names)))
    _, td_errors, sums = tf.while_loop(lambda i, *_: i < count, body, start, parallel_iterations=1)
    return tf.reshape(td_errors, [-1]), dict(zip(names, tf.unstack(sums / count), strict=True))


def _check_divides(updates: int, batch: Mapping[str, Tensor]) -> None:
    size = int(batch["reward"].shape[0])
    if size % updates:
        raise ArgumentError(
            f"updates must divide the memory's batch_size, of which each gradient step takes an equal part; got"
            f" updates={updates} and batch_size={size}",
            "updates",
            updates,
        )


def learning_spec(
    mode: str,
    loss: Tensor,
    variables: Sequence[Any],
    labels: Mapping[str, Any],
    params: OptimizerParams,
    *,
    td_error: Tensor,
    metrics: Mapping[str, Tensor],
) -> EstimatorSpec:
    """The spec of an algorithm with one loss: its value in EVAL, a step of the optimizer in TRAIN.

    TRAIN adds the metrics ``gradient_norm`` (before clipping) and ``learning_rate``.

    Args:
        mode: EVAL or TRAIN.
        loss: float scalar.
        variables: the trained Keras variables.
        labels: the batch, with ``global_step`` and ``progress``.
        params: parameters of the optimizer.
        td_error: float [B], for the priorities of the memory.
        metrics: metrics of TRAIN, name to float scalar.
    """
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=loss)
    learning_rate = learning_rate_at(params.learning_rate, labels)
    optimizer = make_optimizer(params.optimizer, learning_rate, params.optimizer_epsilon)
    norm = minimize(loss, variables, optimizer, params.max_gradient_norm)
    metrics = {**metrics, "gradient_norm": norm, "learning_rate": learning_rate}
    return EstimatorSpec(mode, loss=loss, td_error=td_error, metrics=metrics)
