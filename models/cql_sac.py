"""CQL over SAC: conservative Q-learning for Box actions that does not overestimate actions missing from the data.

Sources: Kumar et al. 2020 (https://arxiv.org/abs/2006.04779), whose equations are cited below, over SAC by Haarnoja et
al. 2018 (https://arxiv.org/abs/1812.05905). Differences from the papers: docs/algorithms/cql.md. For Discrete actions:
cql.py.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from .. import noise
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks.box_actions import SquashedBox
from .blocks.critics import TwinCritics
from .blocks.params import from_params, integer, param, real
from .blocks.soft_actor_critic import SoftActorCritic, SoftParams, SoftTask
from .blocks.soft_policies import SquashedPolicy
from .blocks.temperature import Temperature
from .blocks.train_step import mean_error

Tensor: TypeAlias = Any
_LOG_UNIFORM = -math.log(2.0)
"""The log-density of a component that is uniform in -1 .. 1."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CQLSACParams(SoftParams):
    """The parameters of CQL over SAC. Actor, critics and temperature each have an optimizer."""

    conservative_weight: float = param(
        5.0, "alpha, weight of the gap between the soft maximum of Q and the data's actions", real(at_least=0)
    )
    samples: int = param(
        10,
        "N, actions sampled to estimate the soft maximum: N uniform ones, and N from the policy",
        integer(at_least=1),
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | CQLSACParams | None, config: RunConfig
) -> EstimatorSpec:
    """CQL(H) over SAC, for a ReplayMemory filled in advance.

    Predictions are those of SAC: ``action`` float32 [B, ...] (the squashed mean), ``mean`` and ``log_std`` float32 [B,
    ...] (before squashing). ``loss`` is the critics' loss, ``td_error`` their mean TD error. Metrics are those of SAC
    and ``conservative_error`` (the gap in equation 4, without alpha; the mean of both critics), all means over the
    gradient steps.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions or its batches cannot be split, or a parameter is invalid.
    """
    params = from_params(CQLSACParams, params)
    actions = SquashedBox(config.action_space, "CQL over SAC")
    task = SoftTask(config, params, "CQL over SAC")
    policy = SquashedPolicy(actions, task.size, params)
    if mode == Modes.PREDICT:
        return task.predict(policy, features, task.encode(features))

    critics = TwinCritics("critic", [task.size + policy.action_size], params)
    targets = TwinCritics("target", [task.size + policy.action_size], params, zeros=True)
    batch = task.transitions(features, labels, policy)
    shape = (batch["reward"].shape[0], params.samples, policy.action_size)
    batch |= {"uniform": noise.uniform(shape, -1.0, 1.0), "samples": noise.normal(shape)}

    def conservative(part: Mapping[str, Tensor], q_values: Sequence[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        maxima = soft_maxima(policy, critics, part)
        gap = tf.add_n([others - q_value for others, q_value in zip(maxima, q_values, strict=True)])  # [B]
        penalty = params.conservative_weight * mean_error(gap, part)  # equation 4, of both critics
        return penalty, {"conservative_error": tf.reduce_mean(gap) / 2}

    learner = SoftActorCritic(policy, critics, targets, Temperature(params), params, penalty=conservative)
    return learner.spec(mode, batch, labels)


def soft_maxima(policy: SquashedPolicy, critics: TwinCritics, batch: Mapping[str, Tensor]) -> list[Tensor]:
    """``log`` of the integral of ``exp Q(s, a)`` over actions in -1 .. 1, estimated by importance sampling.

    Half of the 2 N samples are uniform, half are the policy's (appendix F, "Computing log sum exp").

    Args:
        policy: draws half of the samples.
        critics: Q functions to integrate.
        batch: with ``observation`` [B, O], ``uniform`` [B, N, A] in -1 .. 1, and standard normal ``samples`` [B, N, A].

    Returns:
        float32 [B] for each critic.
    """
    size, count, components = batch["uniform"].shape
    seen = tf.reshape(tf.tile(batch["observation"][:, tf.newaxis], [1, count, 1]), [size * count, -1])  # [B * N, O]
    valued = partial(critics, seen)
    uniform = valued(tf.reshape(batch["uniform"], [-1, components]))
    drawn, log_prob = policy.expectations(seen, valued, tf.reshape(batch["samples"], [-1, components]), None)
    found = []
    for by_uniform, by_policy in zip(uniform, drawn, strict=True):
        weighted = [by_uniform - components * _LOG_UNIFORM, by_policy - log_prob]
        values = tf.concat([tf.reshape(each, [size, count]) for each in weighted], axis=1)  # [B, 2 N]
        found.append(tf.reduce_logsumexp(values, axis=1) - math.log(2 * count))
    return found
