"""BC: behaviour cloning. The policy maximises the likelihood of an expert's actions.

Sources: Pomerleau 1991, "Efficient training of artificial neural networks for autonomous navigation"
(https://doi.org/10.1162/neco.1991.3.1.88); as maximum likelihood of a stochastic policy e.g. Ross and Bagnell 2010
(http://proceedings.mlr.press/v9/ross10a.html). Differences from them: docs/algorithms/bc.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks.actor_critic import ActorCritic
from .blocks.actor_critic_params import ImitationParams
from .blocks.box_actions import LOG_STD_BOUNDS
from .blocks.params import from_params
from .blocks.train_step import check_transitions, learning_spec, mean_error

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class BCParams(ImitationParams):
    """The parameters of behaviour cloning. The network is PPO's policy, so that PPO can start from its weights."""


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | BCParams | None, config: RunConfig
) -> EstimatorSpec:
    """Behaviour cloning, for a ReplayMemory that holds an expert's transitions.

    Predictions are those of PPO's policy: ``action`` (the likeliest), and ``logits`` float32 [B, A] for Discrete and
    MultiDiscrete actions, [B, ...] for MultiBinary ones, ``mean`` and ``log_std`` float32 [B, ...] for Boxes, and for a
    Dict or a Tuple one set per leaf, such as ``logits/left/arm``; ``action_mask`` bool [B, A] where observations have a
    mask. ``td_error`` is the negative log-probability. Metrics of TRAIN and EVAL: ``entropy``; ``accuracy``, the share
    of choices (bits, for MultiBinary actions) that equal the policy's likeliest; for Boxes ``squared_error`` of the
    likeliest action, the mean over components in the environment's units, or in -1 .. 1 if squashed.

    Raises:
        ArgumentError: the spaces do not fit, the memory does not yield single transitions, or a parameter is invalid.
    """
    params = from_params(BCParams, params)
    # Without a lower bound, log_std would fall without limit if the expert always acts the same.
    policy = ActorCritic(config, params, "BC", values=(), least_log_std=LOG_STD_BOUNDS[0])
    if mode == Modes.PREDICT:
        return policy.predict(features, record=())

    check_transitions(labels, "BC")
    action = policy.actions.from_environment(labels["action"])
    distribution = policy.distribution({"observation": features})
    error = -distribution.log_prob(action)  # [B]
    loss = mean_error(error, labels)
    metrics = {"entropy": tf.reduce_mean(distribution.entropy()), **_agreement(distribution.mode(), action)}
    if mode == Modes.EVAL:
        return EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    return learning_spec(mode, loss, policy.variables, labels, params, td_error=error, metrics=metrics)


def _agreement(mode: Any, action: Any) -> dict[str, Tensor]:
    """Agreement of likeliest actions with those taken: share of equal choices or bits, squared error of numbers."""
    leaves = [(mode[name], action[name]) for name in mode] if isinstance(mode, Mapping) else [(mode, action)]
    errors: dict[str, list[Tensor]] = {}
    for likeliest, taken in leaves:
        if likeliest.dtype == tf.float32:
            errors.setdefault("squared_error", []).append(tf.reduce_mean(tf.square(likeliest - taken)))
        else:
            equal = tf.equal(tf.cast(likeliest, tf.float32), tf.cast(taken, tf.float32))
            errors.setdefault("accuracy", []).append(tf.reduce_mean(tf.cast(equal, tf.float32)))
    return {name: tf.add_n(each) / len(each) for name, each in errors.items()}
