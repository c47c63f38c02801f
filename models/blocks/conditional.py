"""Parts of an update that do not run in every update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

Tensor: TypeAlias = Any


def run_if(due: Tensor, body: Callable[[], Sequence[Tensor]], otherwise: Sequence[Tensor] = ()) -> list[Tensor]:
    """What ``body`` returns where it is due; it does not run otherwise, and what it assigns stays as it is.

    It is a loop of one round or none: the conditional that all runtimes have, with gradients inside.

    Args:
        due: bool scalar.
        body: returns tensors, and may assign variables. It cannot create them: build optimizers first.
        otherwise: what is returned where ``body`` does not run, of the same shapes and dtypes.

    Returns:
        the tensors of ``body``, or ``otherwise``.
    """
    rounds = tf.cast(due, tf.int32)

    def one(i: Tensor, *_: Tensor) -> tuple[Tensor, ...]:
        return i + 1, *body()

    found = tf.while_loop(lambda i, *_: i < rounds, one, (tf.constant(0), *otherwise), parallel_iterations=1)
    return list(found[1:])
