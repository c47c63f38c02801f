"""Soft actor-critic learning: the common part of SAC and the algorithms based on it.

Source: Haarnoja et al. 2018b, https://arxiv.org/abs/1812.05905; numbers of equations are this paper's.

Shapes in comments: B is the batch (of sequences: L * B timesteps), O the size of an encoded observation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeAlias

from ...core.protocols import EstimatorSpec, Modes, RunConfig
from ...core.schedules import ScheduleLike
from ...core.tensorflow_import import tf
from .behaviour import WarmUpParams
from .box_actions import flat
from .critics import Critics, critics_loss
from .encoders import Sight
from .lstm import State
from .networks import DenseParams
from .observations import MaskParams, Observations
from .optimizers import OptimizerParams, learning_rate_at, make_optimizer
from .params import integer, param, real, sizes
from .recurrent import Sequences
from .returns import n_step_returns
from .rollouts import rows
from .soft_policies import SoftPolicy
from .targets import update_target
from .temperature import Temperature, TemperatureParams
from .train_step import check_transitions, gradient_steps, minimize

Tensor: TypeAlias = Any
Batch: TypeAlias = "Mapping[str, Any]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftTaskParams(WarmUpParams, MaskParams):
    """The parameters of a :class:`SoftTask`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftParams(TemperatureParams, SoftTaskParams, OptimizerParams, DenseParams):
    """Shared parameters of soft actor-critics. Actor, critics and temperature each have an optimizer."""

    paper_update_frequency: ClassVar[int | None] = 1

    hidden: Sequence[int] = param((256, 256), "sizes of the dense layers of the actor and of each critic", sizes())
    learning_rate: ScheduleLike = 3e-4  # table 1; so are the other defaults
    target_update_rate: float = param(
        0.005,
        "tau of soft target updates: share of the way to the critics that targets move in each gradient step",
        real(above=0, at_most=1),
    )
    updates: int = param(1, "gradient steps in one update, each on an equal part of the batch", integer(at_least=1))


def lowest(values: Sequence[Tensor], batch: Batch) -> Tensor:
    """The smaller value of two critics (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477, section 4.2)."""
    return tf.minimum(*values)


def one_step(batch: Batch, next_value: Tensor) -> Tensor:
    """Returns [..., B] from values [..., B] after the actions; equation 2. For n-step transitions, n-step returns."""
    return batch["reward"] + batch["discount"] * next_value


def within_sequences(n_step: int, batch: Batch, next_value: Tensor) -> Tensor:
    """Returns [L * B] over up to n timesteps within each of the ``sequences``."""
    found = batch["sequences"]
    reward, discount, truncated = found["reward"], found["discount"], found["truncated"]  # [L, B]
    return rows(n_step_returns(reward, discount, truncated, tf.reshape(next_value, reward.shape), n_step))


@dataclasses.dataclass(frozen=True)
class SoftActorCritic:
    """The networks and their losses.

    Args:
        policy: the actor.
        critics: the trained critics.
        targets: follow the critics.
        temperature: weight of the entropy.
        params: parameters of learning.
        target_value: from each target critic's values of next actions, and the batch, to the values used in targets.
        policy_value: from each critic's values, and the batch, to the values that the policy maximises.
        returns: from the batch and the values after its actions to returns, through which no gradient flows.
        error: from returns, each critic's values of the batch's actions, and the batch, to the critics' loss and the
            TD errors [B].
        penalty: from the batch and each critic's values [B] of its actions to a further term of their loss, and
            scalars.
        sight: encoder for policy and critics; its variables are trained by the critics' loss.
        target_sight: encoder for the targets.
    """

    policy: SoftPolicy
    critics: Critics
    targets: Critics
    temperature: Temperature
    params: SoftParams
    target_value: Callable[[Sequence[Tensor], Batch], Tensor] = lowest
    policy_value: Callable[[Sequence[Tensor], Batch], Tensor] = lowest
    returns: Callable[[Batch, Tensor], Tensor] = one_step
    error: Callable[[Tensor, Sequence[Tensor], Batch], tuple[Tensor, Tensor]] = critics_loss
    penalty: Callable[[Batch, Sequence[Tensor]], tuple[Tensor, dict[str, Tensor]]] | None = None
    sight: Sight = Sight()
    target_sight: Sight = Sight()

    def spec(self, mode: str, batch: Batch, labels: Mapping[str, Any]) -> EstimatorSpec:
        """The critics' loss in EVAL; all gradient steps of an update in TRAIN, and the means of their scalars.

        Args:
            mode: EVAL or TRAIN.
            batch: from :meth:`SoftTask.transitions` or :meth:`SoftTask.sequences`.
            labels: have ``global_step`` and ``progress``.

        Raises:
            ArgumentError: the number of gradient steps does not divide the batch.
        """
        if mode == Modes.EVAL:
            return EstimatorSpec(mode, loss=self.critic_loss(batch)[0])
        learning_rate, optimizers = self.optimizers(labels)

        def learn(part: Batch, i: int) -> tuple[Tensor, dict[str, Tensor]]:
            # Target critics become copies at gradient step 0, which only the first part of a batch can have.
            td_error, of_critics = self.train_critics(part, labels["global_step"] + i, optimizers[0])
            return td_error, {**of_critics, **self.train_policy(part, *optimizers[1:])}

        td_error, metrics = gradient_steps(learn, batch, self.params.updates)
        metrics["learning_rate"] = learning_rate
        return EstimatorSpec(mode, loss=metrics.pop("critic_loss"), td_error=td_error, metrics=metrics)

    def optimizers(self, labels: Mapping[str, Any]) -> tuple[Tensor, list[Any]]:
        """The learning rate, and the optimizers of critics, policy and temperature."""
        learning_rate = learning_rate_at(self.params.learning_rate, labels)
        kind, epsilon = self.params.optimizer, self.params.optimizer_epsilon
        return learning_rate, [make_optimizer(kind, learning_rate, epsilon) for _ in range(3)]

    def critic_loss(self, batch: Batch) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The loss of all critics (equation 5), their mean TD error [B], and scalars: ``q_mean``."""
        (seen, next_seen), (_, target_seen) = self.sight.of(batch), self.target_sight.of(batch)
        next_value, next_log_prob = self.policy.expectations(
            next_seen,
            lambda action: self.target_value(self.targets(target_seen, action), batch),
            batch.get("next_noise"),
            batch.get("next_mask"),
        )
        next_value -= self.temperature() * next_log_prob  # equation 3
        q_values = self.policy.action_values(partial(self.critics, seen), batch["action"])
        loss, td_error = self.error(self.returns(batch, next_value), q_values, batch)
        scalars = {"q_mean": _mean(tf.add_n(q_values), batch) / len(q_values)}
        if self.penalty is not None:
            penalty, further = self.penalty(batch, q_values)
            loss, scalars = loss + penalty, scalars | further
        return loss, td_error, scalars

    def train_critics(self, batch: Batch, step: Tensor, optimizer: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Move the targets, and train the critics for one step.

        Args:
            batch: from :meth:`SoftTask.transitions` or :meth:`SoftTask.sequences`.
            step: gradient steps of the critics before this one, int64 scalar.
            optimizer: the critics' optimizer.

        Returns:
            The mean TD error [B] of all critics, and scalars: ``critic_loss`` and those of :meth:`critic_loss`; with
            gradient clipping also ``critic_gradient_norm``.
        """
        rate, max_norm = self.params.target_update_rate, self.params.max_gradient_norm
        variables = [*self.sight.variables, *self.critics.variables]
        target_variables = [*self.target_sight.variables, *self.targets.variables]
        update_target(variables, target_variables, step, period=None, rate=rate)
        loss, td_error, scalars = self.critic_loss(batch)
        norm = minimize(loss, variables, optimizer, max_norm)
        scalars = {"critic_loss": loss, **scalars}
        return td_error, {**scalars, **({} if max_norm is None else {"critic_gradient_norm": norm})}

    def train_policy(self, batch: Batch, optimizer: Any, temperature_optimizer: Any) -> dict[str, Tensor]:
        """Train the policy for one step on the current critics, then the temperature.

        Returns:
            the scalars ``actor_loss``, ``temperature`` (before the step), ``entropy`` and, with gradient clipping,
            ``actor_gradient_norm``.
        """
        temperature, max_norm, mask = self.temperature(), self.params.max_gradient_norm, batch.get("mask")
        seen, _ = self.sight.of(batch)
        value, log_prob = self.policy.expectations(
            seen,
            lambda action: self.policy_value(self.critics(seen, action), batch),
            batch.get("noise"),
            mask,
        )
        loss = _mean(temperature * log_prob - value, batch)  # equation 7
        norm = minimize(loss, self.policy.variables, optimizer, max_norm)
        entropy = -_mean(log_prob, batch)
        target = self.params.target_entropy
        wanted = self.policy.target_entropy(mask) if isinstance(target, str) else target
        wanted = wanted if isinstance(wanted, float) else _mean(wanted, batch)
        self.temperature.follow(entropy, wanted, temperature_optimizer)
        scalars = {"actor_loss": loss, "temperature": temperature, "entropy": entropy}
        return {**scalars, **({} if max_norm is None else {"actor_gradient_norm": norm})}


class SoftTask:
    """The spaces as the networks see them.

    Args:
        config: has the spaces.
        params: name the mask of legal actions, and say how long actions are random.
        algorithm: for error messages.

    Raises:
        ArgumentError: the observations do not fit a network, or the mask does not fit the actions.
    """

    def __init__(self, config: RunConfig, params: SoftTaskParams, algorithm: str) -> None:
        self._actions, self._params = config.action_space, params
        self._observations = Observations(config.observation_space, config.action_space, params.action_mask)
        self._algorithm = algorithm
        self.size = math.prod(self._observations.shape)
        """Size of an encoded observation, O."""

    def encode(self, observation: Any) -> Tensor:
        """float32 [B, O]."""
        return flat(self._observations.encode(observation))

    def predict(self, policy: SoftPolicy, observation: Any, seen: Tensor, state: State | None = None) -> EstimatorSpec:
        """The spec of PREDICT, from observations and the policy's input."""
        predictions = policy.predictions(seen, self._observations.masks(observation))
        exploration = self._params.after_warm_up(policy.exploration(), self._actions)
        return EstimatorSpec(Modes.PREDICT, predictions, exploration=exploration, state=state)

    def transitions(self, features: Any, labels: Mapping[str, Any], policy: SoftPolicy) -> dict[str, Tensor]:
        """The batch of a ReplayMemory: observations [B, O], masks [B, A] (1: legal), the policy's batch, the rest [B].

        Raises:
            ArgumentError: the batch does not have single transitions.
        """
        check_transitions(labels, self._algorithm)
        following = labels["next_observation"]
        batch = {
            "observation": self.encode(features),
            "next_observation": self.encode(following),
            **policy.batch(labels["action"]),
        }
        for name, observation in (("mask", features), ("next_mask", following)):
            if (mask := self._observations.mask(observation)) is not None:
                batch[name] = tf.cast(mask, tf.float32)  # LiteRT does not split bools
        return batch | {name: labels[name] for name in ("reward", "discount", "weight") if name in labels}

    def sequences(self, features: Any, labels: Mapping[str, Any], policy: SoftPolicy) -> dict[str, Any]:
        """The batch of a SequenceMemory, as rows [L * B, ...] of all its timesteps after burn-in.

        It has the keys of :meth:`transitions`, but ``sequences`` and ``observations`` [burn_in + L + 1, B, O] instead
        of single observations. ``share`` [L * B] is a row's weight in means, 0 for padding; it is a factor of
        ``weight`` too.

        Raises:
            ArgumentError: the batch does not have sequences.
        """
        found = Sequences(features, labels, f"{self._algorithm} with an LSTM")
        observed = rows(found.observations())
        count, valid = found["reward"].shape[1], labels["valid"]
        share = valid * (math.prod(valid.shape) / tf.reduce_sum(valid))  # [L, B]
        batch = {
            "sequences": found,
            "observations": tf.reshape(self.encode(observed), [-1, count, self.size]),
            **policy.batch(rows(found["action"])),
            **{name: rows(found[name]) for name in ("reward", "discount")},
            "share": rows(share),
            "weight": rows(share * labels.get("weight", 1.0)),
        }
        if (mask := self._observations.mask(observed)) is not None:
            masks = tf.reshape(tf.cast(mask, tf.float32), [-1, count, mask.shape[-1]])[found.burn_in :]  # [L + 1, B, A]
            batch |= {"mask": rows(masks[:-1]), "next_mask": rows(masks[1:])}
        return batch


def _mean(values: Tensor, batch: Batch) -> Tensor:
    """The mean of values [B], without padding."""
    return tf.reduce_mean(values * batch["share"] if "share" in batch else values)
