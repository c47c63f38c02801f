"""Rollouts [T, N, ...] of on-policy algorithms: rows, advantages, and passes in minibatches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from ... import noise
from ...core.errors import ArgumentError
from ...core.spread import varies
from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any

_SMALL = 1e-8
"""Added to a standard deviation before dividing by it."""


def check_rollout(labels: Mapping[str, Any], algorithm: str) -> None:
    """Refuse batches that are not rollouts.

    Raises:
        ArgumentError: rewards are not [T, N], or the batch has padded sequences.
    """
    shape = labels["reward"].shape
    if shape.rank != 2 or "valid" in labels:
        given = (
            f"has padded sequences of shape {list(shape)}"
            if "valid" in labels
            else f"has rewards of shape {list(shape)}"
        )
        message = f"{algorithm}: rollouts [T, N, ...] are needed, from a BatchMemory; this memory's batch {given}"
        raise ArgumentError(message, "memory")


def rows(tree: Any) -> Any:
    """Reshape a tensor [T, N, ...], or a mapping of tensors, to [T * N, ...]."""
    if isinstance(tree, Mapping):
        return {name: rows(part) for name, part in tree.items()}
    tree = tf.cast(tree, tf.float32) if tree.dtype == tf.int8 else tree  # bits; LiteRT does not reshape or gather int8
    return tf.reshape(tree, [tree.shape[0] * tree.shape[1], *tree.shape[2:]])


def normalize(values: Tensor) -> Tensor:
    """Scale advantages [B] to mean 0 and standard deviation 1; if all are equal up to rounding, they become 0.

    Raises:
        ArgumentError: there is only one.
    """
    if values.shape[0] == 1:
        message = "normalize_advantages leaves nothing to learn from 1 timestep: make rollouts and minibatches larger"
        raise ArgumentError(f"{message}, or set it to false", "normalize_advantages", True)
    centred = values - tf.reduce_mean(values)
    variance = tf.reduce_mean(tf.square(centred))
    scaled = centred / (tf.sqrt(variance) + _SMALL)
    return scaled * tf.cast(varies(variance, tf.reduce_mean(tf.square(values))), tf.float32)


def explained_variance(value: Tensor, returns: Tensor) -> Tensor:
    """Share of the variance of returns [B] that values [B] explain: 1 if perfect; 0 if all returns are equal."""
    variance = tf.math.reduce_variance(returns)
    unexplained = tf.math.reduce_variance(returns - value)
    differ = varies(variance, tf.reduce_mean(tf.square(returns) + tf.square(value)))
    return tf.where(differ, 1 - unexplained / tf.where(differ, variance, 1.0), 0.0)


def over_minibatches(
    update: Callable[[Mapping[str, Any]], Mapping[str, Tensor]],
    rollout: Mapping[str, Any],
    names: Sequence[str],
    epochs: int,
    minibatch_size: int | None,
    *,
    together: int = 1,
    stop_above: tuple[str, float | None] = ("", None),
    refresh: Callable[[], Mapping[str, Tensor]] | None = None,
) -> dict[str, Tensor]:
    """Passes over a rollout in random minibatches, with an update for each.

    One pass over the whole rollout is one update, without a loop and without noise.

    Args:
        update: from some rows of the rollout to float scalars by name; assigns variables. It cannot create variables,
            since it runs inside a loop: build optimizers first.
        rollout: name to rows [B, ...], or to a mapping of rows.
        names: names of the scalars.
        epochs: number of passes.
        minibatch_size: rows of each update, a divisor of B; ``None`` means all.
        together: number of consecutive rows that stay together, beginning with row 0; a divisor of the minibatch size.
        stop_above: name of a scalar, and its limit: the first update that exceeds it is the last one; ``None`` never
            stops.
        refresh: if given, computes rows [B] before every pass that replace those of the same names.

    Returns:
        the means of the scalars over the updates, and ``optimizer_steps``, the number of updates.

    Raises:
        ArgumentError: the minibatch size does not divide the rollout, or ``together`` not the minibatch size.
    """
    total_rows = tf.nest.flatten(rollout)[0].shape[0]
    size = _checked_size(minibatch_size, total_rows, together)
    if size == total_rows and epochs == 1:
        return {**update(rollout), "optimizer_steps": tf.constant(1.0)}

    orders = tf.reshape(_random_orders(total_rows, epochs, together), [-1, size])

    def begin() -> Callable[[Tensor], Mapping[str, Tensor]]:
        rows = rollout if refresh is None else {**rollout, **refresh()}
        # Gather, not slice: a slice that begins at i has an unknown size, for which LiteRT plans memory every time.
        return lambda i: update(_gather(rows, tf.gather(orders, i)))

    if refresh is None:
        means, steps = repeat(begin(), names, orders.shape[0], stop_above=stop_above)
    else:
        means, steps = _repeated_in_passes(begin, names, orders.shape[0], total_rows // size, stop_above)
    return {**means, "optimizer_steps": steps}


def _checked_size(minibatch_size: int | None, total_rows: int, together: int) -> int:
    """Rows of each minibatch of a rollout, whose groups of ``together`` consecutive rows are not split."""
    size = total_rows if minibatch_size is None else minibatch_size
    if total_rows % size:
        message = f"minibatch_size must divide the rollout of {total_rows} timesteps, got {size}"
        raise ArgumentError(message, "minibatch_size", size)
    if size % together:
        message = f"minibatch_size must be a multiple of sequence_length, which is {together}, got {size}"
        raise ArgumentError(message, "minibatch_size", size)
    return size


def _random_orders(count: int, epochs: int, together: int) -> Tensor:
    """A random order of the rows for each epoch, int32 [epochs * count / together, together]."""
    groups = count // together
    orders = tf.concat([noise.permutation(groups) for _ in range(epochs)], axis=0)  # [epochs * groups]
    return orders[:, None] * together + tf.range(together) if together > 1 else orders


def repeat(
    step: Callable[[Tensor], Mapping[str, Tensor]],
    names: Sequence[str],
    total: int,
    *,
    stop_above: tuple[str, float | None] = ("", None),
) -> tuple[dict[str, Tensor], Tensor]:
    """Run a step several times, in a loop.

    Args:
        step: from the number of the step, int32 scalar, to float scalars by name; assigns variables. It cannot create
            variables: build optimizers first.
        names: names of the scalars.
        total: number of steps, at least 1.
        stop_above: as for :func:`over_minibatches`.

    Returns:
        the means of the scalars over the steps, and the number of steps, float32 scalar.
    """
    loop = _Loop(names, stop_above)
    return loop.means(loop.run(step, total, loop.start()))


def _repeated_in_passes(
    begin: Callable[[], Callable[[Tensor], Mapping[str, Tensor]]],
    names: Sequence[str],
    total: int,
    length: int,
    stop_above: tuple[str, float | None],
) -> tuple[dict[str, Tensor], Tensor]:
    """Run :func:`repeat` in passes of ``length`` steps, each with the step that ``begin`` returns."""
    loop = _Loop(names, stop_above)

    def one_pass(i: Tensor, last: Tensor, sums: Tensor) -> _State:
        return loop.run(begin(), i + length, (i, last, sums))

    return loop.means(loop.while_below(total, one_pass, loop.start()))


_State: TypeAlias = tuple[Any, Any, Any]
"""Number of the next step, last value of the scalar that may stop the loop, and sums of the scalars [S]."""


class _Loop:
    """A loop of steps that return the scalars of these names; ``stop_above`` as for :func:`over_minibatches`."""

    def __init__(self, names: Sequence[str], stop_above: tuple[str, float | None]) -> None:
        name, self._limit = stop_above
        self._names, self._watched = names, 0 if self._limit is None else names.index(name)

    def start(self) -> _State:
        return tf.constant(0), tf.constant(0.0), tf.zeros(len(self._names))

    def run(self, step: Callable[[Tensor], Mapping[str, Tensor]], end: Any, state: _State) -> _State:
        """Run the steps below number ``end``."""

        def body(i: Tensor, last: Tensor, sums: Tensor) -> _State:
            scalars = step(i)
            values = tf.stack([scalars[name] for name in self._names])
            return i + 1, values[self._watched], sums + values

        return self.while_below(end, body, state)

    def while_below(self, end: Any, body: Callable[[Tensor, Tensor, Tensor], _State], state: _State) -> _State:
        """Repeat ``body`` until the step's number reaches ``end``, or the watched scalar its limit."""

        def unfinished(i: Tensor, last: Tensor, sums: Tensor) -> Tensor:
            return i < end if self._limit is None else tf.logical_and(i < end, last <= self._limit)

        found: _State = tf.while_loop(unfinished, body, state, parallel_iterations=1)
        return found

    def means(self, state: _State) -> tuple[dict[str, Tensor], Tensor]:
        """The means of the scalars over the steps, and the number of steps, float32 scalar."""
        steps = tf.cast(state[0], tf.float32)
        return dict(zip(self._names, tf.unstack(state[2] / steps), strict=True)), steps


def _gather(tree: Any, index: Tensor) -> Any:
    if isinstance(tree, Mapping):
        return {name: _gather(part, index) for name, part in tree.items()}
    return tf.gather(tree, index)
