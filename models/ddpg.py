"""DDPG: a deterministic policy that ascends the gradient of its critic.

Source: Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971, algorithm 1. Differences from the paper:
docs/algorithms/ddpg.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from .blocks.deterministic import Actor, BoxTask, DeterministicActorCritic, DeterministicParams
from .blocks.networks import Network
from .blocks.params import from_params, param, sizes


@dataclasses.dataclass(frozen=True, kw_only=True)
class DDPGParams(DeterministicParams):
    """The parameters of DDPG. Defaults are those of the paper, section 7."""

    hidden: Sequence[int] = param((400, 300), "sizes of the dense layers of the actor and of the critic", sizes())
    learning_rate: ScheduleLike = 1e-4
    critic_learning_rate: ScheduleLike | None = 1e-3
    sigma: ScheduleLike = 0.2
    target_update_rate: float = 0.001


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | DDPGParams | None, config: RunConfig
) -> EstimatorSpec:
    """DDPG, for a ReplayMemory.

    Predictions: ``action`` float32 [B, ...]. ``loss`` is the critic's loss. Metrics: ``actor_loss``, ``q_mean`` (of the
    actions taken), ``td_error_mean`` (of absolute values), ``learning_rate``, ``critic_learning_rate`` if it is given;
    with gradient clipping also ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping). With several
    gradient steps they are means over them.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions or its batches cannot be split, or a parameter is invalid.
    """
    params = from_params(DDPGParams, params)
    task = BoxTask(config, "DDPG")
    actor = Actor("actor", task, params)
    if mode == Modes.PREDICT:
        return task.predict(actor, features, params)

    batch = task.batch(features, labels)
    critic = _Critic("critic", task, params)
    target_actor = Actor("target_actor", task, params, zeros=True)
    target = _Critic("target_critic", task, params, zeros=True)

    def next_value(part: Mapping[str, Any]) -> Any:
        return target(part["next_observation"], target_actor(part["next_observation"]))[0]

    return DeterministicActorCritic(actor, critic, target_actor, target, next_value, params).spec(mode, batch, labels)


class _Critic:
    """One Q function of observation and action."""

    def __init__(self, name: str, task: BoxTask, params: DDPGParams, *, zeros: bool = False) -> None:
        self._network = Network(name, [task.size], {"q_value": 1}, params, zeros=zeros)
        self.variables = self._network.variables

    def __call__(self, observation: Any, action: Any) -> list[Any]:
        return [tf.squeeze(self._network(tf.concat([observation, action], axis=-1))["q_value"], axis=-1)]
