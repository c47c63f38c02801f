"""A step of an optimizer, with RLgraph's ways to clip gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from ....models.blocks.optimizers import OPTIMIZERS, clip_by_global_norm

Tensor: TypeAlias = Any
_NAMES = {"gradient_descent": "sgd"}
_NOT_ARGUMENTS = ("type", "learning_rate", "decay", "schedule_decay", "clip_grad_norm", "clip_grad_norm_global")


def minimize(loss: Tensor, variables: Sequence[Any], spec: Mapping[str, Any], learning_rate: Tensor) -> None:
    """One step.

    Args:
        loss: float scalar.
        variables: Keras variables, what is trained.
        spec: of the optimizer, in normal form. ``clip_grad_norm`` limits the norm of each variable's gradient,
            ``clip_grad_norm_global`` that of all together.
        learning_rate: float32 scalar.
    """
    step = Step(variables, spec, learning_rate)
    step.apply(step.gradients(loss))


class Step:
    """As :func:`minimize`, for several steps, or for gradients of one moment that are applied together.

    All variables of the optimizer are created at once.
    """

    def __init__(self, variables: Sequence[Any], spec: Mapping[str, Any], learning_rate: Tensor) -> None:
        own = {name: value for name, value in spec.items() if name not in _NOT_ARGUMENTS and value is not None}
        self._variables, self._spec = list(variables), spec
        self._optimizer = OPTIMIZERS[_NAMES.get(spec["type"], spec["type"])](lambda: learning_rate, **own)
        self._optimizer.build(self._variables)

    def gradients(self, loss: Tensor) -> list[Tensor]:
        """Of a loss, clipped."""
        found = tf.gradients(loss, [variable.value for variable in self._variables])
        if self._spec["clip_grad_norm"] is not None:
            found = [tf.clip_by_norm(gradient, self._spec["clip_grad_norm"]) for gradient in found]
        clipped, _ = clip_by_global_norm(found, self._spec["clip_grad_norm_global"])
        return clipped

    def apply(self, gradients: Sequence[Tensor]) -> None:
        """Change the variables."""
        self._optimizer.apply(list(gradients), self._variables)
