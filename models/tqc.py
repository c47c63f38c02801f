"""TQC: SAC whose critics predict quantiles of returns, the largest of which are left out of targets.

Source: Kuznetsov, Shvechikov, Grishin and Vetrov 2020 (https://arxiv.org/abs/2005.04269), section 4. Differences from
the paper: docs/algorithms/tqc.md.

Shapes in comments: B is the batch, N the number of critics, M the quantiles of each, K the quantiles of a target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks import quantiles
from .blocks.box_actions import SquashedBox
from .blocks.critics import CriticEnsemble
from .blocks.params import from_params, integer, param, real
from .blocks.soft_actor_critic import SoftActorCritic, SoftParams, SoftTask
from .blocks.soft_policies import soft_policy
from .blocks.state_dependent import StateDependentParams
from .blocks.temperature import Temperature
from .blocks.train_step import mean_error

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class TQCParams(StateDependentParams, SoftParams):
    """The parameters of TQC. Actor, critics and temperature each have an optimizer."""

    critics: int = param(5, "N, number of critics", integer(at_least=1))
    quantiles: int = param(25, "M, number of quantiles that each critic predicts", integer(at_least=1))
    dropped: int = param(
        2,
        "d, largest quantiles left out of targets, per critic; more of them lower the values",
        integer(at_least=0),
    )
    kappa: float = param(
        1.0, "error above which the Huber loss is linear, in units of returns; 0: linear everywhere", real(at_least=0)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dropped >= self.quantiles:
            message = f"dropped must be less than quantiles, got dropped={self.dropped} and quantiles={self.quantiles}"
            raise ArgumentError(message, "dropped", self.dropped)


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | TQCParams | None, config: RunConfig
) -> EstimatorSpec:
    """TQC, for a ReplayMemory.

    Predictions are those of SAC: ``action`` float32 [B, ...] (the squashed mean), ``mean`` and ``log_std`` float32 [B,
    ...] (before squashing; with state-dependent exploration ``scaled_features`` float32 [B, W, A] replaces
    ``log_std``). ``loss`` is the critics' loss; ``td_error`` is the mean of a target's quantiles minus the mean of all
    critics'. Metrics are those of SAC, ``q_mean`` being the mean of all quantiles of the actions taken.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions or its batches cannot be split, or a parameter is invalid.
    """
    params = from_params(TQCParams, params)
    space, task = SquashedBox(config.action_space, "TQC").space, SoftTask(config, params, "TQC")
    policy = soft_policy(space, task.size, params, "TQC")
    if mode == Modes.PREDICT:
        return task.predict(policy, features, task.encode(features))

    inputs, count, atoms = task.size + policy.action_size, params.critics, params.quantiles
    critics = CriticEnsemble("critics", inputs, params, count, outputs=atoms)
    targets = CriticEnsemble("targets", inputs, params, count, outputs=atoms, zeros=True)

    def lowest_quantiles(values: Sequence[Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        # Of the mixture of all critics' distributions, [B, N * M]. LiteRT's converter reorders tf.concat(values, -1).
        every = tf.reshape(tf.transpose(tf.stack(values), [1, 0, 2]), [-1, count * atoms])
        return tf.transpose(-tf.math.top_k(-every, count * (atoms - params.dropped)).values)  # [K, B]

    def mean(values: Sequence[Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        return tf.reduce_mean(tf.add_n(values) / count, axis=-1)  # not truncated

    def error(returns: Tensor, q_values: Sequence[Tensor], batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        wanted = tf.stop_gradient(tf.transpose(returns))  # [B, K]
        fractions, kappa = quantiles.midpoints(atoms), params.kappa
        losses = [quantiles.quantile_loss(theta, fractions, wanted, kappa) / atoms for theta in q_values]  # [B] each
        return mean_error(tf.add_n(losses), batch), tf.reduce_mean(wanted, axis=-1) - mean(q_values, batch)

    learner = SoftActorCritic(
        policy, critics, targets, Temperature(params), params, lowest_quantiles, mean, error=error
    )
    return learner.spec(mode, task.transitions(features, labels, policy), labels)
