"""Parts of an update that do not run in every update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any


def run_if(due: Tensor, body: Callable[[], Sequence[Tensor]], otherwise: Sequence[Tensor] = ()) -> list[Tensor]:
    """Run ``body`` if it is due; otherwise nothing runs, and no variable changes.

    Args:
        due: bool scalar.
        body: returns tensors, and may assign variables. It cannot create them: build optimizers first.
        otherwise: result where ``body`` does not run, with the same shapes and dtypes.

    Returns:
        the tensors of ``body``, or ``otherwise``.
    """

    def branch(tensors: Sequence[Tensor]) -> list[Tensor]:
        return [tf.constant(0), *tensors]  # TensorFlow would drop a branch without results

    found = tf.cond(due, lambda: branch(body()), lambda: branch(otherwise))
    return list(found[1:])
