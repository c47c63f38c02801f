"""IQN: Q-learning with a network that predicts the quantile of the return at any fraction.

Source: Dabney, Ostrovski, Silver and Munos 2018 (https://arxiv.org/abs/1806.06923). Differences from the paper:
docs/algorithms/iqn.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from .. import noise
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import keras, tf
from .blocks import quantiles
from .blocks.params import from_params, integer, param
from .blocks.q_networks import QNetwork, QTask

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQNParams(quantiles.QuantileParams):
    """The parameters of IQN; the numbers are the paper's."""

    quantiles: int = param(64, "N, random fractions of the prediction in each update", integer(at_least=1))
    target_quantiles: int = param(64, "N', random fractions of the target in each update", integer(at_least=1))
    policy_quantiles: int = param(32, "K, fractions over which an action's value is averaged", integer(at_least=1))
    cosines: int = param(64, "n, cosines that embed a fraction", integer(at_least=1))


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | IQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """IQN, for a ReplayMemory.

    Predictions: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A] (expected returns), A being
    the sum of a MultiDiscrete space's choices, ``quantiles`` float32 [B, A, policy_quantiles] at evenly spaced
    fractions, ``noisy_action`` like ``action`` where layers are noisy, and ``action_mask`` bool [B, A] where
    observations have a mask. Metrics: ``q_mean`` (of the actions taken), ``gradient_norm`` (before clipping),
    ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(IQNParams, params)
    task = QTask(config, mode, params, "IQN")
    network = partial(ImplicitNetwork, task=task, params=params)
    online = network("online")
    if mode == Modes.PREDICT:
        fractions = quantiles.midpoints(params.policy_quantiles)[np.newaxis]  # [1, K]
        z = online(features, fractions)  # [B, A, K]
        noisy_values = quantiles.values(online(features, fractions, noisy=True)) if task.noisy else None
        return task.predict(features, quantiles.values(z), noisy_values, quantiles=z)

    target = task.target(network, online, labels)
    rows, next_observation = task.branches.rows, labels["next_observation"]

    def drawn(count: int) -> Tensor:  # uniform fractions, [B, count]
        return noise.uniform([labels["reward"].shape[0], count])

    fractions = drawn(params.quantiles)
    z = rows(online(features, fractions, noisy=task.noisy))  # [B * K, n, N]; K = 1 except for MultiDiscrete actions
    next_z = rows(target(next_observation, drawn(params.target_quantiles), noisy=task.noisy))
    selecting = online if params.double else target
    selector = rows(selecting(next_observation, drawn(params.policy_quantiles), noisy=task.noisy))
    prediction = z, task.branches.spread(fractions)
    return quantiles.learning(task, params, mode, labels, online.variables, prediction, next_z, selector)


class ImplicitNetwork:
    """``Z_tau(s, a) = f(psi(s) * phi(tau))_a``: psi are the hidden layers, phi embeds the fraction, f are the heads.

    ``phi_j(tau) = relu(sum_i cos(pi i tau) w_ij + b_j)`` with i from 0 to n - 1. All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        task: inputs of the network, and choices that it values.
        params: parameters of the layers, and the number of cosines.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(self, name: str, task: QTask, params: IQNParams, *, zeros: bool = False) -> None:
        self._network = QNetwork(name, task, head="quantiles", zeros=zeros)
        self._frequencies = math.pi * np.arange(params.cosines, dtype=np.float32)
        self._width = self._network.network.body.output_shape[-1]
        with keras.name_scope(name):
            initializer = "zeros" if zeros else params.initializer
            self._embedding = params.layer(self._width, "fractions", "relu", initializer, 1.0)
            self._embedding.build((None, params.cosines))
        self.variables = [*self._network.variables, *self._embedding.trainable_variables]

    def __call__(self, observation: Any, fractions: Tensor, *, noisy: bool = False) -> Tensor:
        """Quantiles of the returns of all choices, float32 [B, sum of n, N], at fractions [B, N], or [1, N] for all."""
        count = fractions.shape[1]
        cosines = tf.cos(tf.reshape(fractions, [-1, 1]) * self._frequencies)  # [B * N, n]
        embedded = self._embedding(cosines, training=True) if noisy else self._embedding(cosines)
        hidden = self._network.hidden(observation, noisy=noisy)[:, tf.newaxis]  # [B, 1, width]
        joined = hidden * tf.reshape(embedded, [-1, count, self._width])
        z = self._network.values(tf.reshape(joined, [-1, self._width]), noisy=noisy)  # [B * N, sum of n]
        return tf.transpose(tf.reshape(z, [-1, count, z.shape[1]]), [0, 2, 1])
