"""CrossQ: SAC without target networks, whose critics are batch-normalised over both sides of a transition.

Source: Bhatt et al. 2024 (https://arxiv.org/abs/1902.05605), algorithm 1. Differences from the paper:
docs/algorithms/crossq.md.

Shapes in comments: B is the batch, O the size of an encoded observation, A the components of an action.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import keras, tf
from .blocks.box_actions import SquashedBox
from .blocks.conditional import run_if
from .blocks.critics import TwinCritics, critics_loss
from .blocks.networks import DenseParams
from .blocks.optimizers import OptimizerParams, learning_rate_at, make_optimizer
from .blocks.params import from_params, integer, optional, param, real, sizes
from .blocks.soft_actor_critic import SoftTask, SoftTaskParams, lowest, one_step
from .blocks.soft_policies import SquashedPolicy
from .blocks.temperature import Temperature, TemperatureParams
from .blocks.train_step import minimize

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class CrossQParams(TemperatureParams, SoftTaskParams, OptimizerParams, DenseParams):
    """The parameters of CrossQ. Actor, critics and temperature each have an optimizer."""

    paper_update_frequency: ClassVar[int | None] = 1

    hidden: Sequence[int] = param((256, 256), "sizes of the dense layers of the actor", sizes())
    critic_hidden: Sequence[int] = param((2048, 2048), "sizes of the dense layers of each critic", sizes())
    learning_rate: ScheduleLike = 1e-3
    momentum: float | None = param(
        0.5,
        "`beta_1`, the decay of the gradients' moving average, for optimizers that have it; `null`: Keras' default",
        optional(real(at_least=0, at_most=1)),
    )
    policy_delay: int = param(3, "updates of the critics per update of the policy", integer(at_least=1))
    batch_norm_momentum: float = param(
        0.99,
        "share of the running mean and variance that batch normalisation keeps in an update",
        real(at_least=0, at_most=1),
    )

    def body(self, shape: Sequence[int], initializer: str, scale: float) -> Any:
        """The hidden layers for inputs of this shape; inputs and the outputs of each layer are batch-normalised."""
        layers = [keras.Input(tuple(shape)), self._normalization("normalization0")]
        for index, units in enumerate(self.hidden, start=1):
            layers.append(self.layer(units, f"dense{index}", self.activation, initializer, scale))
            layers.append(self._normalization(f"normalization{index}"))
        return keras.Sequential(layers, name="mlp")

    def _normalization(self, name: str) -> Any:
        return keras.layers.BatchNormalization(momentum=self.batch_norm_momentum, name=name)


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | CrossQParams | None, config: RunConfig
) -> EstimatorSpec:
    """CrossQ, for a ReplayMemory.

    Predictions are those of SAC: ``action`` float32 [B, ...] (the squashed mean), ``mean`` and ``log_std`` float32 [B,
    ...] (before squashing). ``loss`` is the critics' loss, ``td_error`` their mean TD error. Metrics: ``actor_loss``,
    ``temperature`` and ``entropy`` (of the policy's last step, in this update or before; of actions in -1 .. 1),
    ``q_mean`` (of both critics, of the actions taken), ``learning_rate``; with gradient clipping also
    ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping).

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions, or a parameter is invalid.
    """
    params = from_params(CrossQParams, params)
    actions = SquashedBox(config.action_space, "CrossQ")
    task = SoftTask(config, params, "CrossQ")
    policy = SquashedPolicy(actions, task.size, params)
    if mode == Modes.PREDICT:
        return task.predict(policy, features, task.encode(features))

    wide = dataclasses.replace(params, hidden=params.critic_hidden)
    critics = TwinCritics("critic", [task.size + policy.action_size], wide)
    learner = Learner(policy, actions, critics, Temperature(params), params)
    batch = task.transitions(features, labels, policy)
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=learner.critic_loss(batch, training=False)[0])
    return learner.train(batch, labels)


@dataclasses.dataclass(frozen=True)
class Learner:
    """The networks and their losses."""

    policy: SquashedPolicy
    actions: SquashedBox
    critics: TwinCritics
    temperature: Temperature
    params: CrossQParams

    def critic_loss(self, batch: Mapping[str, Any], *, training: bool) -> tuple[Tensor, Tensor, Tensor]:
        """The loss of both critics, their mean TD error [B], and the mean of their values.

        In training, both sides of the transitions are normalised together, with the statistics of their joint batch.
        """
        following = self.policy.distribution_parameters(batch["next_observation"])
        next_action, next_log_prob = self.actions.sample(following, batch["next_noise"])
        seen = tf.concat([batch["observation"], batch["next_observation"]], axis=0)  # [2 B, O]
        both = self.critics(seen, tf.concat([batch["action"], next_action], axis=0), training=training)
        q_values, next_values = zip(*(tf.split(values, 2) for values in both), strict=True)
        next_value = lowest(next_values, batch) - self.temperature() * next_log_prob
        loss, td_error = critics_loss(one_step(batch, next_value), q_values, batch)
        return loss, td_error, tf.reduce_mean(tf.add_n(q_values)) / 2

    def train(self, batch: Mapping[str, Any], labels: Mapping[str, Any]) -> EstimatorSpec:
        """One step of the critics and, in every ``policy_delay``-th update, one of policy and temperature."""
        params, clips = self.params, self.params.max_gradient_norm is not None
        learning_rate = learning_rate_at(params.learning_rate, labels)
        kind, epsilon = params.optimizer, params.optimizer_epsilon
        optimizers = [make_optimizer(kind, learning_rate, epsilon, params.momentum) for _ in range(3)]
        optimizers[1].build(self.policy.variables)
        optimizers[2].build(self.temperature.variables)
        last = keras.Variable(np.zeros(4, np.float32), trainable=False, name="last_policy_step")

        loss, td_error, q_mean = self.critic_loss(batch, training=True)
        norm = minimize(loss, self.critics.variables, optimizers[0], params.max_gradient_norm)
        is_due = tf.equal(labels["global_step"] % params.policy_delay, 0)
        (scalars,) = run_if(is_due, lambda: [self._policy_step(batch, *optimizers[1:])], [last.value])
        last.assign(scalars)
        names = ("actor_loss", "temperature", "entropy", *(("actor_gradient_norm",) if clips else ()))
        metrics = {
            "q_mean": q_mean,
            "learning_rate": learning_rate,
            **dict(zip(names, tf.unstack(scalars), strict=False)),
        }
        metrics |= {"critic_gradient_norm": norm} if clips else {}
        return EstimatorSpec(Modes.TRAIN, loss=loss, td_error=td_error, metrics=metrics)

    def _policy_step(self, batch: Mapping[str, Any], optimizer: Any, temperature_optimizer: Any) -> Tensor:
        """One step of policy and temperature on the current critics.

        Returns:
            The loss, the temperature (before the step), the entropy and the gradient norm, [4].
        """
        seen, temperature, target = batch["observation"], self.temperature(), self.params.target_entropy
        action, log_prob = self.actions.sample(self.policy.distribution_parameters(seen, training=True), batch["noise"])
        loss = tf.reduce_mean(temperature * log_prob - lowest(self.critics(seen, action), batch))
        norm = minimize(loss, self.policy.variables, optimizer, self.params.max_gradient_norm)
        entropy = -tf.reduce_mean(log_prob)
        wanted = self.policy.target_entropy(None) if isinstance(target, str) else target
        self.temperature.follow(entropy, wanted, temperature_optimizer)
        return tf.stack([loss, temperature, entropy, norm])
