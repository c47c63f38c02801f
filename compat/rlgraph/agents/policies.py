"""Actions drawn from what a policy predicts, and their log-probabilities, on the host.

Shapes in comments: B is the batch, N the components of an action, A the number of values of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ....core.protocols import Array
from ...common.draws import drawn_from
from ...common.value_specs import ValueSpec
from ..spaces import FloatBox
from ..spaces.names import prediction_of

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


class PolicyActions:
    """The actions of an agent whose policy has a distribution.

    Actions of an IntBox and a BoolBox are categories, those of a FloatBox normally distributed. A *draw* of these may
    lie beyond the bounds of its space; the action is then the nearest bound.

    Args:
        boxes: of the actions, by flat name.

    Attributes:
        specs: of each action, by flat name; those of an IntBox count from 0.
    """

    def __init__(self, boxes: Mapping[str, Any]) -> None:
        self._boxes = dict(boxes)
        self.specs = {
            name: ValueSpec(name, "float", box.shape)
            if isinstance(box, FloatBox)
            else ValueSpec(name, "int", box.shape, getattr(box, "num_categories", 2))
            for name, box in boxes.items()
        }
        self.floats = [name for name, spec in self.specs.items() if spec.type == "float"]
        """Names of the continuous ones."""

    def modes(self, predictions: Mapping[str, Any]) -> dict[str, Array]:
        """The likeliest draw [B, ...] of each."""
        found = {}
        for name, spec in self.specs.items():
            if spec.num_values:
                mode = predictions[prediction_of("logits", name)].argmax(-1).astype(np.int32)
            else:
                mode = predictions[prediction_of("mean", name)]
            found[name] = mode.reshape(-1, *spec.shape)
        return found

    def draws(self, predictions: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Array]:
        """A draw [B, ...] of each."""
        found = {}
        for name, spec in self.specs.items():
            if spec.num_values:
                drawn = drawn_from(predictions[prediction_of("logits", name)].astype(np.float64), rng).astype(np.int32)
            else:
                mean, std = (
                    predictions[prediction_of("mean", name)],
                    np.exp(predictions[prediction_of("log_std", name)]),
                )
                drawn = mean + std * rng.standard_normal(mean.shape, np.float32)
            found[name] = drawn.reshape(-1, *spec.shape)
        return found

    def within(self, draws: Mapping[str, Array]) -> dict[str, Array]:
        """Draws as actions of their spaces."""
        return {
            name: np.clip(draw, self._boxes[name].low, self._boxes[name].high) if name in self.floats else draw
            for name, draw in draws.items()
        }

    def log_prob(self, predictions: Mapping[str, Any], draws: Mapping[str, Array]) -> Array:
        """The log-probability, or log-density, of draws [B, ...]: float32 [B], the sum over actions and components."""
        total = 0.0
        for name, spec in self.specs.items():
            draw = draws[name].reshape(len(draws[name]), math.prod(spec.shape))
            if spec.num_values:
                log_probs = predictions[prediction_of("logits", name)].astype(np.float64)  # [B, N, A]
                each = np.take_along_axis(log_probs, draw.astype(np.intp)[..., None], -1)[..., 0]
            else:
                mean, log_std = (
                    predictions[prediction_of(what, name)].astype(np.float64) for what in ("mean", "log_std")
                )
                each = -0.5 * ((draw - mean) * np.exp(-log_std)) ** 2 - log_std - _LOG_SQRT_2PI
            total = total + each.sum(-1)
        return np.asarray(total, np.float32)
