"""Generalised state-dependent exploration (gSDE): noise that is linear in features of the state.

The noise in component d is ``sum_w z_w(s) sigma[w, d] epsilon[w, d]``, where z are the outputs of the policy's last
hidden layer, sigma is learned and epsilon is a matrix of standard normal numbers that is kept for many timesteps.
``axonrl.explorations.StateDependent`` draws that matrix; this module computes its factors, and the distribution of the
noise over all matrices.

Source: Raffin, Kober and Stulp 2021, https://arxiv.org/abs/2005.05719, section 3.

Shapes in comments: B is the batch, W the number of features, D the components of an action.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np

from ...core.tensorflow_import import keras, tf
from ...explorations.state_dependent import SMALL
from .params import Params, flag, integer, optional, param, real

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class StateDependentParams(Params):
    """The parameters of state-dependent exploration."""

    state_dependent_exploration: bool = param(
        False, "gSDE, for Box actions: noise is a random function of the state, kept for many timesteps", flag()
    )
    sde_resample_every: int | None = param(
        None,
        "timesteps after which gSDE redraws its noise function; `null`: once per episode",
        optional(integer(at_least=1)),
    )
    sde_log_std: float = param(
        -3.0, "initial log standard deviation of gSDE's noise, per feature", real(at_least=-20, at_most=2)
    )


def make_log_std(features: int, components: int, initial: float) -> Any:
    """The variable ``log_std`` [W, D], the logarithm of sigma."""
    return keras.Variable(np.full((features, components), initial, np.float32), name="log_std")


def scaled_features(features: Tensor, log_std: Tensor) -> Tensor:
    """Factors of the matrix of standard normal numbers: ``z_w(s) sigma[w, d]``, float32 [B, W, D].

    Args:
        features: z, float32 [B, W].
        log_std: float32 [W, D].
    """
    return features[:, :, tf.newaxis] * tf.exp(log_std)


def marginal_log_std(features: Tensor, log_std: Tensor) -> Tensor:
    """The log standard deviation of the noise over all matrices: ``1/2 log(sum_w z_w(s)^2 sigma[w, d]^2 + 1e-6)``.

    Args:
        features: z, float32 [B, W].
        log_std: float32 [W, D].

    Returns:
        float32 [B, D].
    """
    variance = tf.matmul(tf.square(features), tf.exp(2.0 * log_std))
    return 0.5 * tf.math.log(variance + SMALL)
