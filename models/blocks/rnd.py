"""Random network distillation: intrinsic rewards for observations that a predictor has not yet learned.

Source: Burda et al. 2018, https://arxiv.org/abs/1810.12894. Differences from the paper: docs/algorithms/rnd.md.

Shapes in comments: a rollout is T timesteps of N environments, O the shape of an encoded observation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from ... import noise
from ...core.tensorflow_import import keras, tf
from .actor_critic_params import ActorCriticParams
from .networks import Network
from .observations import Observations
from .returns import discounted_sums
from .rollouts import check_rollout, rows

Tensor: TypeAlias = Any

_CLIP: Final = 5.0
"""Bound of normalised observations: section 2.4."""
_SMALL: Final = 1e-8
"""Added to variances."""
_INPUT, _LEARNS = "predictor_input", "predictor_learns"


class RND:
    """Intrinsic rewards of a rollout, from a fixed random network and a predictor of its outputs.

    Running statistics are variables, so that checkpoints and both executors have them. All variables are created at
    once.

    Args:
        observations: encoding of observations.
        params: parameters; the kind of network is the policy's.
        labels: the batch, with ``next_observation``.
        learns: whether the statistics first include this rollout, as in training.

    Raises:
        ArgumentError: the batch is not a rollout.
    """

    def __init__(
        self, observations: Observations, params: ActorCriticParams, labels: Mapping[str, Any], *, learns: bool
    ) -> None:
        check_rollout(labels, "random network distillation")
        shape, units = labels["reward"].shape, params.rnd_units
        # The predictor has two more layers, so that it can imitate the target: Burda et al. 2018, appendix A.3.
        self._target, self._predictor = (
            Network(
                name,
                observations.shape,
                {"head": units},
                dataclasses.replace(params, hidden=[units] * layers, activation="relu", initializer="orthogonal"),
                scale=math.sqrt(2),
            )
            for name, layers in (("rnd_target", 1), ("rnd_predictor", 3))
        )
        with keras.name_scope("rnd"):
            seen, returns = Moments("observation", observations.shape), Moments("return", ())
            last_sums = _variable("sums", np.zeros(shape[1]))
        encoded = observations.encode(rows(labels["next_observation"]))
        mean, variance = seen.with_rows(encoded) if learns else seen.mean_and_variance()
        inputs = tf.clip_by_value((encoded - mean) / tf.sqrt(variance + _SMALL), -_CLIP, _CLIP)
        error = tf.reshape(self._error(inputs), shape)
        self.discount, self.coefficient = params.intrinsic_discount, params.intrinsic_coefficient
        """Discount of the non-episodic returns of the rewards, and weight of their advantages."""
        sums = discounted_sums(error, self.discount, last_sums.value)
        _, variance = returns.with_rows(tf.reshape(sums, [-1])) if learns else returns.mean_and_variance()
        self.reward = tf.stop_gradient(error / tf.sqrt(variance + _SMALL))
        """Errors of the predictor over the deviation of their discounted sums, float32 [T, N]."""
        self.rows = {_INPUT: tf.reshape(inputs, [*shape, *inputs.shape[1:]])}
        """Arrays that :meth:`loss` reads, [T, N, ...]."""
        if learns:
            last_sums.assign(sums[-1])
            if params.rnd_share < 1:
                self.rows[_LEARNS] = tf.cast(noise.uniform(shape) < params.rnd_share, tf.float32)

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""
        return self._predictor.variables

    def loss(self, minibatch: Mapping[str, Any]) -> Tensor:
        """Mean error of the predictor over the rows that train it, float32 scalar."""
        error = self._error(minibatch[_INPUT])
        if _LEARNS not in minibatch:
            return tf.reduce_mean(error)
        return tf.reduce_sum(error * minibatch[_LEARNS]) / tf.maximum(tf.reduce_sum(minibatch[_LEARNS]), 1.0)

    def _error(self, inputs: Tensor) -> Tensor:
        """Mean squared difference of predictor and target, [B]."""
        target = tf.stop_gradient(self._target(inputs)["head"])
        return tf.reduce_mean(tf.square(self._predictor(inputs)["head"] - target), axis=-1)


class Moments:
    """Running mean and variance of all rows so far.

    Source: Chan, Golub and LeVeque 1983, https://doi.org/10.1080/00031305.1983.10483115, equation 2.1.

    Args:
        name: prefix of the names of the variables.
        shape: shape of a row.
    """

    def __init__(self, name: str, shape: Sequence[int]) -> None:
        self._mean = _variable(f"{name}_mean", np.zeros(shape))
        self._variance = _variable(f"{name}_variance", np.ones(shape))
        self._count = _variable(f"{name}_count", np.zeros(()))

    def mean_and_variance(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of the rows so far."""
        return self._mean.value, self._variance.value

    def with_rows(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Include rows [B, ...]; returns the new mean and variance."""
        (mean, variance), before = self.mean_and_variance(), self._count.value
        count = before + values.shape[0]
        share = values.shape[0] / count  # of these rows among all
        own = tf.reduce_mean(values, axis=0)
        own_variance = tf.reduce_mean(tf.square(values - own), axis=0)
        between = share * (1 - share) * tf.square(own - mean)
        found = mean + share * (own - mean), (1 - share) * variance + share * own_variance + between
        for variable, value in zip((self._mean, self._variance, self._count), (*found, count), strict=True):
            variable.assign(value)
        return found


def _variable(name: str, initial: Any) -> Any:
    return keras.Variable(initial.astype(np.float32), trainable=False, name=name)
