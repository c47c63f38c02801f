"""SAC: a squashed Gaussian policy that maximises return and entropy, twin critics, and a temperature that is learned.

Sources: Haarnoja et al. 2018a (https://arxiv.org/abs/1801.01290) and 2018b (https://arxiv.org/abs/1812.05905), which
the comments' equations are from. What differs from the papers is said in docs/algorithms/sac.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from .. import noise
from ..checks import choice, integer, number
from ..contracts import Array, EstimatorSpec, Modes, RunConfig
from ..explorations.squashed import SquashedGaussian, is_bounded_box
from ..schedules import ScheduleLike, make_schedule
from .blocks import losses, networks, optimizers, squashed
from .blocks.params import from_params, layer_sizes
from .blocks.targets import update_target

Tensor: TypeAlias = Any

AUTO = "auto"
LOG_STD_BOUNDS = (-20.0, 2.0)
"""Of the policy's log standard deviation, which is clipped to them: those of the authors' code."""


@dataclasses.dataclass(frozen=True)
class SACParams:
    """The parameters of SAC.

    Args:
        hidden: sizes of the dense layers, of the actor and of each critic.
        activation: of every hidden layer, by Keras' name.
        initializer: of every kernel, by Keras' name.
        optimizer: by Keras' name in lower case; actor, critics and temperature have one each.
        learning_rate: of all three: a number, or a schedule on ``global_step``.
        target_update_rate: the share of the way that the target critics go towards the critics at each gradient step.
        temperature: how much entropy is worth: a number, or "auto", which adapts it to keep the target entropy.
        initial_temperature: what "auto" begins with.
        target_entropy: what that aims at, in nats, for actions in -1 .. 1; "auto" is minus the number of components.
        updates: gradient steps in one update, each on an equal part of the batch.
        max_gradient_norm: gradients of actor and critics are scaled down to this global norm; ``None`` leaves them.

    Raises:
        ValueError: a value is of the wrong type or out of range; names it.
    """

    hidden: tuple[int, ...] = (256, 256)  # 2018b, table 1; the other defaults are from there as well
    activation: str = "relu"
    initializer: str = "glorot_uniform"
    optimizer: str = "adam"
    learning_rate: ScheduleLike = 3e-4
    target_update_rate: float = 0.005
    temperature: float | str = AUTO  # 2018b, section 5
    initial_temperature: float = 1.0
    target_entropy: float | str = AUTO
    updates: int = 1
    max_gradient_norm: float | None = None

    def __post_init__(self) -> None:
        choice("activation", self.activation, networks.ACTIVATIONS)
        choice("initializer", self.initializer, networks.INITIALIZERS)
        choice("optimizer", self.optimizer, optimizers.OPTIMIZERS)
        object.__setattr__(self, "hidden", layer_sizes("hidden", self.hidden))
        make_schedule(self.learning_rate, "learning_rate", at_least=0)
        number("target_update_rate", self.target_update_rate, above=0, at_most=1)
        _check_number_or_auto("temperature", self.temperature, at_least=0)
        number("initial_temperature", self.initial_temperature, above=0)
        _check_number_or_auto("target_entropy", self.target_entropy)
        object.__setattr__(self, "updates", integer("updates", self.updates, at_least=1))
        if self.max_gradient_norm is not None:
            number("max_gradient_norm", self.max_gradient_norm, above=0)


class Network:
    """Dense layers from vectors to one or more heads; its variables are created at once.

    Args:
        inputs: size of the vectors.
        heads: name to size.
        params: which layers.
        name: prefix of the names of its variables.
    """

    def __init__(self, inputs: int, heads: Mapping[str, int], params: SACParams, name: str) -> None:
        with keras.name_scope(name):
            self._body = networks.mlp((inputs,), params.hidden, params.activation, params.initializer)
            width = self._body.output_shape[-1]
            self._heads = [networks.linear(width, size, head, params.initializer) for head, size in heads.items()]

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation."""
        return [variable for part in (self._body, *self._heads) for variable in part.trainable_variables]

    def __call__(self, inputs: Tensor) -> list[Tensor]:
        """The heads' outputs, float32 [B, size] each."""
        hidden = self._body(inputs)  # [B, width]
        return [head(hidden) for head in self._heads]


class Actor(Network):
    """The policy: from observations to the Gaussian before it is squashed."""

    def __init__(self, observation_size: int, action_size: int, params: SACParams) -> None:
        super().__init__(observation_size, {"mean": action_size, "log_std": action_size}, params, "actor")

    def gaussian(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and clipped log_std, float32 [B, A] each."""
        mean, log_std = self(observation)
        return mean, tf.clip_by_value(log_std, *LOG_STD_BOUNDS)


class Critics:
    """Two networks from observations and actions in -1 .. 1 to values."""

    def __init__(self, observation_size: int, action_size: int, params: SACParams, name: str) -> None:
        size = observation_size + action_size
        self._networks = [Network(size, {"q_value": 1}, params, f"{name}{index}") for index in (1, 2)]

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation."""
        return [variable for network in self._networks for variable in network.variables]

    def __call__(self, observation: Tensor, action: Tensor) -> list[Tensor]:
        """Both values, float32 [B] each."""
        inputs = tf.concat([observation, action], axis=-1)  # [B, O + A]
        return [tf.squeeze(network(inputs)[0], axis=-1) for network in self._networks]


class Temperature:
    """How much entropy is worth, alpha: fixed, or the exponential of a variable."""

    def __init__(self, params: SACParams) -> None:
        self._fixed = None if params.temperature == AUTO else float(params.temperature)
        if self._fixed is None:
            self._log = keras.Variable(np.float32(math.log(params.initial_temperature)), name="log_temperature")

    @property
    def variables(self) -> list[Any]:
        """What is trained: its log, unless it is fixed."""
        return [self._log] if self._fixed is None else []

    def __call__(self) -> Tensor:
        """Its present value, float32 scalar."""
        return tf.constant(self._fixed, tf.float32) if self._fixed is not None else tf.exp(self._log.value)


def model_fn(
    features: Any,
    labels: Any,
    mode: str,
    params: Mapping[str, Any] | SACParams | None,
    config: RunConfig,
) -> EstimatorSpec:
    """SAC as a ``model_fn``.

    Predictions: ``action`` float32 [B, ...] (the squashed mean, in the environment's units), ``mean`` and ``log_std``
    float32 [B, ...] (before squashing). ``loss`` is the critics', ``td_error`` the mean of theirs. Metrics:
    ``actor_loss``, ``temperature``, ``entropy`` (of actions in -1 .. 1), ``q_mean``, ``learning_rate``; where gradients
    are clipped also ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping). With several gradient steps
    in one update, means over them.

    Args:
        features: observations, tensor [B, ...] or a mapping of such.
        labels: the batch and the counters; ``weight`` [B] is used where the memory is prioritized. None in PREDICT.
        mode: one of ``Modes``.
        params: the values of :class:`SACParams` that differ from its defaults.
        config: gives the spaces.

    Raises:
        ValueError: the action space is no bounded Box of floats, the observations do not fit, the batch is not one of
            a replay memory or cannot be split, or a parameter is wrong.
    """
    params = from_params(SACParams, params)
    space = _actions(config)
    observation_size = math.prod(networks.encoded_shape(config.observation_space))
    action_size = math.prod(space.shape)
    actor = Actor(observation_size, action_size, params)  # first in every mode: its variables are PREDICT's
    if mode == Modes.PREDICT:
        return _predict(actor, features, config, space)
    learner = _Learner(params, actor, observation_size, action_size, config)
    batch = _batch(features, labels, space, config)
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=learner.critic_loss(batch)[0])

    learning_rate = optimizers.learning_rate_at(params.learning_rate, labels["global_step"])
    learner.make_optimizers(learning_rate)
    parts = _split(batch, params.updates)
    # Target critics become copies at gradient step 0; the second part's step is never 0.
    steps = [learner.step(part, labels["global_step"] + index) for index, part in enumerate(parts)]
    td_errors, metrics = zip(*steps, strict=True)
    means = {name: _mean([step[name] for step in metrics]) for name in metrics[0]}
    loss = means.pop("critic_loss")
    means["learning_rate"] = learning_rate
    return EstimatorSpec(mode, loss=loss, td_error=tf.concat(td_errors, axis=0), metrics=means)


class _Learner:
    """What TRAIN and EVAL add to the actor: critics, target critics, temperature, and how they learn."""

    def __init__(
        self, params: SACParams, actor: Actor, observation_size: int, action_size: int, config: RunConfig
    ) -> None:
        self._params = params
        self._actor = actor
        self._critics = Critics(observation_size, action_size, params, "critic")
        zeros = dataclasses.replace(params, initializer="zeros")
        self._targets = Critics(observation_size, action_size, zeros, "target")
        self._temperature = Temperature(params)
        self._target_entropy = -float(action_size) if params.target_entropy == AUTO else float(params.target_entropy)

    def make_optimizers(self, learning_rate: Tensor) -> None:
        """Before the first :meth:`step`: one optimizer for each of the three losses."""
        name = self._params.optimizer
        self._optimizers = {
            part: optimizers.make_optimizer(name, learning_rate) for part in ("critic", "actor", "temperature")
        }

    def critic_loss(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """The loss of both critics (2018b, equation 5), their mean TD error [B], and their values [B] each."""
        next_observation = batch["next_observation"]
        next_action, next_log_prob = squashed.sample(*self._actor.gaussian(next_observation), batch["next_noise"])
        next_value = tf.minimum(*self._targets(next_observation, next_action))  # [B]
        next_value -= self._temperature() * next_log_prob  # equation 3
        target = tf.stop_gradient(batch["reward"] + batch["discount"] * next_value)  # [B]
        q_values = self._critics(batch["observation"], batch["action"])
        td_errors = [target - q_value for q_value in q_values]
        error = tf.add_n([losses.squared(td_error) for td_error in td_errors])  # [B]
        loss = tf.reduce_mean(error * batch["weight"] if "weight" in batch else error)
        return loss, tf.add_n(td_errors) / len(td_errors), q_values

    def step(self, batch: Mapping[str, Tensor], step: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """One gradient step of everything, in the order of 2018b, algorithm 1; returns TD errors [B] and metrics."""
        critics = self._critics.variables
        update_target(critics, self._targets.variables, step, period=None, rate=self._params.target_update_rate)
        critic_loss, td_error, q_values = self.critic_loss(batch)
        norms = self._minimize("critic", critic_loss, critics)

        temperature = self._temperature()
        action, log_prob = squashed.sample(*self._actor.gaussian(batch["observation"]), batch["noise"])
        value = tf.minimum(*self._critics(batch["observation"], action))  # [B], of the critics just trained
        actor_loss = tf.reduce_mean(temperature * log_prob - value)  # equation 7
        norms |= self._minimize("actor", actor_loss, self._actor.variables)

        entropy = -tf.reduce_mean(log_prob)
        for log_temperature in self._temperature.variables:
            # The gradient of log(alpha) * (entropy - target_entropy): equation 18 with log(alpha) in place of alpha.
            self._optimizers["temperature"].apply([entropy - self._target_entropy], [log_temperature])
        return td_error, {
            "critic_loss": critic_loss,
            "actor_loss": actor_loss,
            "temperature": temperature,
            "entropy": entropy,
            "q_mean": tf.reduce_mean(q_values[0] + q_values[1]) / 2,
            **norms,
        }

    def _minimize(self, part: str, loss: Tensor, variables: list[Any]) -> dict[str, Tensor]:
        """One step of a part's optimizer, on its own variables only; the norm of the gradients if they are clipped."""
        gradients = tf.gradients(loss, [variable.value for variable in variables])
        gradients, norm = optimizers.clip_by_global_norm(gradients, self._params.max_gradient_norm)
        self._optimizers[part].apply(gradients, variables)
        return {} if self._params.max_gradient_norm is None else {f"{part}_gradient_norm": norm}


def _predict(actor: Actor, features: Any, config: RunConfig, space: spaces.Box) -> EstimatorSpec:
    mean, log_std = actor.gaussian(_flat(networks.encode(features, config.observation_space)))  # [B, A]
    action = squashed.to_units(tf.tanh(mean), *_bounds(space))
    predictions = {"action": action, "mean": mean, "log_std": log_std}
    if len(space.shape) != 1:
        predictions = {name: tf.reshape(value, [-1, *space.shape]) for name, value in predictions.items()}
    return EstimatorSpec(Modes.PREDICT, predictions, exploration=SquashedGaussian(space))


def _batch(features: Any, labels: Mapping[str, Any], space: spaces.Box, config: RunConfig) -> dict[str, Tensor]:
    """What a gradient step works on: observations [B, O], actions in -1 .. 1 and noise [B, A], the rest [B]."""
    if labels["reward"].shape.rank != 1:
        raise ValueError(
            f"SAC needs batches [B, ...] of single transitions, from a ReplayMemory; got rewards of shape"
            f" {labels['reward'].shape}"
        )
    action = squashed.from_units(_flat(tf.cast(labels["action"], tf.float32)), *_bounds(space))  # [B, A]
    batch = {
        "observation": _flat(networks.encode(features, config.observation_space)),
        "next_observation": _flat(networks.encode(labels["next_observation"], config.observation_space)),
        "action": action,
        "noise": noise.normal(action.shape),
        "next_noise": noise.normal(action.shape),
    }
    return batch | {name: labels[name] for name in ("reward", "discount", "weight") if name in labels}


def _split(batch: Mapping[str, Tensor], updates: int) -> list[dict[str, Tensor]]:
    """Equal parts of a batch, for one gradient step each."""
    size = int(batch["reward"].shape[0])
    if size % updates:
        raise ValueError(
            f"updates must divide the memory's batch_size, of which each gradient step takes an equal part; got"
            f" updates={updates} and batch_size={size}"
        )
    if updates == 1:
        return [dict(batch)]
    parts = {name: tf.split(value, updates) for name, value in batch.items()}
    return [{name: values[index] for name, values in parts.items()} for index in range(updates)]


def _mean(values: list[Tensor]) -> Tensor:
    return values[0] if len(values) == 1 else tf.add_n(values) / len(values)


def _flat(values: Tensor) -> Tensor:
    """[B, ...] as [B, D]."""
    return values if values.shape.rank == 2 else tf.reshape(values, [-1, math.prod(values.shape[1:])])


def _bounds(space: spaces.Box) -> tuple[Array, Array]:
    """Of actions as vectors [A]."""
    return space.low.astype(np.float32).ravel(), space.high.astype(np.float32).ravel()


def _actions(config: RunConfig) -> spaces.Box:
    space = config.action_space
    if not isinstance(space, spaces.Box) or not is_bounded_box(space):
        raise ValueError(f"SAC needs a bounded Box of floats as action space, got {space!r}; DQN and PPO take Discrete")
    return space


def _check_number_or_auto(name: str, value: Any, at_least: float = -math.inf) -> None:
    if isinstance(value, str):
        choice(name, value, [AUTO])
    else:
        number(name, value, at_least=at_least)
