"""DQN: Q-learning with a neural network, a target network and a replay memory, with its usual refinements.

Sources: Mnih et al. 2015 (https://doi.org/10.1038/nature14236), van Hasselt et al. 2016 (double,
https://arxiv.org/abs/1509.06461), Wang et al. 2016 (dueling, https://arxiv.org/abs/1511.06581). What differs from the
papers is said in docs/algorithms/dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from gymnasium import spaces

from ..checks import choice, integer, number
from ..contracts import EstimatorSpec, Modes, RunConfig
from ..explorations import EpsilonGreedy, Linear, ScheduleLike, make_schedule
from .blocks import losses, networks, optimizers
from .blocks.params import from_params, layer_sizes
from .blocks.targets import update_target

Tensor: TypeAlias = Any

DEFAULT_TARGET_UPDATE_PERIOD = 100
DEFAULT_EPSILON = Linear(start=1.0, stop=0.05, duration=10_000)


@dataclasses.dataclass(frozen=True)
class DQNParams:
    """The parameters of DQN.

    Args:
        network: "mlp", or "nature_cnn" for frames [height, width, channels].
        hidden: sizes of the dense layers; ``None`` for the network's own: (64, 64) for mlp, (512,) for nature_cnn.
        activation: of every hidden layer, by Keras' name.
        initializer: of every kernel, by Keras' name.
        double: select the next action with the online network, value it with the target network.
        dueling: split Q into a value and advantages less their "mean" or "max"; ``None`` does not.
        loss: "huber" or "squared".
        optimizer: by Keras' name in lower case.
        learning_rate: a number, or a schedule on ``global_step``.
        target_update_period: updates between two copies of the online network to the target network.
        target_update_rate: instead of copies, the share of the way that the target network goes towards the online
            network at each update. Neither: a copy every 100 updates.
        max_gradient_norm: gradients are scaled down to this global norm; ``None`` leaves them.
        epsilon: probability of a random action: a number, or a schedule on ``global_timestep``.

    Raises:
        ValueError: a value is of the wrong type or out of range; names it.
    """

    network: str = "mlp"
    hidden: tuple[int, ...] | None = None
    activation: str = "relu"
    initializer: str = "glorot_uniform"
    double: bool = True  # van Hasselt et al. 2016
    dueling: str | None = None  # Wang et al. 2016
    loss: str = "huber"  # the error clipping of Mnih et al. 2015
    optimizer: str = "adam"
    learning_rate: ScheduleLike = 1e-3
    target_update_period: int | None = None
    target_update_rate: float | None = None  # Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971
    max_gradient_norm: float | None = 10.0  # Wang et al. 2016, section 4.2
    epsilon: ScheduleLike = DEFAULT_EPSILON

    def __post_init__(self) -> None:
        choice("network", self.network, networks.DEFAULT_UNITS)
        choice("activation", self.activation, networks.ACTIVATIONS)
        choice("initializer", self.initializer, networks.INITIALIZERS)
        choice("loss", self.loss, losses.LOSSES)
        choice("optimizer", self.optimizer, optimizers.OPTIMIZERS)
        if self.hidden is not None:
            object.__setattr__(self, "hidden", layer_sizes("hidden", self.hidden))
        if not isinstance(self.double, bool):
            raise ValueError(f"double must be true or false, got {self.double!r}")
        if self.dueling is not None:
            choice("dueling", self.dueling, losses.DUELING)
        if self.max_gradient_norm is not None:
            number("max_gradient_norm", self.max_gradient_norm, above=0)
        make_schedule(self.learning_rate, "learning_rate", at_least=0)
        make_schedule(self.epsilon, "epsilon", at_least=0, at_most=1)
        self._check_target_update()

    def _check_target_update(self) -> None:
        period, rate = self.target_update_period, self.target_update_rate
        if period is not None and rate is not None:
            raise ValueError(f"give target_update_period or target_update_rate, not both; got {period!r} and {rate!r}")
        if rate is not None:
            number("target_update_rate", rate, above=0, at_most=1)
        else:
            period = DEFAULT_TARGET_UPDATE_PERIOD if period is None else period
            object.__setattr__(self, "target_update_period", integer("target_update_period", period, at_least=1))


class QNetwork:
    """A network from observations to the values of all actions; its variables are created at once.

    Args:
        params: which network.
        config: whose spaces it is for.
        name: prefix of the names of its variables.

    Raises:
        ValueError: the network does not fit the observations.
    """

    def __init__(self, params: DQNParams, config: RunConfig, name: str) -> None:
        self._space = config.observation_space
        self._dueling = params.dueling
        shape = networks.encoded_shape(self._space)
        with keras.name_scope(name):
            self._body = networks.make_network(
                params.network, shape, params.hidden, params.activation, params.initializer
            )
            width = self._body.output_shape[-1]
            head = "q_values" if self._dueling is None else "advantage"
            self._heads = [networks.linear(width, int(_actions(config).n), head, params.initializer)]
            if self._dueling is not None:
                self._heads.append(networks.linear(width, 1, "value", params.initializer))

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation."""
        return [variable for part in (self._body, *self._heads) for variable in part.trainable_variables]

    def __call__(self, observation: Any) -> Tensor:
        """Q values, float32 [B, A]."""
        hidden = self._body(networks.encode(observation, self._space))  # [B, width]
        outputs = [head(hidden) for head in self._heads]  # [B, A], and [B, 1] if dueling
        if self._dueling is None:
            return outputs[0]
        return losses.dueling(value=outputs[1], advantage=outputs[0], baseline=self._dueling)


def model_fn(
    features: Any,
    labels: Any,
    mode: str,
    params: Mapping[str, Any] | DQNParams | None,
    config: RunConfig,
) -> EstimatorSpec:
    """DQN as a ``model_fn``.

    Predictions: ``action`` int32 [B] in the environment's units, ``q_values`` float32 [B, A]. Metrics: ``q_mean`` (of
    the actions taken), ``td_error_mean`` (of absolute values), ``gradient_norm`` (before clipping), ``learning_rate``.

    Args:
        features: observations, tensor [B, ...] or a mapping of such.
        labels: the batch and the counters; ``weight`` [B] is used where the memory is prioritized. None in PREDICT.
        mode: one of ``Modes``.
        params: the values of :class:`DQNParams` that differ from its defaults.
        config: gives the spaces.

    Raises:
        ValueError: the action space is not Discrete, the observations do not fit, or a parameter is wrong.
    """
    params = from_params(DQNParams, params)
    start = int(_actions(config).start)
    online = QNetwork(params, config, "online")  # first in every mode: its variables are PREDICT's
    q_values = online(features)  # [B, A]
    if mode == Modes.PREDICT:
        action = tf.argmax(q_values, axis=-1, output_type=tf.int32) + start  # [B]
        exploration = EpsilonGreedy(params.epsilon, config.action_space)
        return EstimatorSpec(mode, {"action": action, "q_values": q_values}, exploration=exploration)

    target = QNetwork(dataclasses.replace(params, initializer="zeros"), config, "target")
    if mode == Modes.TRAIN:
        period, rate = params.target_update_period, params.target_update_rate
        update_target(online.variables, target.variables, labels["global_step"], period=period, rate=rate)
    action = labels["action"] - start  # [B], 0 .. A - 1
    next_observation = labels["next_observation"]
    transition = (q_values, action, labels["reward"], labels["discount"], target(next_observation))
    if params.double:
        td_error = losses.double_q_learning(*transition, selector_q_values=online(next_observation))  # [B]
    else:
        td_error = losses.q_learning(*transition)  # [B]
    error = losses.LOSSES[params.loss](td_error)  # [B]
    loss = tf.reduce_mean(error * labels["weight"] if "weight" in labels else error)
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=loss)

    metrics = {
        "q_mean": tf.reduce_mean(losses.action_values(q_values, action)),
        "td_error_mean": tf.reduce_mean(tf.abs(td_error)),
        **_minimize(loss, online.variables, labels["global_step"], params),
    }
    return EstimatorSpec(mode, loss=loss, td_error=td_error, metrics=metrics)


def _minimize(loss: Tensor, variables: list[Any], step: Tensor, params: DQNParams) -> dict[str, Tensor]:
    """One step of the optimizer; returns what it did, as metrics."""
    learning_rate = optimizers.learning_rate_at(params.learning_rate, step)
    gradients = tf.gradients(loss, [variable.value for variable in variables])
    gradients, norm = optimizers.clip_by_global_norm(gradients, params.max_gradient_norm)
    optimizers.make_optimizer(params.optimizer, learning_rate).apply(gradients, variables)
    return {"gradient_norm": norm, "learning_rate": learning_rate}


def _actions(config: RunConfig) -> spaces.Discrete[Any]:
    if not isinstance(config.action_space, spaces.Discrete):
        raise ValueError(f"DQN needs a Discrete action space, got {config.action_space!r}")
    return config.action_space
