"""Fit a value to returns with its own optimizer, apart from the policy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from ...core.tensorflow_import import tf
from . import rollouts
from .actor_critic import ActorCritic
from .actor_critic_params import VALUE, AdvantageParams, PolicyParams
from .optimizers import make_optimizer
from .params import integer, optional, param
from .train_step import minimize

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ValueFittingParams(AdvantageParams, PolicyParams):
    """The parameters of algorithms with a separate value network."""

    epochs: int = param(10, "passes over a rollout in which the value is fitted to the returns", integer(at_least=1))
    minibatch_size: int | None = param(
        64,
        "timesteps per step of the value's optimizer; must divide the rollout; `null`: all",
        optional(integer(at_least=1)),
    )


def fit_value(
    network: ActorCritic, rollout: Mapping[str, Any], params: ValueFittingParams, learning_rate: Tensor
) -> dict[str, Tensor]:
    """Fit the value to the returns of a rollout, by its mean squared error.

    Args:
        network: networks whose value shares nothing with the policy.
        rollout: from :meth:`.actor_critic.ActorCritic.rollout`.
        params: parameters of the fit.
        learning_rate: float32 scalar.

    Returns:
        ``value_loss``, the mean over the steps of the optimizer, and ``explained_variance``, of the returns by the
        recorded values.
    """
    variables = network.value_variables
    optimizer = make_optimizer(params.optimizer, learning_rate, params.optimizer_epsilon)
    optimizer.build(variables)

    def update(minibatch: Mapping[str, Any]) -> dict[str, Tensor]:
        loss = value_loss(network, minibatch)
        minimize(loss, variables, optimizer, params.max_gradient_norm)
        return {"value_loss": loss}

    explained = rollouts.explained_variance(rollout["value"], rollout["return"])
    means = rollouts.over_minibatches(
        update, rollout, ["value_loss"], params.epochs, params.minibatch_size, together=network.sequence_length
    )
    return {"value_loss": means["value_loss"], "explained_variance": explained}


def value_loss(network: ActorCritic, rows: Mapping[str, Any]) -> Tensor:
    """Mean squared error of the values of these rows, float32 scalar."""
    return tf.reduce_mean(tf.square(network.evaluate(rows)[1][VALUE] - rows["return"]))
