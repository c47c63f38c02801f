"""Rainbow: double, dueling, noisy and distributional Q-learning, for prioritized memories with n-step returns.

Source: Hessel et al. 2018 (https://arxiv.org/abs/1710.02298). Four of its six parts are parameters here, and two belong
to the memory: ``ReplayMemory(..., n_step=3, sampler=Prioritized(alpha=0.5, beta=...))``. Differences from the paper:
docs/algorithms/rainbow.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from ..core.protocols import EstimatorSpec, RunConfig
from ..core.schedules import ScheduleLike
from . import c51, dqn
from .blocks.params import flag, from_params, param
from .blocks.q_networks import QParams


@dataclasses.dataclass(frozen=True, kw_only=True)
class RainbowParams(c51.C51Params):
    """The parameters of Rainbow: those of C51 with the paper's defaults, and a switch for the distribution."""

    algorithm: ClassVar = "Rainbow"
    learning_rate: ScheduleLike = 6.25e-5  # table 1, like the optimizer's epsilon, noisy_sigma, atoms, v_min and v_max
    optimizer_epsilon: float | None = 1.5e-4
    noisy: bool = True
    dueling: str | None = "mean"
    double: bool = True
    distributional: bool = param(
        True, "predict the distribution of returns, as C51 does; else their mean, as DQN does", flag()
    )


def model_fn(
    features: Any, labels: Any, mode: str, params: Mapping[str, Any] | RainbowParams | None, config: RunConfig
) -> EstimatorSpec:
    """Rainbow, for a ReplayMemory: :func:`.c51.model_fn`, or :func:`.dqn.model_fn` if it is not distributional.

    Predictions, metrics and errors are those of that function.
    """
    params = from_params(RainbowParams, params)
    if params.distributional:
        return c51.model_fn(features, labels, mode, params, config)
    shared = {field.name: getattr(params, field.name) for field in dataclasses.fields(QParams)}
    return dqn.model_fn(features, labels, mode, dqn.DQNParams(**shared, double=params.double), config)
