"""A step of an optimizer, with RLgraph's ways to clip gradients."""

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


def minimize(loss: Tensor, variables: Sequence[Any], spec: Mapping[str, Any], updates: Tensor) -> None:
    """One step.

    Args:
        loss: float scalar.
        variables: Keras variables, what is trained.
        spec: of the optimizer, in normal form. ``clip_grad_norm`` limits the norm of each variable's gradient,
            ``clip_grad_norm_global`` that of all together. Its ``learning_rate`` may follow the number of updates.
        updates: before this one, an integer scalar.
    """
    step = Step(variables, spec, updates)
    step.apply(step.gradients(loss))


class Step:
    """Several steps like :func:`minimize`'s, or gradients of one moment that are applied together.

    All variables of the optimizer are created at once.
    """

    def __init__(self, variables: Sequence[Any], spec: Mapping[str, Any], updates: Tensor) -> None:
        learning_rate = _learning_rate(spec, updates)
        own = {name: value for name, value in spec.items() if name not in _NOT_ARGUMENTS and value is not None}
        self._variables, self._spec = list(variables), spec
        self._optimizer = optimizer_class(_NAMES.get(spec["type"], spec["type"]))(lambda: learning_rate, **own)
        self._optimizer.build(self._variables)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Clipped gradients."""
        found = tf.gradients(loss, [variable.value for variable in self._variables])
        if self._spec["clip_grad_norm"] is not None:
            found = [tf.clip_by_norm(gradient, self._spec["clip_grad_norm"]) for gradient in found]
        clipped, _ = clip_by_global_norm(found, self._spec["clip_grad_norm_global"])
        return clipped

    def apply(self, gradients: Sequence[Tensor]) -> None:
        """Change the variables."""
        self._optimizer.apply(list(gradients), self._variables)


def _learning_rate(spec: Mapping[str, Any], updates: Tensor) -> Tensor:
    """float32 scalar; ``sgd`` has a ``decay`` beside (Keras 2's rule)."""
    rate, decay = spec["learning_rate"], float(spec.get("decay", 0.0))
    value = Decay(rate)(updates, ops=keras.ops) if isinstance(rate, Mapping) else tf.constant(float(rate))
    return value / (1.0 + decay * tf.cast(updates, tf.float32)) if decay else value
