"""Distributions over actions, given the outputs of a policy network. Tensors in, tensors out.

Shapes in comments: B is the batch, A the number of discrete actions, D the size of a continuous action. Actions count
from 0; ``start`` of a Discrete or MultiDiscrete space is the caller's. The behaviour policies that draw from these
distributions are in ``axonrl.explorations``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import tensorflow as tf

from .masks import legal_logits

Tensor: TypeAlias = Any

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class Distribution(Protocol):
    """A distribution over actions for each row of a batch."""

    def mode(self) -> Any:
        """The likeliest action: int32 [B] or [B, K], or float32 [B, D]; of a :class:`Joint`, a dictionary of such."""

    def log_prob(self, action: Any) -> Tensor:
        """Log-probability (or log-density) of actions shaped like the mode: float32 [B]."""

    def entropy(self) -> Tensor:
        """In nats, float32 [B]."""


class Categorical:
    """One of A actions.

    Args:
        logits: float32 [B, A], unnormalised log-probabilities.
        mask: bool [B, A], the legal actions, among which all probability is; None if all are.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self._log_probs = tf.nn.log_softmax(legal_logits(logits, mask))  # [B, A]

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

    def expectation(self, values: Tensor) -> Tensor:
        """The mean of values [B, A] of the actions, float32 [B]."""
        return tf.reduce_sum(tf.exp(self._log_probs) * values, axis=-1)


class MultiCategorical:
    """Several independent choices.

    Args:
        logits: float32 [B, sum(sizes)], side by side.
        sizes: actions to choose from in each, K of them.
        mask: bool [B, sum(sizes)], the legal actions, side by side; None if all are.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None) -> None:
        logits = legal_logits(logits, mask)
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


class Bernoulli:
    """Independent bits.

    Args:
        logits: float32 [B, D], of each bit being 1.
    """

    def __init__(self, logits: Tensor) -> None:
        self._logits = logits

    def mode(self) -> Tensor:
        """int32 [B, D]."""
        return tf.where(self._logits > 0, 1, 0)

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the bits, of actions float32 [B, D] that are 0 or 1."""
        return -tf.reduce_sum(_softplus((1 - 2 * action) * self._logits), axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the bits."""
        # -p log p - (1 - p) log(1 - p), with log p = -softplus(-z) and log(1 - p) = -softplus(z)
        each = _softplus(self._logits) - self._logits * tf.sigmoid(self._logits)
        return tf.reduce_sum(each, axis=-1)


class Joint:
    """Independent distributions by name: log-probabilities and entropies add.

    Args:
        parts: at least one.
    """

    def __init__(self, parts: Mapping[str, Distribution]) -> None:
        self._parts = dict(parts)

    def mode(self) -> dict[str, Any]:
        """The mode of each."""
        return {name: part.mode() for name, part in self._parts.items()}

    def log_prob(self, action: Mapping[str, Any]) -> Tensor:
        """float32 [B]: the sum over the parts."""
        return tf.add_n([part.log_prob(action[name]) for name, part in self._parts.items()])

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the parts."""
        return tf.add_n([part.entropy() for part in self._parts.values()])


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


def _softplus(values: Tensor) -> Tensor:
    """``log(1 + exp(x))`` without overflow; its gradient is the sigmoid, also at 0, where that of a maximum is not."""
    size = tf.abs(values)
    return 0.5 * values + 0.5 * size + tf.math.log1p(tf.exp(-size))
