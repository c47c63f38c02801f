"""The temperature of algorithms that maximise entropy: the weight of the entropy, fixed or adapted to a target."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Final, TypeAlias

import numpy as np

from ...core.tensorflow_import import keras, tf
from .params import Params, or_word, param, real

Tensor: TypeAlias = Any

AUTO: Final = "auto"
ENTROPY_SHARE: Final = 0.7
"""Target of `auto` for Discrete actions, as a share of the largest possible entropy."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemperatureParams(Params):
    """The parameters of a temperature."""

    temperature: float | str = param(
        AUTO, "weight of the entropy; `auto` adapts it to keep the target entropy", or_word(real(at_least=0), AUTO)
    )
    initial_temperature: float = param(1.0, "initial temperature with `auto`", real(above=0))
    target_entropy: float | str = param(
        AUTO,
        "target entropy in nats, where Box actions are in -1 .. 1; `auto`: minus the number of components of a Box,"
        f" {ENTROPY_SHARE:g} log n for n Discrete actions",
        or_word(real(), AUTO),
    )


class Temperature:
    """The weight of the entropy, alpha: fixed, or the exponential of a variable.

    Source: Haarnoja et al. 2018b, https://arxiv.org/abs/1812.05905, section 5.
    """

    def __init__(self, params: TemperatureParams) -> None:
        self._fixed = None if isinstance(params.temperature, str) else params.temperature
        self.variables: list[Any] = []
        if self._fixed is None:
            initial = np.float32(math.log(params.initial_temperature))
            self.variables = [keras.Variable(initial, name="log_temperature")]

    def __call__(self) -> Tensor:
        """The current value, float32 scalar."""
        return tf.exp(self.variables[0].value) if self._fixed is None else tf.constant(self._fixed, tf.float32)

    def follow(self, entropy: Tensor, target: Tensor | float, optimizer: Any) -> None:
        """Lower the temperature if the entropy exceeds the target (in nats), raise it if it is below, unless fixed."""
        for log_temperature in self.variables:
            # The gradient of log(alpha) * (entropy - target): equation 18 with log(alpha) in place of alpha.
            optimizer.apply([entropy - target], [log_temperature])
