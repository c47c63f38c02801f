"""IQN: Q-learning with a network that gives the quantile of the return at any fraction.

Source: Dabney, Ostrovski, Silver and Munos 2018 (https://arxiv.org/abs/1806.06923). Differences from the paper:
docs/algorithms/iqn.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from .. import noise
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from .blocks import quantiles
from .blocks.branches import Branches
from .blocks.distributional import of_action
from .blocks.observations import Observations
from .blocks.params import from_params, param, whole
from .blocks.q_networks import QNetwork, predict_spec
from .blocks.train_step import check_transitions, learning_spec, mean_error

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQNParams(quantiles.QuantileParams):
    """The parameters of IQN; the numbers are the paper's."""

    quantiles: int = param(64, "random fractions of the prediction in each update, N", whole(at_least=1))
    target_quantiles: int = param(64, "random fractions of its target, N'", whole(at_least=1))
    policy_quantiles: int = param(32, "fractions over which values of actions are means, K", whole(at_least=1))
    cosines: int = param(64, "of a fraction, what the network sees of it, n", whole(at_least=1))


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
    branches = Branches(config.action_space, "IQN")
    observations = Observations(config.observation_space, branches.space, params.action_mask)
    noisy = params.noisy and mode != Modes.EVAL

    def values(z: Tensor) -> Tensor:  # the mean over fractions
        return tf.reduce_mean(z, axis=-1)

    online = ImplicitNetwork("online", observations, branches, params)
    if mode == Modes.PREDICT:
        fractions = quantiles.midpoints(params.policy_quantiles)[np.newaxis]  # [1, K]
        z = online(features, fractions)  # [B, A, K]
        noisy_values = values(online(features, fractions, noisy=True)) if noisy else None
        return predict_spec(values(z), noisy_values, features, branches, observations, params, quantiles=z)

    check_transitions(labels, "IQN")
    target = ImplicitNetwork("target", observations, branches, params, zeros=True)
    params.move_target(mode, online.variables, target.variables, labels)
    reward, next_observation = labels["reward"], labels["next_observation"]

    def drawn(count: int) -> Tensor:  # uniform fractions, [B, count]
        return noise.uniform([reward.shape[0], count])

    fractions = drawn(params.quantiles)
    z = branches.rows(online(features, fractions, noisy=noisy))  # [B * K, n, N]; K = 1 but for MultiDiscrete actions
    next_z = branches.rows(target(next_observation, drawn(params.target_quantiles), noisy=noisy))
    selecting = online if params.double else target
    selector = values(branches.rows(selecting(next_observation, drawn(params.policy_quantiles), noisy=noisy)))
    next_action = branches.best(selector, observations.mask(next_observation))  # [B * K]
    next_taken = branches.mixture(of_action(next_z, next_action))  # [B, K * N']
    targets = branches.spread(quantiles.target(reward, labels["discount"], next_taken))
    taken = of_action(z, branches.from_environment(labels["action"]))  # [B * K, N]
    error = quantiles.quantile_loss(taken, branches.spread(fractions), targets, params.kappa)
    loss, priority = mean_error(branches.mean(error), labels), branches.priority(error)
    metrics = {"q_mean": tf.reduce_mean(values(taken))}
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)


class ImplicitNetwork:
    """``Z_tau(s, a) = f(psi(s) * phi(tau))_a``: psi are the hidden layers, phi embeds the fraction, f are the heads.

    ``phi_j(tau) = relu(sum_i cos(pi i tau) w_ij + b_j)`` with i from 0 to n - 1. All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        observations: inputs of the network.
        branches: choices that it values.
        params: parameters of the layers, and the number of cosines.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(
        self, name: str, observations: Observations, branches: Branches, params: IQNParams, *, zeros: bool = False
    ) -> None:
        self._network = QNetwork(name, observations, branches, params, head="quantiles", zeros=zeros)
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
