"""Policy and value networks of on-policy algorithms, and the parameters that these share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from ...schedules import ScheduleLike
from .actions import Actions, Box
from .networks import Network, NetworkParams
from .optimizers import OptimizerParams
from .params import flag, param, real, schedule

Tensor: TypeAlias = Any


@dataclasses.dataclass(frozen=True, kw_only=True)
class ActorCriticParams(OptimizerParams, NetworkParams):
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
        shape: of an encoded observation.
        actions: what the policy decides.
        params: which networks.

    Raises:
        ValueError: the network does not fit the observations.
    """

    def __init__(self, shape: Sequence[int], actions: Actions, params: ActorCriticParams) -> None:
        scale = math.sqrt(2) if params.initializer == "orthogonal" else 1.0  # Engstrom et al. 2020, section 3
        # The small head starts with a nearly uniform policy: Andrychowicz et al. 2020, section 3.2.
        heads = {"head": actions.num_outputs}
        self._policy = Network("policy", shape, heads, params, scale=scale, head_scale=0.01)
        self._log_std: Any = None
        if isinstance(actions, Box):
            with keras.name_scope("policy"):
                initial = np.full(actions.num_outputs, params.log_std, np.float32)
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

    def __call__(self, encoded: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """What describes the distribution over actions, by name (each [B, ...]), and the value, float32 [B]."""
        hidden = self._policy.body(encoded)
        outputs = self._policy.heads(hidden)["head"]
        value = self._value.heads(hidden if self._shared else self._value.body(encoded))["head"][:, 0]
        if self._log_std is None:
            return {"logits": outputs}, value
        return {"mean": outputs, "log_std": self._log_std + tf.zeros_like(outputs)}, value

    def value(self, encoded: Tensor) -> Tensor:
        """The value alone, float32 [B]."""
        return self._value(encoded)["head"][:, 0]
