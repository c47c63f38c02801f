"""TRPO: trust region policy optimisation.

Source: Schulman et al. 2015 (https://arxiv.org/abs/1502.05477), with advantages by Schulman et al. 2016
(https://arxiv.org/abs/1506.02438). Differences from the papers: docs/algorithms/trpo.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks import trust_region
from .blocks.actor_critic import ActorCritic
from .blocks.distributions import Distribution
from .blocks.optimizers import learning_rate_at
from .blocks.params import from_params, integer, param, real
from .blocks.rollouts import normalize
from .blocks.value_fit import ValueFittingParams, fit_value, value_loss

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class TRPOParams(ValueFittingParams):
    """The parameters of TRPO. The optimizer is the value's: the policy needs none."""

    max_gradient_norm: float | None = None
    max_kl: float = param(
        0.01, "largest mean KL divergence of the new policy from the one that acted, in nats", real(above=0)
    )
    cg_iterations: int = param(10, "maximum number of conjugate gradient iterations", integer(at_least=1))
    damping: float = param(0.1, "added to the diagonal of the Fisher information matrix", real(at_least=0))
    line_search_steps: int = param(10, "maximum number of step sizes to try", integer(at_least=1))
    line_search_shrink: float = param(0.8, "ratio of a step size to the previous one", real(above=0, at_most=1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation == "softsign":
            message = "TRPO needs second derivatives, which TensorFlow lacks for softsign"
            raise ArgumentError(f"{message}: choose another activation, such as tanh", "activation", self.activation)


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | TRPOParams | None, config: RunConfig
) -> EstimatorSpec:
    """TRPO, for a BatchMemory.

    Predictions and recurrent state are those of PPO. Metrics: ``policy_loss`` (minus the gain of the surrogate
    objective), ``kl`` (of the policy after the step from the one before), ``step_fraction`` (of the longest step; 0 if
    the line search found none, which leaves the policy unchanged), ``entropy`` (before the step),
    ``value_loss`` (the mean over the steps of the value's optimizer), ``explained_variance`` (of the returns, by the
    recorded values), ``advantage_std`` (before normalisation), ``learning_rate``.

    Raises:
        ArgumentError: the spaces do not fit, the minibatches do not divide the rollout, the memory does not yield
            rollouts, or a parameter is invalid.
    """
    params = from_params(TRPOParams, params)
    network = ActorCritic(config, params, "TRPO", params.sequence_length)
    if mode == Modes.PREDICT:
        return network.predict(features, record=("value",))

    rollout = network.rollout(features, labels, params.gae_lambda)
    if mode == Modes.EVAL:
        loss = value_loss(network, rollout)
        entropy = tf.reduce_mean(network.distribution(rollout).entropy())
        return EstimatorSpec(mode, loss=loss, eval_metric_ops={"value_loss": loss, "entropy": entropy})

    spread = tf.math.reduce_std(rollout["advantage"])
    if params.normalize_advantages:
        rollout["advantage"] = normalize(rollout["advantage"])
    scalars = _improve(network, rollout, params)
    learning_rate = learning_rate_at(params.learning_rate, labels)
    scalars |= fit_value(network, rollout, params, learning_rate)
    metrics = {**scalars, "advantage_std": spread, "learning_rate": learning_rate}
    return EstimatorSpec(mode, loss=scalars["policy_loss"] + scalars["value_loss"], metrics=metrics)


def _improve(network: ActorCritic, rollout: Mapping[str, Any], params: TRPOParams) -> dict[str, Tensor]:
    """One step of the policy (appendix C), and its metrics."""
    variables, action = network.policy_variables, rollout["action"]
    start = trust_region.flat(variables)  # [P]

    def policy_at(weights: Tensor, *, fixed: bool = False) -> Distribution:
        with trust_region.with_weights(variables, weights):
            outputs, _ = network.evaluate(rollout)
        if fixed:
            outputs = {name: tf.stop_gradient(x) for name, x in outputs.items()}
        return network.actions.distribution(outputs)

    old = policy_at(start, fixed=True)
    old_log_prob = old.log_prob(action)

    def evaluate(weights: Tensor) -> tuple[Tensor, Tensor]:
        """Gain of the surrogate objective (equation 14) over the old policy, and divergence from the old policy."""
        new = policy_at(weights)
        gain = (tf.exp(new.log_prob(action) - old_log_prob) - 1) * rollout["advantage"]
        return tf.reduce_mean(gain), tf.reduce_mean(old.kl(new))

    step = trust_region.line_search(
        evaluate,
        start,
        _longest_step(evaluate, start, params),
        max_kl=params.max_kl,
        steps=params.line_search_steps,
        shrink=params.line_search_shrink,
    )
    trust_region.assign(variables, step.weights)
    entropy = tf.reduce_mean(old.entropy())
    return {"policy_loss": -step.gain, "kl": step.kl, "step_fraction": step.fraction, "entropy": entropy}


def _longest_step(evaluate: Callable[[Tensor], tuple[Tensor, Tensor]], weights: Tensor, params: TRPOParams) -> Tensor:
    """Step along the natural gradient at which a quadratic model of the divergence is ``max_kl``, float32 [P].

    Not finite if the direction is zero or not finite.
    """
    gain, kl = evaluate(weights)
    (gradient,) = tf.gradients(gain, weights)
    (kl_gradient,) = tf.gradients(kl, weights)

    def fisher(vector: Tensor) -> Tensor:
        """Product of the Fisher information, the second derivative of the divergence, with a vector."""
        (product,) = tf.gradients(tf.reduce_sum(kl_gradient * tf.stop_gradient(vector)), weights)
        return product + params.damping * vector

    direction = trust_region.conjugate_gradient(fisher, gradient, params.cg_iterations)
    return tf.sqrt(2 * params.max_kl / tf.reduce_sum(direction * fisher(direction))) * direction
