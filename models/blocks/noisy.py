"""Noisy layers: exploration by noise in the weights, with a learned scale."""

from __future__ import annotations

import dataclasses
from typing import Any

from ...core.errors import ArgumentError
from .networks import NetworkParams
from .params import flag, param, real


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoisyNetworkParams(NetworkParams):
    """The parameters of a network whose dense layers may be noisy."""

    noisy: bool = param(
        False, "explore by learned noise in the weights of all dense layers, instead of by `exploration`", flag()
    )
    noisy_sigma: float = param(
        0.5,
        "initial scale of the noise of `noisy`, before division by the square root of a layer's number of inputs",
        real(above=0),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noisy and self.initializer == "zeros":  # reserved for target networks, whose noise is zero at first
            message = "noisy layers draw their own initial values; initializer 'zeros' would leave them without noise"
            raise ArgumentError(message, "initializer", self.initializer)

    def layer(self, units: int, name: str, activation: str, initializer: str, scale: float) -> Any:
        """One dense layer, of the body or a head."""
        if not self.noisy:
            return super().layer(units, name, activation, initializer, scale)
        sigma = 0.0 if initializer == "zeros" else self.noisy_sigma
        from .noisy_dense import NoisyDense

        return NoisyDense(units, activation=activation, sigma=sigma, name=name)
