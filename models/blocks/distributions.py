"""Distributions over actions, given the outputs of a policy network. Tensors in, tensors out.

Shapes in comments: B is the batch, A the number of discrete actions, D the size of a continuous action. Actions count
from 0; callers add the ``start`` of a Discrete or MultiDiscrete space. The behaviour policies that draw from these
distributions are in ``axonrl.explorations``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from ...core.tensorflow_import import tf
from . import gamma, squashed
from .masks import legal_logits

Tensor: TypeAlias = Any

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_POINTS, _WEIGHTS = (part.astype(np.float32) for part in np.polynomial.hermite_e.hermegauss(32))
_WEIGHTS /= _WEIGHTS.sum()  # weights of a mean over a standard normal distribution
_EDGE = 1e-6
"""Distance of a beta-distributed action from its bounds, as a share of its range."""


class Distribution(Protocol):
    """A distribution over actions for each row of a batch."""

    def mode(self) -> Any:
        """The likeliest action: int32 [B] or [B, K], or float32 [B, D]; for a :class:`Joint` a dictionary of these."""

    def log_prob(self, action: Any) -> Tensor:
        """Log-probability (or log-density) of actions shaped like the mode: float32 [B]."""

    def entropy(self) -> Tensor:
        """Entropy in nats, float32 [B]."""

    def kl(self, other: Any) -> Tensor:
        """The Kullback-Leibler divergence of another distribution of the same kind from this one, in nats, float32 [B].

        It is the mean of ``log_prob - other.log_prob`` over actions drawn from this one. Its second derivatives with
        respect to the parameters of the other are correct where both are equal, too: the Fisher information.
        """


class Categorical:
    """One of A actions.

    Args:
        logits: float32 [B, A], unnormalised log-probabilities.
        mask: bool [B, A], the legal actions, which get all probability; None if all are legal.
    """

    def __init__(self, logits: Tensor, mask: Tensor | None = None) -> None:
        self.log_probs = tf.nn.log_softmax(legal_logits(logits, mask))  # [B, A]

    def mode(self) -> Tensor:
        """int32 [B]."""
        return tf.argmax(self.log_probs, axis=-1, output_type=tf.int32)

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]. A product with one-hot vectors, whose gradient every runtime supports."""
        taken = tf.one_hot(action, self.log_probs.shape[-1], dtype=self.log_probs.dtype)
        return tf.reduce_sum(self.log_probs * taken, axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]."""
        return -tf.reduce_sum(tf.exp(self.log_probs) * self.log_probs, axis=-1)

    def expectation(self, values: Tensor) -> Tensor:
        """The mean of values [B, A] of the actions, float32 [B]."""
        return tf.reduce_sum(tf.exp(self.log_probs) * values, axis=-1)

    def kl(self, other: Categorical) -> Tensor:
        """float32 [B]. Both must have the same mask."""
        return tf.reduce_sum(tf.exp(self.log_probs) * (self.log_probs - other.log_probs), axis=-1)


class MultiCategorical:
    """Several independent choices.

    Args:
        logits: float32 [B, sum(sizes)], concatenated.
        sizes: number of actions of each of the K choices.
        mask: bool [B, sum(sizes)], the legal actions, concatenated; None if all are legal.
    """

    def __init__(self, logits: Tensor, sizes: Sequence[int], mask: Tensor | None = None) -> None:
        logits = legal_logits(logits, mask)
        self.parts = [Categorical(part) for part in tf.split(logits, list(sizes), axis=-1)]

    def mode(self) -> Tensor:
        """int32 [B, K]."""
        return tf.stack([part.mode() for part in self.parts], axis=-1)

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the choices."""
        each = [part.log_prob(action[:, k]) for k, part in enumerate(self.parts)]
        return tf.add_n(each)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the choices."""
        return tf.add_n([part.entropy() for part in self.parts])

    def kl(self, other: MultiCategorical) -> Tensor:
        """float32 [B]: the sum over the choices."""
        return tf.add_n([part.kl(its) for part, its in zip(self.parts, other.parts, strict=True)])


class Bernoulli:
    """Independent bits.

    Args:
        logits: float32 [B, D], logits of each bit being 1.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    def mode(self) -> Tensor:
        """int32 [B, D]."""
        return tf.where(self.logits > 0, 1, 0)

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the bits, of actions float32 [B, D] that are 0 or 1."""
        return -tf.reduce_sum(_softplus((1 - 2 * action) * self.logits), axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the bits."""
        # -p log p - (1 - p) log(1 - p), with log p = -softplus(-z) and log(1 - p) = -softplus(z)
        each = _softplus(self.logits) - self.logits * tf.sigmoid(self.logits)
        return tf.reduce_sum(each, axis=-1)

    def kl(self, other: Bernoulli) -> Tensor:
        """float32 [B]: the sum over the bits."""
        # As two actions: the softplus below has a second derivative of 0 at 0, log_softmax the correct one.
        own, its = (Categorical(tf.stack([tf.zeros_like(z), z], axis=-1)) for z in (self.logits, other.logits))
        return tf.reduce_sum(own.kl(its), axis=-1)


class Joint:
    """Independent distributions by name: log-probabilities and entropies add.

    Args:
        parts: at least one.
    """

    def __init__(self, parts: Mapping[str, Distribution]) -> None:
        self.parts = dict(parts)

    def mode(self) -> dict[str, Any]:
        """The mode of each part."""
        return {name: part.mode() for name, part in self.parts.items()}

    def log_prob(self, action: Mapping[str, Any]) -> Tensor:
        """float32 [B]: the sum over the parts."""
        return tf.add_n([part.log_prob(action[name]) for name, part in self.parts.items()])

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the parts."""
        return tf.add_n([part.entropy() for part in self.parts.values()])

    def kl(self, other: Joint) -> Tensor:
        """float32 [B]: the sum over the parts."""
        return tf.add_n([part.kl(other.parts[name]) for name, part in self.parts.items()])


class Gaussian:
    """Independent normal distributions.

    Args:
        mean: float32 [B, D].
        log_std: float32 [B, D] or [D], logarithm of the standard deviations.
    """

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        self.mean, self.log_std = mean, log_std

    def mode(self) -> Tensor:
        """The mean, float32 [B, D]."""
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the components."""
        standardized = (action - self.mean) * tf.exp(-self.log_std)
        return tf.reduce_sum(-0.5 * tf.square(standardized) - self.log_std - _LOG_SQRT_2PI, axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the components."""
        return tf.reduce_sum(self.log_std + (0.5 + _LOG_SQRT_2PI) + tf.zeros_like(self.mean), axis=-1)

    def kl(self, other: Gaussian) -> Tensor:
        """float32 [B]: the sum over the components."""
        narrower = self.log_std - other.log_std  # the logarithm of the ratio of standard deviations
        distance = (self.mean - other.mean) * tf.exp(-other.log_std)
        each = 0.5 * (tf.exp(2 * narrower) - 1 + tf.square(distance)) - narrower
        return tf.reduce_sum(each, axis=-1)


class Beta:
    """Independent beta distributions, stretched to bounds.

    Source: Chou, Maturana and Scherer 2017, https://proceedings.mlr.press/v70/chou17a.html.

    Args:
        alpha: float32 [B, D], above 0.
        beta: float32 [B, D], above 0.
        low: lower bound of the actions; a number, or one for each component.
        high: upper bound of the actions; a number, or one for each component.
    """

    def __init__(self, alpha: Tensor, beta: Tensor, low: Any = 0.0, high: Any = 1.0) -> None:
        self.alpha, self.beta = alpha, beta
        self._low = np.asarray(low, np.float32)
        self._width = np.asarray(high, np.float32) - self._low

    def mode(self) -> Tensor:
        """float32 [B, D]; the middle of the bounds for uniform distributions. For parameters of at least 1."""
        excess = self.alpha + self.beta - 2.0
        peaked = excess > 0
        unit = tf.where(peaked, (self.alpha - 1.0) / tf.where(peaked, excess, 1.0), 0.5)
        return self._low + self._width * unit

    def mean(self) -> Tensor:
        """float32 [B, D]."""
        return self._low + self._width * (self.alpha / (self.alpha + self.beta))

    def log_prob(self, action: Tensor) -> Tensor:
        """float32 [B]: the sum over the components; actions at the bounds count as just inside."""
        unit = tf.clip_by_value((action - self._low) / self._width, _EDGE, 1.0 - _EDGE)
        each = (self.alpha - 1.0) * tf.math.log(unit) + (self.beta - 1.0) * tf.math.log(1.0 - unit)
        return tf.reduce_sum(each - gamma.log_beta(self.alpha, self.beta) - np.log(self._width), axis=-1)

    def entropy(self) -> Tensor:
        """float32 [B]: the sum over the components."""
        alpha, beta = self.alpha, self.beta
        both = gamma.digamma(alpha + beta)
        each = (alpha - 1.0) * (both - gamma.digamma(alpha)) + (beta - 1.0) * (both - gamma.digamma(beta))
        return tf.reduce_sum(each + gamma.log_beta(alpha, beta) + np.log(self._width), axis=-1)

    def kl(self, other: Beta) -> Tensor:
        """float32 [B]: the sum over the components. Both must have the same bounds."""
        both = gamma.digamma(self.alpha + self.beta)
        log_unit, log_rest = gamma.digamma(self.alpha) - both, gamma.digamma(self.beta) - both  # the means
        each = (self.alpha - other.alpha) * log_unit + (self.beta - other.beta) * log_rest
        each += gamma.log_beta(other.alpha, other.beta) - gamma.log_beta(self.alpha, self.beta)
        return tf.reduce_sum(each, axis=-1)


class SquashedGaussian:
    """Independent normal distributions, squashed by tanh and stretched to bounds.

    Source: Haarnoja et al. 2018, https://arxiv.org/abs/1801.01290, appendix C.

    Args:
        mean: float32 [B, D], before squashing.
        log_std: float32 [B, D], before squashing.
        log_scale: the log of the factor by which bounds stretch volumes; see ``squashed.log_scale``.
    """

    def __init__(self, mean: Tensor, log_std: Tensor, log_scale: float) -> None:
        self.mean, self.log_std, self._log_scale = mean, log_std, log_scale
        self.gaussian = Gaussian(mean, log_std)

    def mode(self) -> Tensor:
        """The squashed mean in -1 .. 1, float32 [B, D], which is the median of each component."""
        return tf.tanh(self.mean)

    def log_prob(self, action: Tensor) -> Tensor:
        """Log-density in the environment's units of actions in -1 .. 1, float32 [B]; bounds count as just inside."""
        unsquashed = squashed.unsquashed(action)
        slope = tf.reduce_sum(squashed.log_slope(unsquashed), axis=-1)
        return self.gaussian.log_prob(unsquashed) - slope - self._log_scale

    def entropy(self) -> Tensor:
        """float32 [B]: the entropy before squashing plus the mean logarithm of the squashing's slope.

        The mean is a Gauss-Hermite quadrature, https://dlmf.nist.gov/3.5#v, with 32 points.
        """
        at = self.mean[..., None] + tf.exp(self.log_std)[..., None] * _POINTS  # [B, D, 32]
        slope = tf.reduce_sum(squashed.log_slope(at) * _WEIGHTS, axis=[-2, -1])
        return self.gaussian.entropy() + slope + self._log_scale

    def kl(self, other: SquashedGaussian) -> Tensor:
        """float32 [B]: the divergence before squashing, as both are squashed alike."""
        return self.gaussian.kl(other.gaussian)


def _softplus(values: Tensor) -> Tensor:
    """``log(1 + exp(x))`` without overflow; its gradient is the sigmoid, also at 0, unlike with a maximum."""
    size = tf.abs(values)
    return 0.5 * values + 0.5 * size + tf.math.log1p(tf.exp(-size))
