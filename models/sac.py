"""SAC: a policy that maximises return and entropy, twin critics, and a learned temperature.

Sources: Haarnoja et al. 2018a (https://arxiv.org/abs/1801.01290) and 2018b (https://arxiv.org/abs/1812.05905), whose
equations are cited below; for Discrete actions Christodoulou 2019 (https://arxiv.org/abs/1910.07207). Differences from
the papers: docs/algorithms/sac.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from ..core.errors import ArgumentError
from ..core.protocols import EstimatorSpec, Modes, RunConfig
from ..core.tensorflow_import import tf
from .blocks.critics import TwinCritics
from .blocks.encoders import Remembered
from .blocks.params import from_params, integer, optional, param
from .blocks.recurrent import observation_and_state
from .blocks.soft_actor_critic import SoftActorCritic, SoftParams, SoftTask, within_sequences
from .blocks.soft_policies import soft_policy
from .blocks.state_dependent import StateDependentParams
from .blocks.temperature import Temperature

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class SACParams(StateDependentParams, SoftParams):
    """The parameters of SAC. Actor, critics and temperature each have an optimizer."""

    lstm: int | None = param(
        None,
        "units of an LSTM, shared by actor and critics, for tasks that need memory; the hidden layers come before it"
        " and again after it; `null`: none",
        optional(integer(at_least=1)),
    )
    n_step: int = param(1, "n of n-step returns with `lstm`, which end with their sequence", integer(at_least=1))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lstm is not None and self.updates > 1:
            message = f"an LSTM learns from whole sequences: updates must be 1 with lstm, got {self.updates}"
            raise ArgumentError(message, "updates", self.updates)
        if self.lstm is None and self.n_step > 1:
            message = f"n_step needs lstm: without it, give n_step={self.n_step} to the ReplayMemory instead"
            raise ArgumentError(message, "n_step", self.n_step)


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | SACParams | None, config: RunConfig
) -> EstimatorSpec:
    """SAC, for a ReplayMemory; with an LSTM for a SequenceMemory.

    Predictions for a Box: ``action`` float32 [B, ...] (the squashed mean), ``mean`` and ``log_std`` float32 [B, ...]
    (before squashing; with state-dependent exploration ``scaled_features`` float32 [B, W, A] replaces ``log_std``). For
    Discrete actions: ``action`` int32 [B] (the likeliest), ``logits`` float32 [B, A], and ``action_mask`` bool [B, A]
    where observations have a mask. ``loss`` is the critics' loss, ``td_error`` their mean TD error. Metrics:
    ``actor_loss``, ``temperature``, ``entropy`` (for a Box, of actions in -1 .. 1), ``q_mean``, ``learning_rate``; with
    gradient clipping also ``critic_gradient_norm`` and ``actor_gradient_norm`` (before clipping). All are means over
    the gradient steps. State, with an LSTM: ``hidden`` and ``cell``, float32 [B, lstm].

    Raises:
        ArgumentError: the action space is neither a bounded Box of floats nor Discrete, the observations do not fit,
            the memory is of the wrong kind or its batches cannot be split, or a parameter is invalid or does not fit
            the action space.
    """
    params = from_params(SACParams, params)
    task = SoftTask(config, params, "SAC")
    memory = None if params.lstm is None else Remembered("memory", task.size, params, params.lstm)
    width = params.lstm or task.size
    policy = soft_policy(config.action_space, width, params, "SAC")
    if mode == Modes.PREDICT:
        observation, state = observation_and_state(features)
        seen = task.encode(observation)
        if memory is not None:
            seen, state = memory.step(seen, state)
        return task.predict(policy, observation, seen, state)

    shape, outputs = [width + policy.action_size], policy.critic_outputs
    critics = TwinCritics("critic", shape, params, outputs=outputs)
    targets = TwinCritics("target", shape, params, outputs=outputs, zeros=True)
    learner = SoftActorCritic(policy, critics, targets, Temperature(params), params)
    if memory is None:
        batch = task.transitions(features, labels, policy)
    else:
        batch = task.sequences(features, labels, policy)
        target_memory = Remembered("target_memory", task.size, params, memory.units, zeros=True)
        returns = partial(within_sequences, params.n_step)
        learner = dataclasses.replace(learner, returns=returns, sight=memory.sight, target_sight=target_memory.sight)
    spec = learner.spec(mode, batch, labels)
    if memory is None or spec.td_error is None:
        return spec
    found = batch["sequences"]
    return dataclasses.replace(spec, td_error=found.with_burn_in(tf.reshape(spec.td_error, found["reward"].shape)))
