"""PQN: Q-learning without a replay memory or a target network, from many environments at once.

Source: Gallici et al. 2024 (https://arxiv.org/abs/2407.04811), algorithm 1. Differences from the paper:
docs/algorithms/pqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks import losses, masks, rollouts
from .blocks.behaviour import BehaviourParams
from .blocks.branches import Branches
from .blocks.layer_norm import NormalizedNetworkParams
from .blocks.networks import Network
from .blocks.observations import MaskParams, Observations
from .blocks.optimizers import OptimizerParams
from .blocks.params import from_params, integer, optional, param, real, sizes
from .blocks.returns import lambda_returns
from .blocks.train_step import minimizing

Tensor: TypeAlias = Any

_SCALARS = ("loss", "q_mean", "td_error_mean", "gradient_norm")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PQNParams(BehaviourParams, MaskParams, OptimizerParams, NormalizedNetworkParams):
    """The parameters of PQN. Schedules of the learning rate follow ``global_step``, which counts rollouts."""

    hidden: Sequence[int] | None = param((128, 128), "sizes of the dense layers", sizes())
    learning_rate: ScheduleLike = 2.5e-4
    max_gradient_norm: float | None = 10.0
    layer_norm: bool = True
    return_lambda: float = param(
        0.65, "lambda: from one-step targets (0) to discounted returns (1)", real(at_least=0, at_most=1)
    )
    epochs: int = param(2, "passes over a rollout", integer(at_least=1))
    minibatch_size: int | None = param(
        256,
        "timesteps per optimizer step; must divide the rollout; `null`: all",
        optional(integer(at_least=1)),
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | PQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """PQN, for a BatchMemory.

    Predictions are those of DQN: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A], A being
    the sum of a MultiDiscrete space's choices, and ``action_mask`` bool [B, A] where observations have a mask. Metrics,
    each the mean over the steps of the optimizer: ``q_mean`` (of the actions taken), ``td_error_mean`` (of absolute
    values), ``gradient_norm`` (before clipping); and ``optimizer_steps``, ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield
            rollouts, the minibatches do not divide them, or a parameter is invalid.
    """
    params = from_params(PQNParams, params)
    branches = Branches(config.action_space, "PQN")
    observations = Observations(config.observation_space, branches.space, params.action_mask)
    network = Network("online", observations.shape, {"q_values": sum(branches.sizes)}, params)

    def values(observation: Any) -> Tensor:
        return network(observations.encode(observation))["q_values"]  # [B, A]

    if mode == Modes.PREDICT:
        q_values, mask = values(features), observations.mask(features)
        found = {"action": branches.greedy(q_values, mask), "q_values": q_values, **observations.masks(features)}
        return EstimatorSpec(mode, found, exploration=params.behaviour(branches.space))

    rollouts.check_rollout(labels, "PQN")
    following = rollouts.rows(labels["next_observation"])
    q_values = branches.rows(values(following))
    next_value = masks.highest(q_values, branches.mask(observations.mask(following), q_values))
    next_value = tf.reshape(branches.mean(next_value), labels["reward"].shape)  # [T, N]
    reward, discount, truncated = labels["reward"], labels["discount"], labels["truncated"]
    returns = lambda_returns(reward, discount, truncated, next_value, params.return_lambda)
    rollout = rollouts.rows({"observation": features, "action": labels["action"], "return": returns})

    def errors(rows: Mapping[str, Any]) -> dict[str, Tensor]:
        action = branches.from_environment(rows["action"])
        prediction = losses.action_values(branches.rows(values(rows["observation"])), action)  # [B * K]
        td_error = branches.spread(rows["return"]) - prediction
        scalars = {"q_mean": prediction, "td_error_mean": tf.abs(td_error), "loss": losses.squared(td_error)}
        return {name: tf.reduce_mean(value) for name, value in scalars.items()}

    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=errors(rollout)["loss"])
    update, learning_rate = minimizing(errors, network.variables, labels, params)
    means = rollouts.over_minibatches(update, rollout, _SCALARS, params.epochs, params.minibatch_size)
    return EstimatorSpec(mode, loss=means.pop("loss"), metrics={**means, "learning_rate": learning_rate})
