"""Optimizers of specifications, with RLgraph's gradient clipping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from ....models.blocks.optimizers import clip_by_global_norm, optimizer_class
from ..processing.decays import Decay

Tensor: TypeAlias = Any
_NAMES = {"gradient_descent": "sgd"}
_NOT_ARGUMENTS = ("type", "learning_rate", "decay", "schedule_decay", "clip_grad_norm", "clip_grad_norm_global")


class Optimizer:
    """The Keras optimizer of a specification, for ``models.blocks.train_step.minimize``.

    Args:
        spec: specification in normal form. ``clip_grad_norm`` clips the gradient norm of each variable,
            ``clip_grad_norm_global`` the global norm. Its ``learning_rate`` may follow the number of updates.
        updates: number of updates before this one, an integer scalar.
    """

    def __init__(self, spec: Mapping[str, Any], updates: Tensor) -> None:
        learning_rate = _learning_rate(spec, updates)
        own = {name: value for name, value in spec.items() if name not in _NOT_ARGUMENTS and value is not None}
        self._keras = optimizer_class(_NAMES.get(spec["type"], spec["type"]))(lambda: learning_rate, **own)
        self._each, self._together = spec["clip_grad_norm"], spec["clip_grad_norm_global"]

    def apply(self, gradients: Sequence[Tensor], variables: Sequence[Any]) -> None:
        """Update the variables with their clipped gradients."""
        if self._each is not None:
            gradients = [tf.clip_by_norm(gradient, self._each) for gradient in gradients]
        self._keras.apply(clip_by_global_norm(gradients, self._together)[0], list(variables))


def _learning_rate(spec: Mapping[str, Any], updates: Tensor) -> Tensor:
    """float32 scalar; ``sgd`` also has a ``decay`` (Keras 2's rule)."""
    rate, decay = spec["learning_rate"], float(spec.get("decay", 0.0))
    value = Decay(rate)(updates, ops=keras.ops) if isinstance(rate, Mapping) else tf.constant(float(rate))
    return value / (1.0 + decay * tf.cast(updates, tf.float32)) if decay else value
