"""Critics: networks from observations and actions to values, or from observations to the values of all actions."""

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
        shape: of an observation and an action, side by side; of an observation alone where there are ``outputs``.
        params: which layers.
        outputs: number of actions, all of which are valued at once; None for actions that are inputs.
        zeros: kernels start at zero, for targets.
    """

    def __init__(
        self, name: str, shape: Sequence[int], params: DenseParams, *, outputs: int | None = None, zeros: bool = False
    ) -> None:
        heads = {"q_value": 1} if outputs is None else {"q_values": outputs}
        self._networks = [Network(f"{name}{i}", shape, heads, params, zeros=zeros) for i in (1, 2)]

    @property
    def variables(self) -> list[Any]:
        """What is trained, in the order of creation."""
        return [variable for network in self._networks for variable in network.variables]

    def __call__(self, observation: Tensor, action: Tensor | None = None) -> list[Tensor]:
        """The values of both.

        Args:
            observation: float32 [B, O].
            action: float32 [B, A]; None where all actions are valued.

        Returns:
            float32 [B] each, or [B, outputs].
        """
        if action is None:
            return [network(observation)["q_values"] for network in self._networks]
        inputs = tf.concat([observation, action], axis=-1)  # [B, O + A]
        return [tf.squeeze(network(inputs)["q_value"], axis=-1) for network in self._networks]
