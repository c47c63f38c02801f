"""REDQ: SAC with an ensemble of critics, targets from a random subset, and many gradient steps per timestep.

Source: Chen, Wang, Zhou and Ross 2021, https://arxiv.org/abs/2101.05982, algorithm 1. Differences from the paper:
docs/algorithms/redq.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from .. import noise
from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks.critics import CriticEnsemble
from .blocks.params import from_params, integer, param
from .blocks.soft_actor_critic import SoftActorCritic, SoftParams, SoftTask
from .blocks.soft_policies import soft_policy
from .blocks.temperature import Temperature
from .blocks.train_step import over_parts, stacked_parts

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class REDQParams(SoftParams):
    """The parameters of REDQ. Actor, critics and temperature each have an optimizer."""

    updates: int = 20  # G, the update-to-data ratio
    critics: int = param(10, "N, number of critics", integer(at_least=1))
    subset: int = param(
        2, "M, critics whose minimum is used in targets, drawn anew in each gradient step", integer(at_least=1)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subset > self.critics:
            message = f"subset must be at most critics, got subset={self.subset} and critics={self.critics}"
            raise ArgumentError(message, "subset", self.subset)


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | REDQParams | None, config: RunConfig
) -> EstimatorSpec:
    """REDQ, for a ReplayMemory.

    Predictions and metrics are those of SAC. The critics' metrics are means over the gradient steps; the policy's are
    those of its single step, after the critics' last one.

    Raises:
        ArgumentError: the action space is neither a bounded Box of floats nor Discrete, the observations do not fit,
            the memory does not yield single transitions or its batches cannot be split, or a parameter is invalid.
    """
    params = from_params(REDQParams, params)
    task = SoftTask(config, params, "REDQ")
    policy = soft_policy(config.action_space, task.size, params, "REDQ")
    if mode == Modes.PREDICT:
        return task.predict(policy, features, task.encode(features))

    size, outputs, count, subset = task.size + policy.action_size, policy.critic_outputs, params.critics, params.subset
    critics = CriticEnsemble("critics", size, params, count, outputs=outputs)
    targets = CriticEnsemble("targets", size, params, count, outputs=outputs, zeros=True)

    def lowest_of_some(values: Sequence[Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        some = tf.math.top_k(batch["draw"], subset).indices  # of uniform numbers: every subset is equally likely
        return tf.reduce_min(tf.gather(tf.stack(values), some), axis=0)

    def mean(values: Sequence[Tensor], batch: Mapping[str, Tensor]) -> Tensor:
        return tf.add_n(values) / count

    learner = SoftActorCritic(policy, critics, targets, Temperature(params), params, lowest_of_some, mean)
    batch = task.transitions(features, labels, policy)
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=learner.critic_loss({**batch, "draw": noise.uniform([count])})[0])

    parts = stacked_parts(batch, params.updates) | {"draw": noise.uniform([params.updates, count])}
    learning_rate, optimizers = learner.optimizers(labels)
    optimizers[0].build(critics.variables)

    def train_critics(part: Mapping[str, Tensor], i: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        return learner.train_critics(part, labels["global_step"] + tf.cast(i, tf.int64), optimizers[0])

    names = ("critic_loss", "q_mean", *(() if params.max_gradient_norm is None else ("critic_gradient_norm",)))
    td_error, scalars = over_parts(train_critics, parts, names)
    last = {name: value[-1] for name, value in parts.items()}
    metrics = {**scalars, **learner.train_policy(last, *optimizers[1:]), "learning_rate": learning_rate}
    return EstimatorSpec(mode, loss=metrics.pop("critic_loss"), td_error=td_error, metrics=metrics)
