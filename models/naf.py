"""NAF: Q-learning for continuous actions, with an advantage that is quadratic in the action.

Source: Gu et al. 2016, https://arxiv.org/abs/1603.00748, section 4. Differences from the paper:
docs/algorithms/naf.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks import losses
from .blocks.behaviour import NoiseParams
from .blocks.box_actions import SquashedBox
from .blocks.networks import DenseParams, Network
from .blocks.observations import Observations
from .blocks.optimizers import OptimizerParams
from .blocks.params import from_params, param, real
from .blocks.targets import update_target
from .blocks.train_step import check_transitions, learning_spec, mean_error

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class NAFParams(NoiseParams, OptimizerParams, DenseParams):
    """The parameters of NAF."""

    paper_update_frequency: ClassVar[int | None] = 1

    max_gradient_norm: float | None = 10.0
    target_update_rate: float = param(
        0.005,
        "tau of soft target updates: share of the way to the online network in each update",
        real(above=0, at_most=1),
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | NAFParams | None, config: RunConfig
) -> EstimatorSpec:
    """NAF, for a ReplayMemory.

    Predictions: ``action`` float32 [B, ...] (mu, which maximises Q) and ``value`` float32 [B] (V, which is Q there).
    Metrics: ``q_mean`` (of the actions taken), ``value_mean``, ``td_error_mean`` (of absolute values),
    ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not a bounded Box of floats, the observations do not fit, the memory does not
            yield single transitions, or a parameter is invalid.
    """
    params = from_params(NAFParams, params)
    actions = SquashedBox(config.action_space, "NAF")
    observations = Observations(config.observation_space, actions.space)
    online = _Quadratic("online", actions.num_outputs, params, observations)
    if mode == Modes.PREDICT:
        outputs = online(features)
        predictions = {"action": actions.to_environment(outputs["mu"]), "value": outputs["value"]}
        return EstimatorSpec(mode, predictions, exploration=params.behaviour(actions.space))

    check_transitions(labels, "NAF")
    outputs = online(features)
    target = _Quadratic("target", actions.num_outputs, params, observations, zeros=True)
    if mode == Modes.TRAIN:
        rate = params.target_update_rate
        update_target(online.variables, target.variables, labels["global_step"], period=None, rate=rate)
    # The action that the environment took: noise may exceed the bounds.
    action = tf.clip_by_value(actions.from_environment(labels["action"]), -1.0, 1.0)  # [B, D]
    q_value = outputs["value"] + advantage(action - outputs["mu"], outputs["diagonal"], outputs.get("below"))
    next_value = target(labels["next_observation"])["value"]  # [B]
    td_error = tf.stop_gradient(labels["reward"] + labels["discount"] * next_value) - q_value  # [B]
    metrics = {
        "q_mean": tf.reduce_mean(q_value),
        "value_mean": tf.reduce_mean(outputs["value"]),
        "td_error_mean": tf.reduce_mean(tf.abs(td_error)),
    }
    loss = mean_error(losses.squared(td_error), labels)
    return learning_spec(mode, loss, online.variables, labels, params, td_error=td_error, metrics=metrics)


def advantage(distance: Tensor, diagonal: Tensor, below: Tensor | None) -> Tensor:
    """The advantage ``A = -1/2 (u - mu)^T P (u - mu)``, where ``P = L L^T``: ``-1/2 |L^T (u - mu)|^2``.

    L is lower-triangular with the diagonal ``exp(diagonal)``, so that P is positive definite, and A is 0 at mu and
    negative elsewhere.

    Args:
        distance: u - mu, float [B, D].
        diagonal: float [B, D].
        below: the entries of L below its diagonal, row by row, float [B, D (D - 1) / 2]; None where D is 1.

    Returns:
        float [B].
    """
    product = tf.exp(diagonal) * distance  # [B, D], of L^T with the distance
    if below is not None:
        rows, columns = np.tril_indices(int(distance.shape[-1]), -1)
        identity = np.eye(int(distance.shape[-1]), dtype=np.float32)
        # Entry L[i, j] maps component i of the distance to j of the product; constant matrices select the components.
        product += tf.matmul(below * tf.matmul(distance, identity[:, rows]), identity[columns])
    return -0.5 * tf.reduce_sum(tf.square(product), axis=-1)


class _Quadratic:
    """Network from observations to the terms of Q: ``value`` [B], ``mu`` in -1 .. 1 and the entries of L [B, ...]."""

    def __init__(
        self, name: str, size: int, params: NAFParams, observations: Observations, *, zeros: bool = False
    ) -> None:
        heads = {"value": 1, "mu": size, "diagonal": size, "below": size * (size - 1) // 2}
        heads = {head: outputs for head, outputs in heads.items() if outputs}
        self._observations = observations
        self._network = Network(name, observations.shape, heads, params, zeros=zeros)
        self.variables = self._network.variables

    def __call__(self, observation: Any) -> dict[str, Tensor]:
        outputs = self._network(self._observations.encode(observation))
        return {**outputs, "value": tf.squeeze(outputs["value"], axis=-1), "mu": tf.tanh(outputs["mu"])}
