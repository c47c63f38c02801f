"""Discrete and MultiDiscrete actions for algorithms with a value per choice."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces

from ...core.errors import ArgumentError
from ...core.tensorflow_import import tf
from . import masks

Tensor: TypeAlias = Any


class Branches:
    """One choice of n (Discrete), or K choices, called branches (MultiDiscrete).

    Networks return the values of all branches concatenated, [B, sum of n]. Inside, each branch of each transition is a
    row, [B * K, n], and shorter branches are padded with choices that are never legal. Code for one choice therefore
    works for several; with K = 1 nothing changes.

    Source: Tavakoli, Pardo and Kormushev 2018, https://arxiv.org/abs/1711.08946.

    Args:
        space: a Discrete or a MultiDiscrete space.
        algorithm: for the error message.

    Raises:
        ArgumentError: the space is of another kind.
    """

    def __init__(self, space: Any, algorithm: str) -> None:
        match space:
            case spaces.Discrete():
                sizes: list[int] = [int(space.n)]
            case spaces.MultiDiscrete():
                sizes = [int(n) for n in space.nvec.flat]
            case _:
                message = f"{algorithm} needs a Discrete or a MultiDiscrete action space, got {space!r}"
                raise ArgumentError(message, "action_space", space)
        self.space = space
        self.sizes = sizes
        """Choices of each branch [K]."""
        self._start = np.reshape(np.asarray(space.start, np.int32), -1)  # [K]
        self._widest = max(sizes)
        self._exists = np.arange(self._widest) < np.array(sizes)[:, None]  # [K, n]

    def rows(self, values: Tensor) -> Tensor:
        """Reshape [B, sum of n, ...] to [B * K, n, ...], padded with zeros."""
        if len(self.sizes) == 1:
            return values
        if not self._exists.all():
            padding = [[0, 0] for _ in values.shape]
            parts = []
            for part, size in zip(tf.split(values, self.sizes, axis=1), self.sizes, strict=True):
                padding[1] = [0, self._widest - size]
                parts.append(tf.pad(part, padding))
            values = tf.concat(parts, axis=1)
        return tf.reshape(values, [-1, self._widest, *values.shape[2:]])

    def mask(self, mask: Tensor | None, values: Tensor) -> Tensor | None:
        """Mask of legal choices, bool [B * K, n], for rows of values; None if all are legal.

        Args:
            mask: bool [B, sum of n], or None.
            values: [B * K, n], which give the number of rows.
        """
        if mask is not None:
            return mask if len(self.sizes) == 1 else self.rows(tf.cast(mask, tf.float32)) > 0.5
        if self._exists.all():
            return None
        ones = tf.ones_like(tf.reshape(values, [-1, self._exists.size]))
        return tf.reshape(ones * self._exists.astype(np.float32).ravel(), [-1, self._widest]) > 0.5

    def best(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """The best legal choice from 0 in each row, int32 [B * K], from values [B * K, n] and a mask [B, sum of n]."""
        return masks.best(values, self.mask(mask, values))

    def spread(self, numbers: Tensor) -> Tensor:
        """Repeat numbers of transitions, [B, ...], for each of their rows, [B * K, ...]."""
        if len(self.sizes) == 1:
            return numbers
        rest = numbers.shape[1:]
        return tf.reshape(tf.tile(numbers[:, tf.newaxis], [1, len(self.sizes), *[1] * len(rest)]), [-1, *rest])

    def mean(self, numbers: Tensor) -> Tensor:
        """Average numbers of rows, [B * K, ...], over the branches of each transition: [B, ...]."""
        if len(self.sizes) == 1:
            return numbers
        return tf.reduce_mean(tf.reshape(numbers, [-1, len(self.sizes), *numbers.shape[1:]]), axis=1)

    def mixture(self, samples: Tensor) -> Tensor:
        """Merge equally likely samples of rows, [B * K, N], over the branches of each transition: [B, K * N]."""
        return samples if len(self.sizes) == 1 else tf.reshape(samples, [-1, len(self.sizes) * samples.shape[1]])

    def priority(self, td_error: Tensor) -> Tensor:
        """The TD error of each transition, [B]; with several branches the sum of their absolute values.

        Source: Tavakoli et al. 2018, "Error for experience prioritization".
        """
        if len(self.sizes) == 1:
            return td_error
        return tf.reduce_sum(tf.reshape(tf.abs(td_error), [-1, len(self.sizes)]), axis=1)

    def greedy(self, values: Tensor, mask: Tensor | None) -> Tensor:
        """The best legal action in the environment's units, int32 [B, ...], from values [B, sum of n] and a mask."""
        rows = self.rows(values)
        best = self.best(rows, mask)
        if not self.space.shape:
            return masks.or_none(best + int(self._start[0]), mask)
        best = tf.reshape(best, [-1, len(self.sizes)]) + self._start
        if mask is not None:
            best = masks.or_none(tf.reshape(best, [-1]), self.mask(mask, rows))
        return tf.reshape(best, [-1, *self.space.shape])

    def from_environment(self, action: Tensor) -> Tensor:
        """The choices from 0, int32 [B * K], of actions int32 [B, ...]."""
        if not self.space.shape:
            return action - int(self._start[0])
        return tf.reshape(tf.reshape(action, [-1, len(self.sizes)]) - self._start, [-1])
