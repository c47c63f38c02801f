"""Target networks: slowly moving copies, which keep the goal of learning still for a while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from .optimizers import LARGE

Tensor: TypeAlias = Any


def update_target(
    online: Sequence[Any], target: Sequence[Any], step: Tensor, *, period: int | None, rate: float | None
) -> None:
    """Move a target network; to be called at the beginning of an update, before the loss.

    At ``step`` 0 the target becomes a copy, however its variables were made. No conditional is needed, which not every
    executor runs: a target that is to stay is assigned to itself.

    Sources: Mnih et al. 2015, https://doi.org/10.1038/nature14236 (copies); Lillicrap et al. 2016,
    https://arxiv.org/abs/1509.02971 (rate).

    Args:
        online: Keras variables.
        target: Keras variables of the same shapes.
        step: ``global_step`` before the update, int64 scalar.
        period: copy where it divides ``step``; used where there is no rate.
        rate: share of the way to go towards the online network.

    Raises:
        ValueError: neither a period nor a rate, or both.
    """
    if (period is None) == (rate is None):
        raise ValueError(f"update_target needs a period or a rate, got {period!r} and {rate!r}")
    copies = tf.equal(step if period is None else step % period, 0)
    share = tf.where(copies, 1.0, 0.0 if rate is None else rate)  # 1 and 0 leave what they multiply exact
    rest = 1.0 - share
    for ours, theirs in zip(online, target, strict=True):
        if rate is None and ours.shape.num_elements() >= LARGE:
            # One tensor or the other, as it is. Small ones are faster added up: LiteRT chooses outside of its kernels.
            theirs.assign(tf.raw_ops.Select(condition=copies, x=ours.value, y=theirs.value))
        else:
            theirs.assign(share * ours + rest * theirs)
