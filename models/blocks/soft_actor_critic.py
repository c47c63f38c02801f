"""Soft actor-critic learning: what SAC and the algorithms over it share.

Source: Haarnoja et al. 2018b, https://arxiv.org/abs/1812.05905, which the numbers of equations refer to.

Shapes in comments: B is the batch, O the size of an encoded observation.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import tensorflow as tf

from ...schedules import ScheduleLike
from . import losses
from .actions import flat
from .critics import CriticEnsemble, TwinCritics
from .learning import check_transitions, mean_error, minimize
from .networks import DenseParams
from .observations import MaskParams, Observations
from .optimizers import OptimizerParams
from .params import param, real, sizes, whole
from .soft_policies import SoftPolicy
from .targets import update_target
from .temperature import Temperature, TemperatureParams

Tensor: TypeAlias = Any
Batch: TypeAlias = "Mapping[str, Tensor]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftParams(TemperatureParams, MaskParams, OptimizerParams, DenseParams):
    """The parameters that they share. Actor, critics and temperature have an optimizer each."""

    hidden: Sequence[int] = param((256, 256), "sizes of the dense layers, of the actor and of each critic", sizes())
    learning_rate: ScheduleLike = 3e-4  # table 1; so are the other defaults
    target_update_rate: float = param(
        0.005, "share of the way that target critics go in each gradient step", real(above=0, at_most=1)
    )
    updates: int = param(1, "gradient steps in one update, each on an equal part of the batch", whole(at_least=1))


def lowest(values: Sequence[Tensor], batch: Batch) -> Tensor:
    """The smaller value of two critics (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477, section 4.2)."""
    return tf.minimum(*values)


@dataclasses.dataclass(frozen=True)
class SoftActorCritic:
    """What learns, and its losses.

    Args:
        policy: the actor.
        critics: trained.
        targets: follow the critics.
        temperature: of the entropy.
        params: how to learn.
        target_value: from the values of next actions by each target critic, and the batch, to those that targets take.
        policy_value: likewise from the values by each critic to those that the policy learns to raise.
    """

    policy: SoftPolicy
    critics: TwinCritics | CriticEnsemble
    targets: TwinCritics | CriticEnsemble
    temperature: Temperature
    params: SoftParams
    target_value: Callable[[Sequence[Tensor], Batch], Tensor] = lowest
    policy_value: Callable[[Sequence[Tensor], Batch], Tensor] = lowest

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The loss of all critics (equation 5), their mean TD error [B], and their values [B] each."""
        next_observation = batch["next_observation"]
        next_value, next_log_prob = self.policy.expected(
            next_observation,
            lambda action: self.target_value(self.targets(next_observation, action), batch),
            batch.get("next_noise"),
            batch.get("next_mask"),
        )
        next_value -= self.temperature() * next_log_prob  # equation 3
        target = tf.stop_gradient(batch["reward"] + batch["discount"] * next_value)  # [B]
        q_values = self.policy.taken(partial(self.critics, batch["observation"]), batch["action"])
        td_errors = [target - q_value for q_value in q_values]
        loss = mean_error(tf.add_n([losses.squared(td_error) for td_error in td_errors]), batch)
        return loss, tf.add_n(td_errors) / len(td_errors), q_values

    def train_critics(self, batch: Batch, step: Tensor, optimizer: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """The targets follow, and the critics learn once.

        Args:
            batch: of :func:`transitions`.
            step: gradient steps of the critics before this one, int64 scalar.
            optimizer: of the critics.

        Returns:
            TD errors [B], and the scalars ``critic_loss``, ``q_mean`` and, where gradients are clipped,
            ``critic_gradient_norm``.
        """
        rate, max_norm = self.params.target_update_rate, self.params.max_gradient_norm
        update_target(self.critics.variables, self.targets.variables, step, period=None, rate=rate)
        loss, td_error, q_values = self.critic_loss(batch)
        norm = minimize(loss, self.critics.variables, optimizer, max_norm)
        scalars = {"critic_loss": loss, "q_mean": tf.reduce_mean(tf.add_n(q_values)) / len(q_values)}
        return td_error, {**scalars, **({} if max_norm is None else {"critic_gradient_norm": norm})}

    def train_policy(self, batch: Batch, optimizer: Any, temperature_optimizer: Any) -> dict[str, Tensor]:
        """The policy learns once from the critics as they are now, then the temperature follows.

        Returns:
            the scalars ``actor_loss``, ``temperature`` (before the step), ``entropy`` and, where gradients are clipped,
            ``actor_gradient_norm``.
        """
        temperature, max_norm, mask = self.temperature(), self.params.max_gradient_norm, batch.get("mask")
        value, log_prob = self.policy.expected(
            batch["observation"],
            lambda action: self.policy_value(self.critics(batch["observation"], action), batch),
            batch.get("noise"),
            mask,
        )
        loss = tf.reduce_mean(temperature * log_prob - value)  # equation 7
        norm = minimize(loss, self.policy.variables, optimizer, max_norm)
        entropy = -tf.reduce_mean(log_prob)
        target = self.params.target_entropy
        wanted = self.policy.target_entropy(mask) if isinstance(target, str) else target
        wanted = wanted if isinstance(wanted, float) else tf.reduce_mean(wanted)
        self.temperature.follow(entropy, wanted, temperature_optimizer)
        scalars = {"actor_loss": loss, "temperature": temperature, "entropy": entropy}
        return {**scalars, **({} if max_norm is None else {"actor_gradient_norm": norm})}


def transitions(
    features: Any, labels: Mapping[str, Any], policy: SoftPolicy, observations: Observations, algorithm: str
) -> dict[str, Tensor]:
    """The batch of a ReplayMemory: observations [B, O], masks [B, A] (1: legal), ``SoftPolicy.batch``, the rest [B].

    Raises:
        ArgumentError: it is not one of single transitions.
    """
    check_transitions(labels, algorithm)
    batch = {
        "observation": flat(observations.encode(features)),
        "next_observation": flat(observations.encode(labels["next_observation"])),
        **policy.batch(labels["action"]),
    }
    for name, observation in (("mask", features), ("next_mask", labels["next_observation"])):
        if (mask := observations.mask(observation)) is not None:
            batch[name] = tf.cast(mask, tf.float32)  # LiteRT splits no bools
    return batch | {name: labels[name] for name in ("reward", "discount", "weight") if name in labels}
