"""Distributions over actions, given the outputs of a policy network. Tensors in, tensors out.

Shapes in comments: B is the batch, A the number of discrete actions, D the size of a continuous action. Actions count
from 0; ``start`` of a Discrete or MultiDiscrete space is the caller's. The behaviour policies that draw from these
distributions are in ``axonrl.explorations``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

Tensor: TypeAlias = Any

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """A distribution over actions for each row of a batch."""

    def mode(self) -> Tensor:
        """The likeliest action: int32 [B] or [B, K], or float32 [B, D]."""

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-probability (or log-density) of actions shaped like the mode: float32 [B]."""

    def entropy(self) -> Tensor:
        """In nats, float32 [B]."""


class Categorical:
    """One of A actions.

    Args:
        logits: float32 [B, A], unnormalised log-probabilities.
    """

    def __init__(self, logits: Tensor) -> None:
        self._log_probs = tf.nn.log_softmax(logits)  # [B, A]

    def mode(self) -> Tensor:
        """int32 [B]."""
        return tf.argmax(self._log_probs, axis=-1, output_type=tf.int32)

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]. By one-hot product, whose gradient every runtime supports."""
        taken = tf.one_hot(action, self._log_probs.shape[-1], dtype=self._log_probs.dtype)
        return tf.reduce_sum(self._log_probs * taken, axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]."""
        return -tf.reduce_sum(tf.exp(self._log_probs) * self._log_probs, axis=-1)


class MultiCategorical:
    """Several independent choices.

    Args:
        logits: float32 [B, sum(sizes)], side by side.
        sizes: actions to choose from in each, K of them.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int]) -> None:
        self._parts = [Categorical(part) for part in tf.split(logits, list(sizes), axis=-1)]

    def mode(self) -> Tensor:
        """int32 [B, K]."""
        return tf.stack([part.mode() for part in self._parts], axis=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the choices."""
        each = [part.log_prob(action[:, k]) for k, part in enumerate(self._parts)]
        return tf.add_n(each)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the choices."""
        return tf.add_n([part.entropy() for part in self._parts])


class Gaussian:
    """Independent normal distributions.

    Args:
        mean: float32 [B, D].
        log_std: float32 [B, D] or [D], logarithm of the standard deviations.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self._mean, self._log_std = mean, log_std

    def mode(self) -> Tensor:
        """The mean, float32 [B, D]."""
        return self._mean

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the components."""
        standardized = (action - self._mean) * tf.exp(-self._log_std)
        return tf.reduce_sum(-0.5 * tf.square(standardized) - self._log_std - _LOG_SQRT_2PI, axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the components."""
        return tf.reduce_sum(self._log_std + (0.5 + _LOG_SQRT_2PI) + tf.zeros_like(self._mean), axis=-1)
