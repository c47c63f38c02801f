"""DQN: Q-learning with a neural network, a target network and a replay memory, and its usual refinements.

Sources: Mnih et al. 2015 (https://doi.org/10.1038/nature14236), van Hasselt et al. 2016 (double,
https://arxiv.org/abs/1509.06461), Wang et al. 2016 (dueling, https://arxiv.org/abs/1511.06581), Fortunato et al. 2018
(noisy, https://arxiv.org/abs/1706.10295), Tavakoli et al. 2018 (branches, https://arxiv.org/abs/1711.08946), Vieillard
et al. 2020 (Munchausen, https://arxiv.org/abs/2007.14430), Hester et al. 2018 (DQfD, https://arxiv.org/abs/1704.03732).
Differences from the papers: docs/algorithms/dqn.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks import losses
from .blocks.params import flag, from_params, one_of, param, real
from .blocks.q_networks import QBatch, QNetwork, QParams, QTask
from .blocks.train_step import learning_spec, mean_error


@dataclasses.dataclass(frozen=True, kw_only=True)
class DQNParams(QParams):
    """The parameters of DQN."""

    max_gradient_norm: float | None = 10.0  # Wang et al. 2016, section 4.2
    double: bool = param(True, "the online network selects the next action, the target network values it", flag())
    loss: str = param("huber", "loss function of TD errors", one_of(losses.LOSSES))
    munchausen: float = param(
        0.0,
        "Munchausen's weight of the scaled log-probability added to rewards; 0.9 in the paper; 0 is off",
        real(at_least=0),
    )
    munchausen_temperature: float = param(
        0.03, "temperature of Munchausen's soft policy, in units of values", real(above=0)
    )
    munchausen_floor: float = param(-1.0, "lower bound of Munchausen's scaled log-probability", real(at_most=0))
    margin_weight: float = param(
        0.0, "weight of DQfD's large-margin loss on demonstrations; 1 in the paper; 0 is off", real(at_least=0)
    )
    margin: float = param(0.8, "margin by which the expert's action must be valued above others", real(at_least=0))
    n_step_weight: float = param(
        0.0, "weight of DQfD's n-step loss relative to the 1-step loss; 1 in the paper; 0 is off", real(at_least=0)
    )
    l2: float = param(
        0.0, "weight of half the sum of all squared weights and biases; 1e-5 in DQfD's paper", real(at_least=0)
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | DQNParams | None, config: RunConfig
) -> EstimatorSpec:
    """DQN, for a ReplayMemory.

    Predictions: ``action`` int32 [B] (MultiDiscrete: [B, ...]), ``q_values`` float32 [B, A], A being the sum of a
    MultiDiscrete space's choices, ``noisy_action`` like ``action`` where layers are noisy, and ``action_mask`` bool
    [B, A] where observations have a mask. Metrics: ``q_mean`` (of the actions taken), ``td_error_mean`` (of absolute
    values), ``gradient_norm`` (before clipping), ``learning_rate``.

    Raises:
        ArgumentError: the action space is not supported, the observations do not fit, the memory does not yield single
            transitions, or a parameter is invalid.
    """
    params = from_params(DQNParams, params)
    task = QTask(config, mode, params, "DQN")
    network = partial(QNetwork, task=task)
    online = network("online")
    if mode == Modes.PREDICT:
        noisy_values = online(features, noisy=True) if params.noisy else None
        return task.predict(features, online(features), noisy_values)

    batch = QBatch(task, (online, task.target(network, online, labels)), params.double, features, labels)
    mean, size_of = task.branches.mean, losses.LOSSES[params.loss]

    def td_error_of(reward: Any, discount: Any, next_observation: Any) -> Any:  # [B * K]
        after = batch.after(next_observation)
        if params.munchausen:
            return batch.td_error(reward, discount, *_munchausen(params, batch, features, *after))
        return batch.td_error(reward, discount, losses.next_value(*after))

    td_error = td_error_of(labels["reward"], labels["discount"], labels["next_observation"])
    error = mean(size_of(td_error))  # [B]
    if params.n_step_weight:
        n_step = _labels_for(labels, ("n_step_reward", "n_step_discount", "n_step_next_observation"), "n_step_weight")
        error += params.n_step_weight * mean(size_of(td_error_of(*n_step)))
    if params.margin_weight:
        (demonstration,) = _labels_for(labels, ("demonstration",), "margin_weight")
        margin = losses.large_margin(batch.q_values, batch.action, params.margin, batch.mask)
        error += params.margin_weight * demonstration * mean(margin)
    loss, priority = mean_error(error, labels), task.branches.priority(td_error)
    if params.l2:
        loss += params.l2 * losses.half_square_sum(online.variables)
    metrics = {"q_mean": tf.reduce_mean(batch.prediction), "td_error_mean": tf.reduce_mean(tf.abs(td_error))}
    return learning_spec(mode, loss, online.variables, labels, params, td_error=priority, metrics=metrics)


def _munchausen(
    params: DQNParams, batch: QBatch, features: Any, next_q_values: Any, selector: Any, next_mask: Any
) -> tuple[Any, Any]:
    """The soft values of next observations, and the bonus added to rewards, [B * K] each (Vieillard et al. 2020)."""
    temperature, floor = params.munchausen_temperature, params.munchausen_floor
    own = batch.q_values if params.double else batch.rows(batch.target, features)
    bonus = params.munchausen * losses.munchausen_bonus(own, batch.action, temperature, floor, batch.mask)
    policy = next_q_values if selector is None else selector
    return losses.soft_value(next_q_values, policy, temperature, next_mask), bonus


def _labels_for(labels: Mapping[str, Any], names: Sequence[str], param: str) -> list[Any]:
    """Labels that a DemonstrationMemory adds; ArgumentError naming the parameter if they are missing."""
    if missing := [name for name in names if name not in labels]:
        message = f"{param} needs batches with {', '.join(missing)}: use a DemonstrationMemory"
        raise ArgumentError(message + (", with n_step > 1" if len(names) > 1 else ""), param)
    return [labels[name] for name in names]
