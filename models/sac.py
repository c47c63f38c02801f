"""SAC: a squashed Gaussian policy that maximises return and entropy, twin critics, and a learned temperature.

Sources: Haarnoja et al. 2018a (https://arxiv.org/abs/1801.01290) and 2018b (https://arxiv.org/abs/1812.05905), which
the numbers of equations refer to. Differences from the papers: docs/algorithms/sac.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from .. import noise
from ..contracts import EstimatorSpec, Modes, RunConfig
from ..errors import ArgumentError
from ..schedules import ScheduleLike
from .blocks import losses
from .blocks.actions import SquashedBox, flat
from .blocks.critics import TwinCritics
from .blocks.encoding import encode, encoded_shape
from .blocks.learning import check_transitions, mean_error, minimize
from .blocks.networks import DenseParams, Network
from .blocks.optimizers import OptimizerParams, learning_rate_at, make_optimizer
from .blocks.params import from_params, or_word, param, real, sizes, whole
from .blocks.targets import update_target

Tensor: TypeAlias = Any

AUTO = "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACParams(OptimizerParams, DenseParams):
    """The parameters of SAC. Actor, critics and temperature have an optimizer each."""

    hidden: Sequence[int] = param((256, 256), "sizes of the dense layers, of the actor and of each critic", sizes())
    learning_rate: ScheduleLike = 3e-4  # 2018b, table 1; so are the other defaults
    target_update_rate: float = param(
        0.005, "share of the way that target critics go in each gradient step", real(above=0, at_most=1)
    )
    temperature: float | str = param(
        AUTO, "weight of the entropy; `auto` adapts it to keep the target entropy", or_word(real(at_least=0), AUTO)
    )
    initial_temperature: float = param(1.0, "first temperature of `auto`", real(above=0))
    target_entropy: float | str = param(
        AUTO, "in nats, of actions in -1 .. 1; `auto` is minus the number of components", or_word(real(), AUTO)
    )
    updates: int = param(1, "gradient steps in one update, each on an equal part of the batch", whole(at_least=1))


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | SACParams | None, config: RunConfig
) -> EstimatorSpec:
    """SAC, for a ReplayMemory.

    Predictions: ``action`` float32 [B, ...] (the squashed mean), ``mean`` and ``log_std`` float32 [B, ...] (before
    squashing). ``loss`` is the critics', ``td_error`` the mean of theirs. Metrics: ``actor_loss``, ``temperature``,
    ``entropy`` (of actions in -1 .. 1), ``q_mean``, ``learning_rate``; where gradients are clipped also
    ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping). They are means over the gradient steps.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the batch is not
            one of a replay memory or cannot be split, or a parameter is invalid.
    """
    params = from_params(SACParams, params)
    actions = SquashedBox(config.action_space, "SAC")
    observation_size, action_size = math.prod(encoded_shape(config.observation_space)), actions.num_outputs
    actor = Network("actor", [observation_size], {"mean": action_size, "log_std": action_size}, params)
    if mode == Modes.PREDICT:
        mean, log_std = actions.gaussian(actor(flat(encode(features, config.observation_space))))  # [B, A]
        shaped = {"mean": actions.in_shape(mean), "log_std": actions.in_shape(log_std)}
        predictions = {"action": actions.to_environment(tf.tanh(mean)), **shaped}
        return EstimatorSpec(mode, predictions, exploration=actions.exploration(log_prob=False))

    critics = TwinCritics("critic", [observation_size + action_size], params)
    targets = TwinCritics("target", [observation_size + action_size], params, zeros=True)
    learner = _Learner(actions, actor, critics, targets, _Temperature(params), params)
    batch = _batch(features, labels, actions, config)
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=learner.critic_loss(batch)[0])

    learning_rate = learning_rate_at(params.learning_rate, labels)
    optimizers = [make_optimizer(params.optimizer, learning_rate, params.optimizer_epsilon) for _ in range(3)]
    # Target critics become copies at gradient step 0, which only the first part of a batch can have.
    parts = enumerate(_parts(batch, params.updates))
    steps = [learner.gradient_step(part, labels["global_step"] + i, *optimizers) for i, part in parts]
    td_errors, scalars = zip(*steps, strict=True)
    means = {name: tf.add_n([step[name] for step in scalars]) / len(scalars) for name in scalars[0]}
    loss = means.pop("critic_loss")
    metrics = {**means, "learning_rate": learning_rate}
    return EstimatorSpec(mode, loss=loss, td_error=tf.concat(td_errors, axis=0), metrics=metrics)


class _Temperature:
    """How much entropy is worth, alpha: fixed, or the exponential of a variable."""

    def __init__(self, params: SACParams) -> None:
        self._fixed = None if isinstance(params.temperature, str) else params.temperature
        self.variables: list[Any] = []
        if self._fixed is None:
            initial = np.float32(math.log(params.initial_temperature))
            self.variables = [keras.Variable(initial, name="log_temperature")]

    def __call__(self) -> Tensor:
        """Its present value, float32 scalar."""
        return tf.exp(self.variables[0].value) if self._fixed is None else tf.constant(self._fixed, tf.float32)


@dataclasses.dataclass(frozen=True)
class _Learner:
    """What learns, and its losses."""

    actions: SquashedBox
    actor: Network
    critics: TwinCritics
    targets: TwinCritics
    temperature: _Temperature
    params: SACParams

    def critic_loss(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The loss of both critics (equation 5), their mean TD error [B], and their values [B] each."""
        next_observation = batch["next_observation"]
        next_action, next_log_prob = self.actions.sample(self.actor(next_observation), batch["next_noise"])
        next_value = tf.minimum(*self.targets(next_observation, next_action))  # [B]
        next_value -= self.temperature() * next_log_prob  # equation 3
        target = tf.stop_gradient(batch["reward"] + batch["discount"] * next_value)  # [B]
        q_values = self.critics(batch["observation"], batch["action"])
        td_errors = [target - q_value for q_value in q_values]
        loss = mean_error(tf.add_n([losses.squared(td_error) for td_error in td_errors]), batch)
        return loss, tf.add_n(td_errors) / len(td_errors), q_values

    def gradient_step(
        self,
        batch: Mapping[str, Tensor],
        step: Tensor,
        critic_optimizer: Any,
        actor_optimizer: Any,
        alpha_optimizer: Any,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Everything learns once, in the order of algorithm 1; returns TD errors [B] and scalars."""
        rate, max_norm = self.params.target_update_rate, self.params.max_gradient_norm
        update_target(self.critics.variables, self.targets.variables, step, period=None, rate=rate)
        critic_loss, td_error, q_values = self.critic_loss(batch)
        critic_norm = minimize(critic_loss, self.critics.variables, critic_optimizer, max_norm)

        temperature = self.temperature()
        action, log_prob = self.actions.sample(self.actor(batch["observation"]), batch["noise"])
        value = tf.minimum(*self.critics(batch["observation"], action))  # [B], by the critics just trained
        actor_loss = tf.reduce_mean(temperature * log_prob - value)  # equation 7
        actor_norm = minimize(actor_loss, self.actor.variables, actor_optimizer, max_norm)

        entropy = -tf.reduce_mean(log_prob)
        auto = isinstance(self.params.target_entropy, str)
        target_entropy = -float(self.actions.num_outputs) if auto else self.params.target_entropy
        for log_temperature in self.temperature.variables:
            # The gradient of log(alpha) * (entropy - target_entropy): equation 18 with log(alpha) in place of alpha.
            alpha_optimizer.apply([entropy - target_entropy], [log_temperature])
        norms = {"critic_gradient_norm": critic_norm, "actor_gradient_norm": actor_norm}
        return td_error, {
            "critic_loss": critic_loss,
            "actor_loss": actor_loss,
            "temperature": temperature,
            "entropy": entropy,
            "q_mean": tf.reduce_mean(q_values[0] + q_values[1]) / 2,
            **(norms if max_norm is not None else {}),
        }


def _batch(features: Any, labels: Mapping[str, Any], actions: SquashedBox, config: RunConfig) -> dict[str, Tensor]:
    """Observations [B, O], actions in -1 .. 1 and noise [B, A], the rest [B]."""
    check_transitions(labels, "SAC")
    action = actions.from_environment(labels["action"])  # [B, A]
    batch = {
        "observation": flat(encode(features, config.observation_space)),
        "next_observation": flat(encode(labels["next_observation"], config.observation_space)),
        "action": action,
        "noise": noise.normal(action.shape),
        "next_noise": noise.normal(action.shape),
    }
    return batch | {name: labels[name] for name in ("reward", "discount", "weight") if name in labels}


def _parts(batch: Mapping[str, Tensor], updates: int) -> list[Mapping[str, Tensor]]:
    """Equal parts of a batch, one for each gradient step."""
    if updates == 1:
        return [batch]
    size = int(batch["reward"].shape[0])
    if size % updates:
        raise ArgumentError(
            f"updates must divide the memory's batch_size, of which each gradient step takes an equal part; got"
            f" updates={updates} and batch_size={size}",
            "updates",
            updates,
        )
    split = {name: tf.split(value, updates) for name, value in batch.items()}
    return [{name: values[i] for name, values in split.items()} for i in range(updates)]
