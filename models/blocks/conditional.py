"""Parts of an update that do not run in every update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Tensor: TypeAlias = Any


def run_if(due: Tensor, body: Callable[[], Sequence[Tensor]], otherwise: Sequence[Tensor] = ()) -> list[Tensor]:
    """What ``body`` returns where it is due; it does not run otherwise, and what it assigns stays as it is.

    Args:
        due: bool scalar.
        body: returns tensors, and may assign variables. It cannot create them: build optimizers first.
        otherwise: what is returned where ``body`` does not run, of the same shapes and dtypes.

    Returns:
        the tensors of ``body``, or ``otherwise``.
    """

    def branch(tensors: Sequence[Tensor]) -> list[Tensor]:
        return [tf.constant(0), *tensors]  # a branch that returned nothing would be left out

    found = tf.cond(due, lambda: branch(body()), lambda: branch(otherwise))
    return list(found[1:])
