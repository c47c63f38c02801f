"""Shared by Q-learning algorithms: parameters, networks of action values, and the spec of PREDICT."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from ... import explorations
from ...core.protocols import EstimatorSpec, Modes
from . import losses
from .behaviour import BehaviourParams
from .branches import Branches
from .networks import Network
from .noisy import NoisyNetworkParams
from .observations import MaskParams, Observations
from .optimizers import OptimizerParams
from .params import one_of, optional, param
from .targets import TargetParams

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class QParams(BehaviourParams, MaskParams, TargetParams, OptimizerParams, NoisyNetworkParams):
    """Shared parameters of Q-learning algorithms."""

    dueling: str | None = param(
        None,
        "split values into a state's and advantages, less their mean, their maximum or nothing",
        optional(one_of(losses.DUELING)),
    )


class QNetwork:
    """Network from observations to a value per choice, float32 [B, sum of n], or to several numbers per choice.

    All variables are created at once.

    Args:
        name: prefix of the names of the variables.
        observations: inputs of the network.
        branches: choices that it values.
        params: parameters of the layers.
        outputs: numbers per choice (atoms or quantiles of a distribution): the result is [B, sum of n, outputs].
        head: name of the only head, which dueling networks do not have.
        zeros: whether kernels start at zero, for targets.
    """

    def __init__(
        self,
        name: str,
        observations: Observations,
        branches: Branches,
        params: QParams,
        *,
        outputs: int | None = None,
        head: str = "q_values",
        zeros: bool = False,
    ) -> None:
        size, count = sum(branches.sizes), outputs or 1
        heads = {head: size * count} if params.dueling is None else {"advantage": size * count, "value": count}
        self._observations, self._sizes = observations, branches.sizes
        self._dueling, self._outputs = params.dueling, outputs
        self.network = Network(name, observations.shape, heads, params, zeros=zeros)
        self.variables = self.network.variables

    def __call__(self, observation: Any, *, noisy: bool = False) -> Tensor:
        """Values of all choices; with new noise in noisy layers if ``noisy``, else with their means."""
        return self.values(self.hidden(observation, noisy=noisy), noisy=noisy)

    def hidden(self, observation: Any, *, noisy: bool = False) -> Tensor:
        """The output of the hidden layers, float32 [B, width]."""
        return self.network.hidden(self._observations.encode(observation), noisy=noisy)

    def values(self, hidden: Tensor, *, noisy: bool = False) -> Tensor:
        """Values of all choices from the output of :meth:`hidden`."""
        outputs = self.network.heads(hidden, noisy=noisy)
        if self._outputs is not None:
            outputs = {
                name: tf.reshape(values, [-1, values.shape[1] // self._outputs, self._outputs])
                for name, values in outputs.items()
            }
        return combined(outputs, self._sizes, self._dueling)


def combined(outputs: Mapping[str, Tensor], sizes: Sequence[int], dueling: str | None) -> Tensor:
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


def predict_spec(
    q_values: Tensor,
    noisy_q_values: Tensor | None,
    features: Any,
    branches: Branches,
    observations: Observations,
    params: QParams,
    **predictions: Tensor,
) -> EstimatorSpec:
    """The spec of PREDICT: ``action``, ``q_values``, and ``action_mask`` where observations have a mask.

    Args:
        q_values: float32 [B, sum of n], without noise.
        noisy_q_values: the same with noise, which ``noisy_action`` explores; None without noisy layers.
        features: observations.
        branches: choices that are valued.
        observations: encoding, with the mask.
        params: parameters of exploration.
        **predictions: further predictions.
    """
    mask = observations.mask(features)
    found = {"action": branches.greedy(q_values, mask), "q_values": q_values, **predictions}
    if noisy_q_values is None:
        exploration = params.behaviour(branches.space)
    else:
        found["noisy_action"] = branches.greedy(noisy_q_values, mask)
        exploration = explorations.Noisy()
    return EstimatorSpec(Modes.PREDICT, {**found, **observations.masks(features)}, exploration=exploration)
