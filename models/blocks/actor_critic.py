"""Policy and value networks of on-policy algorithms, and the parameters that these share."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, TypeAlias

import keras
import numpy as np

from ...schedules import ScheduleLike
from .actions import Actions
from .networks import Network, NetworkParams
from .observations import MaskParams, Observations
from .optimizers import OptimizerParams
from .params import flag, param, real, schedule

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticParams(MaskParams, OptimizerParams, NetworkParams):
    """The parameters that on-policy algorithms share. Schedules follow ``global_step``, which counts rollouts."""

    activation: str = "tanh"
    initializer: str = "orthogonal"
    max_gradient_norm: float | None = 0.5
    shared: bool = param(False, "one network with two heads for policy and value instead of two networks", flag())
    log_std: float = param(
        0.0,
        "initial log standard deviation of Box actions, in the environment's units",
        real(at_least=-20, at_most=20),
    )
    value_coefficient: float = param(0.5, "weight of the value's squared error", real(at_least=0))
    entropy_coefficient: ScheduleLike = param(0.0, "weight of the entropy", schedule(at_least=0))
    normalize_advantages: bool = param(
        True, "to mean 0 and standard deviation 1, among those of one step of the optimizer", flag()
    )
    gae_lambda: float = param(
        0.95, "between one-step TD errors (0) and discounted returns (1)", real(at_least=0, at_most=1)
    )


class ActorCritic:
    """Policy and value. All variables are created at once.

    Args:
        observations: what the networks see of them.
        actions: what the policy decides.
        params: which networks.

    Raises:
        ValueError: the network does not fit the observations.
    """

    def __init__(self, observations: Observations, actions: Actions, params: ActorCriticParams) -> None:
        self._observations, shape = observations, observations.shape
        scale = math.sqrt(2) if params.initializer == "orthogonal" else 1.0  # Engstrom et al. 2020, section 3
        # The small head starts with a nearly uniform policy: Andrychowicz et al. 2020, section 3.2.
        heads = {"head": actions.num_outputs}
        self._policy = Network("policy", shape, heads, params, scale=scale, head_scale=0.01)
        self._log_std: Any = None
        self._actions = actions
        if actions.num_scales:
            with keras.name_scope("policy"):
                initial = np.full(actions.num_scales, params.log_std, np.float32)
                self._log_std = keras.Variable(initial, name="log_std")
        body = self._policy.body if params.shared else None
        self._value = Network("value", shape, {"head": 1}, params, scale=scale, body=body)
        self._shared = params.shared

    @property
    def variables(self) -> list[Any]:
        """What is trained."""
        both = [*self._policy.variables, *self._value.variables]
        found = list({id(variable): variable for variable in both}.values())  # a shared body once
        return found if self._log_std is None else [*found, self._log_std]

    def __call__(self, observation: Any) -> tuple[dict[str, Tensor], Tensor]:
        """What describes the distribution over actions, by name (each [B, ...]), and the value, float32 [B]."""
        encoded, masks = self._observations.encode(observation), self._observations.masks(observation)
        hidden = self._policy.body(encoded)
        outputs = self._policy.heads(hidden)["head"]
        value = self._value.heads(hidden if self._shared else self._value.body(encoded))["head"][:, 0]
        return {**self._actions.described(outputs, self._log_std), **masks}, value

    def value(self, observation: Any) -> Tensor:
        """The value alone, float32 [B]."""
        return self._value(self._observations.encode(observation))["head"][:, 0]
