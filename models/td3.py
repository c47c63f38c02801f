"""TD3: a deterministic policy and twin critics, with three remedies against overestimated values.

Source: Fujimoto, van Hoof and Meger 2018, https://arxiv.org/abs/1802.09477, algorithm 1. Differences from the paper:
docs/algorithms/td3.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import noise
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks.critics import TwinCritics
from .blocks.deterministic import Actor, Batch, BoxTask, DeterministicActorCritic, DeterministicParams, ascent
from .blocks.params import from_params, integer, param, real, sizes


@dataclasses.dataclass(frozen=True, kw_only=True)
class TD3Params(DeterministicParams):
    """The parameters of TD3. Defaults are those of the authors' later code."""

    hidden: Sequence[int] = param((256, 256), "sizes of the dense layers of the actor and of each critic", sizes())
    learning_rate: ScheduleLike = 3e-4
    exploration: str = "gaussian"
    smoothing: float = param(
        0.2,
        "standard deviation of noise on the target policy's actions, in units of half an action's range; 0 is off",
        real(at_least=0),
    )
    smoothing_clip: float = param(
        0.5, "largest absolute value of the noise of `smoothing`, in the same units", real(at_least=0)
    )
    policy_delay: int = param(
        2, "gradient steps of the critics per step of the actor and of the targets", integer(at_least=1)
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | TD3Params | None, config: RunConfig
) -> EstimatorSpec:
    """TD3, for a ReplayMemory.

    Predictions: ``action`` float32 [B, ...]. ``loss`` is the critics' loss, ``td_error`` their mean TD error. Metrics:
    ``actor_loss`` (of the actor's last step, in this update or before), ``q_mean`` (of both critics, of the actions
    taken), ``td_error_mean`` (of absolute values), ``learning_rate``, ``critic_learning_rate`` if it is given; with
    gradient clipping also ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping). With several gradient
    steps they are means over them; a step in which the actor does not learn counts its last step's again.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions or its batches cannot be split, or a parameter is invalid.
    """
    return twin_delayed(features, labels, mode, from_params(TD3Params, params), config, "TD3")


def twin_delayed(
    features: Any,
    labels: Any,
    mode: str,
    params: TD3Params,
    config: RunConfig,
    algorithm: str,
    actor_loss: Callable[[Batch, Any, Any], Any] = ascent,
) -> EstimatorSpec:
    """TD3 with the given loss of the actor: see :class:`.blocks.deterministic.DeterministicActorCritic`."""
    task = BoxTask(config, algorithm)
    actor = Actor("actor", task, params)
    if mode == Modes.PREDICT:
        return task.predict(actor, features, params)

    batch = task.batch(features, labels)
    batch["noise"] = noise.normal(batch["action"].shape)  # [B, A]
    critics = TwinCritics("critic", [task.size], params)
    target_actor = Actor("target_actor", task, params, zeros=True)
    target_critics = TwinCritics("target_critic", [task.size], params, zeros=True)

    def next_value(part: Mapping[str, Any]) -> Any:
        limit = params.smoothing_clip
        smoothing = tf.clip_by_value(params.smoothing * part["noise"], -limit, limit)
        action = tf.clip_by_value(target_actor(part["next_observation"]) + smoothing, -1.0, 1.0)
        return tf.minimum(*target_critics(part["next_observation"], action))

    delay = params.policy_delay
    learner = DeterministicActorCritic(
        actor, critics, target_actor, target_critics, next_value, params, delay, actor_loss
    )
    return learner.spec(mode, batch, labels)
