"""Common parts of Q-learning algorithms: parameters, spaces, networks of action values, and TD errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from ... import explorations
from ...core.protocols import EstimatorSpec, Modes, RunConfig
from ...core.tensorflow_import import tf
from . import losses
from .behaviour import BehaviourParams
from .branches import Branches
from .networks import Network
from .noisy import NoisyNetworkParams
from .observations import MaskParams, Observations
from .optimizers import OptimizerParams
from .params import one_of, optional, param
from .targets import TargetParams
from .train_step import check_transitions

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class QParams(BehaviourParams, MaskParams, TargetParams, OptimizerParams, NoisyNetworkParams):
    """Shared parameters of Q-learning algorithms."""

    dueling: str | None = param(
        None,
        "dueling network: split Q into V and advantages, minus their `mean`, their `max` or nothing (`naive`)",
        optional(one_of(losses.DUELING)),
    )


class ActionValues(Protocol):
    """A network from observations to values of choices."""

    variables: list[Any]


_Values = TypeVar("_Values", bound=ActionValues)


class QTask:
    """The spaces of a Q-learning algorithm as its networks see them.

    Args:
        config: has the spaces.
        mode: PREDICT, TRAIN or EVAL.
        params: parameters of exploration, masks, layers and targets.
        algorithm: for error messages.

    Raises:
        ArgumentError: the action space is neither Discrete nor MultiDiscrete, or the observations do not fit a network.
    """

    def __init__(self, config: RunConfig, mode: str, params: QParams, algorithm: str) -> None:
        self.branches = Branches(config.action_space, algorithm)
        self.observations = Observations(config.observation_space, self.branches.space, params.action_mask)
        self.params, self._mode, self._algorithm = params, mode, algorithm
        self.noisy = params.noisy and mode != Modes.EVAL
        """Whether noisy layers draw noise."""

    def predict(self, features: Any, q_values: Tensor, noisy: Tensor | None, **predictions: Tensor) -> EstimatorSpec:
        """The spec of PREDICT: ``action``, ``q_values``, and ``action_mask`` where observations have a mask.

        Args:
            features: observations.
            q_values: float32 [B, sum of n], without noise.
            noisy: the same with noise, which ``noisy_action`` maximises; None without noisy layers.
            **predictions: further predictions.
        """
        mask = self.observations.mask(features)
        found = {"action": self.branches.greedy(q_values, mask), "q_values": q_values, **predictions}
        if noisy is None:
            exploration = self.params.behaviour(self.branches.space)
        else:
            found["noisy_action"] = self.branches.greedy(noisy, mask)
            exploration = explorations.Noisy()
        return EstimatorSpec(Modes.PREDICT, {**found, **self.observations.masks(features)}, exploration=exploration)

    def target(self, make: Callable[..., _Values], online: ActionValues, labels: Mapping[str, Any]) -> _Values:
        """The target network of ``online``, moved in TRAIN. Call before the loss.

        Raises:
            ArgumentError: the batch does not have single transitions.
        """
        check_transitions(labels, self._algorithm)
        target = make("target", zeros=True)
        self.params.move_target(self._mode, online.variables, target.variables, labels)
        return target

    def mask(self, observation: Any, values: Tensor) -> Tensor | None:
        """Mask of legal choices, bool [B * K, n], for rows of values; None if all are legal."""
        return self.branches.mask(self.observations.mask(observation), values)

    def best(self, values: Tensor, observation: Any) -> Tensor:
        """The best legal choice from 0 in each row of values [B * K, n], int32 [B * K]."""
        return self.branches.best(values, self.observations.mask(observation))


class QNetwork:
    """Network from observations to a value per choice, float32 [B, sum of n], or to several numbers per choice.

    All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        task: inputs of the network, choices that it values, and parameters of the layers.
        outputs: numbers per choice (atoms or quantiles of a distribution): the result is [B, sum of n, outputs].
        head: name of the only head; dueling networks have two others.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(
        self, name: str, task: QTask, *, outputs: int | None = None, head: str = "q_values", zeros: bool = False
    ) -> None:
        observations, sizes, params = task.observations, task.branches.sizes, task.params
        size, count = sum(sizes), outputs or 1
        heads = {head: size * count} if params.dueling is None else {"advantage": size * count, "value": count}
        self._observations, self._sizes = observations, sizes
        self._dueling, self._outputs = params.dueling, outputs
        self.network = Network(name, observations.shape, heads, params, zeros=zeros)
        self.variables = self.network.variables

    def __call__(self, observation: Any, *, noisy: bool = False) -> Tensor:
        """Values of all choices; with new noise in noisy layers if ``noisy``, else with their means."""
        return self.values(self.hidden(observation, noisy=noisy), noisy=noisy)

    def hidden(self, observation: Any, *, noisy: bool = False) -> Tensor:
        """The output of the hidden layers, float32 [B, width]."""
        return self.network.hidden(self._observations.encode(observation), training=noisy)

    def values(self, hidden: Tensor, *, noisy: bool = False) -> Tensor:
        """Values of all choices from the output of :meth:`hidden`."""
        outputs = self.network.heads(hidden, training=noisy)
        if self._outputs is not None:
            outputs = {
                name: tf.reshape(values, [-1, values.shape[1] // self._outputs, self._outputs])
                for name, values in outputs.items()
            }
        return combine(outputs, self._sizes, self._dueling)


def combine(outputs: Mapping[str, Tensor], sizes: Sequence[int], dueling: str | None) -> Tensor:
    """Values float32 [B, sum of n, ...] from the only head, or from ``advantage`` and ``value`` [B, 1, ...].

    Each branch has its own baseline; all share the state's value (Tavakoli et al. 2018, equation 1).
    """
    if dueling is None:
        (values,) = outputs.values()
        return values
    value, advantage = outputs["value"], outputs["advantage"]
    parts = [advantage] if len(sizes) == 1 else tf.split(advantage, list(sizes), axis=1)
    joined = [losses.dueling(value, part, dueling, axis=1) for part in parts]
    return joined[0] if len(joined) == 1 else tf.concat(joined, axis=1)


class QBatch:
    """A batch of transitions with the values of its actions, a row for each branch: [B * K, n].

    Each call of a network draws its own noise.

    Args:
        task: spaces and parameters.
        networks: the online and the target network.
        double: whether the online network selects next actions.
        features: observations.
        labels: the rest of the batch.
    """

    def __init__(
        self, task: QTask, networks: tuple[QNetwork, QNetwork], double: bool, features: Any, labels: Mapping[str, Any]
    ) -> None:
        self._task, (self.online, self.target), self._double = task, networks, double
        self.branches = task.branches
        self.q_values = self.rows(self.online, features)
        self.mask = task.mask(features, self.q_values)
        """Mask of legal choices, bool [B * K, n], or None."""
        self.action = self.branches.from_environment(labels["action"])
        self.prediction = losses.action_values(self.q_values, self.action)
        """Values of the actions taken, [B * K]."""

    def rows(self, network: QNetwork, observation: Any) -> Tensor:
        """Values by a network, [B * K, n]."""
        return self.branches.rows(network(observation, noisy=self._task.noisy))

    def after(self, observation: Any) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Values of the next actions: the target network's, the online network's if it selects, and the mask."""
        q_values = self.rows(self.target, observation)
        selector = self.rows(self.online, observation) if self._double else None
        return q_values, selector, self._task.mask(observation, q_values)

    def td_error(self, reward: Tensor, discount: Tensor, next_value: Tensor, bonus: Tensor | None = None) -> Tensor:
        """The TD errors, [B * K].

        Args:
            reward: [B].
            discount: [B].
            next_value: [B * K]; all branches share the mean of theirs.
            bonus: [B * K], added to rewards, if given.
        """
        spread = self.branches.spread
        reward = spread(reward) if bonus is None else spread(reward) + bonus
        return losses.td_error(self.prediction, reward, spread(discount), spread(self.branches.mean(next_value)))
