"""First derivatives of functions of tensors."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def gradients(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """Gradients of the sum of what ``function`` returns, for each array; None where nothing flows."""
    tensors = [tf.constant(array, tf.float32) for array in arrays]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = function(*tensors)
    return [None if found is None else found.numpy() for found in tape.gradient(result, tensors)]
