"""Deterministic policies that follow the gradient of a critic: the common part of DDPG and TD3.

Shapes in comments: B is the batch, O the size of an encoded observation, A the components of an action, which are in
-1 .. 1 inside.

Sources: Silver et al. 2014, "Deterministic policy gradient algorithms", theorem 1; the papers of the algorithms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from gymnasium import spaces

from ...core.protocols import EstimatorSpec, Exploration, Modes, RunConfig
from ...core.schedules import ScheduleLike
from ...core.tensorflow_import import keras, tf
from .behaviour import NoiseParams
from .box_actions import SquashedBox, flat
from .conditional import run_if
from .critics import critics_loss
from .networks import DenseParams, Network
from .observations import Observations
from .optimizers import OptimizerParams, learning_rate_at, make_optimizer, scheduled_value
from .params import integer, optional, param, real, schedule
from .train_step import check_transitions, gradient_steps, minimize

Tensor: TypeAlias = Any
Batch: TypeAlias = Mapping[str, Tensor]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeterministicParams(NoiseParams, OptimizerParams, DenseParams):
    """The parameters of DDPG and TD3. Actor and critics each have an optimizer."""

    paper_update_frequency: ClassVar[int | None] = 1

    critic_learning_rate: ScheduleLike | None = param(
        None, "learning rate of the critics; `null`: `learning_rate`", optional(schedule(at_least=0))
    )
    sigma: ScheduleLike = param(
        0.1,
        "standard deviation of the noise drawn at each timestep, in units of half an action's range; follows"
        " `global_timestep`",
        schedule(at_least=0),
    )
    target_update_rate: float = param(
        0.005,
        "tau of soft target updates: share of the way to the online networks that targets move",
        real(above=0, at_most=1),
    )
    updates: int = param(1, "gradient steps in one update, each on an equal part of the batch", integer(at_least=1))

    def behaviour(self, space: spaces.Box, *, relative: bool = True) -> Exploration:
        """The behaviour policy with these parameters."""
        return super().behaviour(space, relative=relative)


class Critics(Protocol):
    """One Q function or more."""

    @property
    def variables(self) -> list[Any]:
        """Trained variables."""

    def __call__(self, observation: Tensor, action: Tensor) -> list[Tensor]:
        """Each one's values, float32 [B], of observations [B, O] and actions [B, A]."""


class BoxTask:
    """The spaces as the networks see them.

    Args:
        config: has the spaces.
        algorithm: for error messages.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, or the observations do not fit a network.
    """

    def __init__(self, config: RunConfig, algorithm: str) -> None:
        self.actions = SquashedBox(config.action_space, algorithm)
        self._observations = Observations(config.observation_space, config.action_space)
        self._algorithm = algorithm
        self.observation_size = math.prod(self._observations.shape)
        self.size = self.observation_size + self.actions.num_outputs
        """Size of an observation and an action, concatenated."""

    def encode(self, observation: Any) -> Tensor:
        """float32 [B, O]."""
        return flat(self._observations.encode(observation))

    def predict(self, actor: Actor, features: Any, params: DeterministicParams) -> EstimatorSpec:
        """The spec of PREDICT."""
        action = self.actions.to_environment(actor(self.encode(features)))
        return EstimatorSpec(Modes.PREDICT, {"action": action}, exploration=params.behaviour(self.actions.space))

    def batch(self, features: Any, labels: Mapping[str, Any]) -> dict[str, Tensor]:
        """Observations [B, O], actions [B, A], the rest [B].

        Raises:
            ArgumentError: the batch does not have single transitions.
        """
        check_transitions(labels, self._algorithm)
        action = self.actions.from_environment(labels["action"])
        return {
            "observation": self.encode(features),
            "next_observation": self.encode(labels["next_observation"]),
            # The action that the environment took: noise may exceed the bounds.
            "action": tf.clip_by_value(action, -1.0, 1.0),
            **{name: labels[name] for name in ("reward", "discount", "weight") if name in labels},
        }


class Actor:
    """The policy mu(s), whose actions are in -1 .. 1."""

    def __init__(self, name: str, task: BoxTask, params: DenseParams, *, zeros: bool = False) -> None:
        heads = {"mu": task.actions.num_outputs}
        self._network = Network(name, [task.observation_size], heads, params, zeros=zeros)
        self.variables = self._network.variables

    def __call__(self, observation: Tensor) -> Tensor:
        """float32 [B, A], of observations [B, O]."""
        return tf.tanh(self._network(observation)["mu"])


def ascent(batch: Batch, action: Tensor, value: Tensor) -> Tensor:
    """Minus the mean value of the actor's actions: its gradient is the deterministic policy gradient."""
    return -tf.reduce_mean(value)


@dataclasses.dataclass(frozen=True)
class DeterministicActorCritic:
    """The networks and their updates.

    Args:
        actor: the policy.
        critics: the first one trains the actor.
        target_actor: follows the actor.
        target_critics: follow the critics.
        next_value: from a batch to the value of its next observations, by the targets, float32 [B].
        params: parameters of the algorithm.
        policy_delay: the actor learns, and then the targets move, in gradient steps whose number it divides.
        actor_loss: from a batch, the actor's actions [B, A] for it, and the first critic's values [B] of these actions,
            to the loss of the actor.
    """

    actor: Actor
    critics: Critics
    target_actor: Actor
    target_critics: Critics
    next_value: Callable[[Batch], Tensor]
    params: DeterministicParams
    policy_delay: int = 1
    actor_loss: Callable[[Batch, Tensor, Tensor], Tensor] = ascent

    def spec(self, mode: str, batch: Batch, labels: Mapping[str, Any]) -> EstimatorSpec:
        """The critics' loss in EVAL; all gradient steps of an update in TRAIN."""
        if mode == Modes.EVAL:
            return EstimatorSpec(mode, loss=self._critic_loss(batch)[0])
        params = self.params
        rates = {"learning_rate": learning_rate_at(params.learning_rate, labels)}
        critic_rate = rates["learning_rate"]
        if params.critic_learning_rate is not None:
            critic_rate = scheduled_value(params.critic_learning_rate, "critic_learning_rate", labels, at_least=0)
            rates["critic_learning_rate"] = critic_rate
        critic_optimizer = make_optimizer(params.optimizer, critic_rate, params.optimizer_epsilon)
        actor_optimizer = make_optimizer(params.optimizer, rates["learning_rate"], params.optimizer_epsilon)
        actor_optimizer.build(self.actor.variables)
        last = None
        if self.policy_delay > 1:  # loss and gradient norm of the actor's last step
            last = keras.Variable(np.zeros(2, np.float32), trainable=False, name="last_actor_step")

        def learn(part: Batch, i: int) -> tuple[Tensor, dict[str, Tensor]]:
            step = labels["global_step"] * params.updates + i
            run_if(tf.equal(step, 0), self._copy_targets)
            td_error, critic = self._critic_step(part, critic_optimizer)
            return td_error, {**critic, **self._actor_step(part, step, actor_optimizer, last)}

        td_error, metrics = gradient_steps(learn, batch, params.updates)
        return EstimatorSpec(mode, loss=metrics.pop("loss"), td_error=td_error, metrics={**metrics, **rates})

    def _copy_targets(self) -> list[Tensor]:
        """Copy the networks to their targets before the first gradient step."""
        for online, target in self._pairs():
            target.assign(online.value)
        return []

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        """Each variable of the actor and the critics, with its target's."""
        yield from zip(self.actor.variables, self.target_actor.variables, strict=True)
        yield from zip(self.critics.variables, self.target_critics.variables, strict=True)

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of all critics, the mean of their TD errors [B], and the mean of their values."""
        q_values = self.critics(batch["observation"], batch["action"])
        target = batch["reward"] + batch["discount"] * self.next_value(batch)  # [B]
        return *critics_loss(target, q_values, batch), tf.reduce_mean(tf.add_n(q_values)) / len(q_values)

    def _critic_step(self, batch: Batch, optimizer: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """One step of all critics; returns TD errors [B] and scalars."""
        loss, td_error, q_mean = self._critic_loss(batch)
        norm = minimize(loss, self.critics.variables, optimizer, self.params.max_gradient_norm)
        scalars = {"loss": loss, "q_mean": q_mean, "td_error_mean": tf.reduce_mean(tf.abs(td_error))}
        return td_error, scalars | self._norm("critic", norm)

    def _actor_step(self, batch: Batch, step: Tensor, optimizer: Any, last: Any) -> dict[str, Tensor]:
        """One step of the actor up the gradient of the first critic, then one of the targets, if they are due.

        Returns:
            The scalars of the actor's last step.
        """

        def learn() -> list[Tensor]:
            observation = batch["observation"]
            action = self.actor(observation)
            loss = self.actor_loss(batch, action, self.critics(observation, action)[0])
            norm = minimize(loss, self.actor.variables, optimizer, self.params.max_gradient_norm)
            rate = self.params.target_update_rate
            for online, target in self._pairs():
                target.assign(rate * online + (1.0 - rate) * target)
            return [tf.stack([loss, norm])]

        if last is None:
            (scalars,) = learn()
        else:
            (scalars,) = run_if(tf.equal(step % self.policy_delay, 0), learn, [last.value])
            last.assign(scalars)
        return {"actor_loss": scalars[0], **self._norm("actor", scalars[1])}

    def _norm(self, name: str, norm: Tensor) -> dict[str, Tensor]:
        return {} if self.params.max_gradient_norm is None else {f"{name}_gradient_norm": norm}
