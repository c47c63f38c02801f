"""Twin critics: two networks from observations and actions to values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from .networks import DenseParams, Network

Tensor: TypeAlias = Any


class TwinCritics:
    """Two independent Q functions of observation and action. All variables are created at once.

    Source: Fujimoto, van Hoof and Meger 2018, https://arxiv.org/abs/1802.09477, section 4.2.

    Args:
        name: prefix of the names of the variables: ``critic`` for ``critic1`` and ``critic2``.
        shape: of an observation and an action, side by side.
        params: which layers.
        zeros: kernels start at zero, for targets.
    """

    def __init__(self, name: str, shape: Sequence[int], params: DenseParams, *, zeros: bool = False) -> None:
        self._networks = [Network(f"{name}{i}", shape, {"q_value": 1}, params, zeros=zeros) for i in (1, 2)]

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation."""
        return [variable for network in self._networks for variable in network.variables]

    def __call__(self, observation: Tensor, action: Tensor) -> list[Tensor]:
        """Both values, float32 [B] each, of observations [B, O] and actions [B, A]."""
        inputs = tf.concat([observation, action], axis=-1)  # [B, O + A]
        return [tf.squeeze(network(inputs)["q_value"], axis=-1) for network in self._networks]
