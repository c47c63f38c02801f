"""Masks of legal actions in a model. Tensors in, tensors out.

A mask is bool [B, A]: an entry for each action of a Discrete space, or for each choice of a MultiDiscrete one,
concatenated in the order of ``nvec.flat``.

Source: Huang and Ontanon 2020, https://arxiv.org/abs/2006.14171: masked logits leave a policy gradient valid.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

from ...core.protocols import NO_LEGAL_ACTION
from ...core.tensorflow_import import tf

Tensor: TypeAlias = Any

ILLEGAL_LOGIT: Final = -1e9
"""Logit with probability 0 in float32. 0 times its logarithm is 0; with an infinite one it would be NaN."""
_LOWEST: Final = float(np.finfo(np.float32).min)


def legal_logits(logits: Tensor, mask: Tensor | None) -> Tensor:
    """Logits [B, A] that give illegal actions the probability 0 and no gradient."""
    return logits if mask is None else tf.where(mask, logits, ILLEGAL_LOGIT)


def best(values: Tensor, mask: Tensor | None) -> Tensor:
    """The legal action with the highest value, int32 [B]; 0 where no action is legal.

    Args:
        values: float32 [B, A].
        mask: bool [B, A]; None if all actions are legal.
    """
    legal = values if mask is None else tf.where(mask, values, _LOWEST)
    return tf.argmax(legal, axis=-1, output_type=tf.int32)


def highest(values: Tensor, mask: Tensor | None) -> Tensor:
    """The highest value of a legal action, float32 [B]. Where no action is legal: any finite number."""
    if mask is not None:  # the row's lowest value never exceeds the highest legal one
        values = tf.where(mask, values, tf.reduce_min(values, axis=-1, keepdims=True))
    return tf.reduce_max(values, axis=-1)


def or_none(action: Tensor, mask: Tensor | None) -> Tensor:
    """Actions int32 [B] in the environment's units; ``NO_LEGAL_ACTION`` where the mask [B, A] allows none."""
    if mask is None:
        return action
    exists = tf.reduce_max(tf.cast(mask, tf.float32), axis=-1) > 0.5
    return tf.where(exists, action, NO_LEGAL_ACTION)
