"""IQL: implicit Q-learning from recorded episodes, without evaluating actions that are not in them.

Source: Kostrikov, Nair and Levine 2021 (https://arxiv.org/abs/2110.06169), section 4, whose equations are cited below.
Differences from the paper: docs/algorithms/iql.md.

Shapes in comments: B is the batch, A the components of an action or the number of Discrete ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from gymnasium import spaces

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.schedules import ScheduleLike
from ..core.tensorflow_import import tf
from ..explorations.squashed import is_bounded_box
from .blocks import losses
from .blocks.actions import Discrete
from .blocks.actor_critic import ActorCritic
from .blocks.actor_critic_params import ImitationParams
from .blocks.box_actions import SquashedBox, flat
from .blocks.critics import TwinCritics, critics_loss
from .blocks.input_tensors import JoinedShape
from .blocks.networks import Network
from .blocks.observations import Observations
from .blocks.optimizers import learning_rate_at, make_optimizer
from .blocks.params import from_params, param, real, sizes
from .blocks.targets import update_target
from .blocks.train_step import check_transitions, mean_error, minimize

Tensor: TypeAlias = Any
LEAST_LOG_STD = -5.0
"""Lower bound of the policy's log standard deviation, from the authors' code."""
LARGEST_WEIGHT = 100.0
"""Largest weight of an imitated action, from the authors' code."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class IQLParams(ImitationParams):
    """The parameters of IQL. Policy, value and critics each have an optimizer. Defaults are the paper's for MuJoCo."""

    hidden: Sequence[int] | None = param((256, 256), "sizes of the dense layers of each network", sizes())
    activation: str = "relu"
    learning_rate: ScheduleLike = 3e-4
    log_std: float = param(
        0.0,
        "initial log standard deviation of Box actions: in the environment's units, or before squashing; -5 is the"
        " policy's lower bound",
        real(at_least=LEAST_LOG_STD, at_most=20),
    )
    expectile: float = param(
        0.7,
        "tau: at 0.5, V is the mean value of the data's actions; towards 1, their highest value",
        real(at_least=0, at_most=1),
    )
    inverse_temperature: float = param(
        3.0, "beta: 0 imitates all actions equally; higher values favour better ones", real(at_least=0)
    )
    target_update_rate: float = param(
        0.005,
        "tau of soft target updates: share of the way to the critics that targets move in each update",
        real(above=0, at_most=1),
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | IQLParams | None, config: RunConfig
) -> EstimatorSpec:
    """IQL, for a ReplayMemory filled in advance.

    Predictions are those of PPO's policy: ``action`` (the likeliest), and ``logits`` float32 [B, A] for Discrete
    actions, ``mean`` and ``log_std`` float32 [B, ...] for a Box; ``action_mask`` bool [B, A] where observations have a
    mask. ``loss`` is the critics' loss, ``td_error`` their mean TD error. Metrics: ``value_loss``, ``actor_loss``,
    ``q_mean`` (of both critics, of the data's actions), ``learning_rate``; with gradient clipping also
    ``value_gradient_norm``, ``actor_gradient_norm`` and ``critic_gradient_norm`` (before clipping).

    Raises:
        ArgumentError: the action space is neither a bounded Box of floats nor Discrete, the observations do not fit,
            the memory does not yield single transitions, or a parameter is invalid.
    """
    params = from_params(IQLParams, params)
    space = _check_action_space(config.action_space)
    policy = ActorCritic(config, params, "IQL", values=(), least_log_std=LEAST_LOG_STD)
    if mode == Modes.PREDICT:
        return policy.predict(features, record=())

    check_transitions(labels, "IQL")
    observations = Observations(config.observation_space, space, params.action_mask)
    critics, targets, value = networks = _networks(observations.shape, space, params)
    seen, next_seen = (observations.encode(each) for each in (features, labels["next_observation"]))
    action = _critic_action(space, labels["action"])
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=networks.critic_loss(seen, action, next_seen, labels)[0])

    rate, step = params.target_update_rate, labels["global_step"]
    update_target(critics.variables, targets.variables, step, period=None, rate=rate)
    train = _Training(labels, params)
    target_value = tf.stop_gradient(tf.minimum(*targets(flat(seen), action)))
    error = losses.expectile(target_value - networks.values(seen), params.expectile)  # equation 5
    value_loss = train.step("value", mean_error(error, labels), value.variables)
    advantage = target_value - networks.values(seen)  # after the value's step
    weight = tf.minimum(tf.exp(params.inverse_temperature * advantage), LARGEST_WEIGHT)
    distribution = policy.distribution({"observation": features})
    log_prob = distribution.log_prob(policy.actions.from_environment(labels["action"]))
    error = -tf.stop_gradient(weight) * log_prob  # equation 7
    actor_loss = train.step("actor", mean_error(error, labels), policy.variables)
    loss, td_error, q_mean = networks.critic_loss(seen, action, next_seen, labels)
    train.step("critic", loss, critics.variables)
    metrics = {"value_loss": value_loss, "actor_loss": actor_loss, "q_mean": q_mean, **train.metrics}
    return EstimatorSpec(mode, loss=loss, td_error=td_error, metrics=metrics)


class _Networks(NamedTuple):
    """The critics, their targets, and the value."""

    critics: TwinCritics
    targets: TwinCritics
    value: Network

    def values(self, observation: Tensor) -> Tensor:
        """Values of encoded observations [B, ...], float32 [B]."""
        return self.value(observation)["value"][:, 0]

    def critic_loss(
        self, seen: Tensor, action: Tensor, next_seen: Tensor, labels: Mapping[str, Any]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The critics' loss (equation 6), their mean TD error [B], and their mean value."""
        q_values = self.critics(flat(seen), action)
        target = labels["reward"] + labels["discount"] * self.values(next_seen)
        return *critics_loss(target, q_values, labels), tf.reduce_mean(tf.add_n(q_values)) / 2


def _check_action_space(space: Any) -> spaces.Discrete | spaces.Box:
    """The action space; ``ArgumentError`` if IQL cannot act in it."""
    if isinstance(space, spaces.Discrete) or (isinstance(space, spaces.Box) and is_bounded_box(space)):
        return space
    message = f"IQL needs a bounded Box of floats or a Discrete space as action space, got {space!r}"
    raise ArgumentError(message, "action_space", space)


def _networks(seen: tuple[int, ...], space: spaces.Space[Any], params: IQLParams) -> _Networks:
    """The networks for encoded observations of a shape. Critics join actions to them, as parts of a Dict are joined."""
    action = (int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape or ()),)
    shape = JoinedShape.of([seen, action])
    critics = TwinCritics("critic", shape, params)
    targets = TwinCritics("target", shape, params, zeros=True)
    return _Networks(critics, targets, Network("value", seen, {"value": 1}, params))


def _critic_action(space: spaces.Space[Any], action: Tensor) -> Tensor:
    """Actions as an input of critics, float32 [B, A]: one-hot, or in -1 .. 1."""
    if isinstance(space, spaces.Discrete):
        return tf.one_hot(Discrete(space, "IQL").from_environment(action), int(space.n))
    return SquashedBox(space, "IQL").from_environment(action)


class _Training:
    """The steps of an update, each with its own optimizer, and their metrics."""

    def __init__(self, labels: Mapping[str, Any], params: IQLParams) -> None:
        self._params = params
        self.metrics = {"learning_rate": learning_rate_at(params.learning_rate, labels)}

    def step(self, name: str, loss: Tensor, variables: Sequence[Any]) -> Tensor:
        """One step of an optimizer on a loss; returns the loss."""
        params = self._params
        optimizer = make_optimizer(params.optimizer, self.metrics["learning_rate"], params.optimizer_epsilon)
        norm = minimize(loss, variables, optimizer, params.max_gradient_norm)
        if params.max_gradient_norm is not None:
            self.metrics[f"{name}_gradient_norm"] = norm
        return loss
