"""A step of an optimizer, with RLgraph's ways to clip gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from ....models.blocks.optimizers import OPTIMIZERS, clip_by_global_norm

Tensor: TypeAlias = Any
_NAMES = {"gradient_descent": "sgd"}
_NOT_ARGUMENTS = ("type", "learning_rate", "clip_grad_norm", "clip_grad_norm_global")


def minimize(loss: Tensor, variables: Sequence[Any], spec: Mapping[str, Any], learning_rate: Tensor) -> None:
    """One step.

    Args:
        loss: float scalar.
        variables: Keras variables, what is trained.
        spec: of the optimizer, in normal form. ``clip_grad_norm`` limits the norm of each variable's gradient,
            ``clip_grad_norm_global`` that of all together.
        learning_rate: float32 scalar.
    """
    make_step(variables, spec, learning_rate)(loss)


def make_step(variables: Sequence[Any], spec: Mapping[str, Any], learning_rate: Tensor) -> Any:
    """As :func:`minimize`, for several steps: a function of the loss. Variables are created here."""
    own = {name: value for name, value in spec.items() if name not in _NOT_ARGUMENTS and value is not None}
    optimizer = OPTIMIZERS[_NAMES.get(spec["type"], spec["type"])](lambda: learning_rate, **own)
    optimizer.build(list(variables))

    def step(loss: Tensor) -> None:
        gradients = tf.gradients(loss, [variable.value for variable in variables])
        if spec["clip_grad_norm"] is not None:
            gradients = [tf.clip_by_norm(gradient, spec["clip_grad_norm"]) for gradient in gradients]
        gradients, _ = clip_by_global_norm(gradients, spec["clip_grad_norm_global"])
        optimizer.apply(gradients, variables)

    return step
