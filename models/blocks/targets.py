"""Target networks: slowly moving copies that keep learning targets stable."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from ...core.errors import ArgumentError
from ...core.protocols import Modes
from ...core.tensorflow_import import tf
from .optimizers import LARGE
from .params import Params, integer, optional, param, real

Tensor: TypeAlias = Any

DEFAULT_PERIOD: Final = 100


@dataclasses.dataclass(frozen=True, kw_only=True)
class TargetParams(Params):
    """The parameters of target updates: by period or by rate. Without either, a copy every 100 updates."""

    target_update_period: int | None = param(
        None,
        f"updates between copies to the target network; {DEFAULT_PERIOD} if `target_update_rate` is `null` too",
        optional(integer(at_least=1)),
    )
    target_update_rate: float | None = param(
        None,
        "tau of soft target updates, instead of copies: share of the way to the online network in each update",
        optional(real(above=0, at_most=1)),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        period, rate = self.target_update_period, self.target_update_rate
        if period is not None and rate is not None:
            raise ArgumentError(
                f"give target_update_period or target_update_rate, not both; got {period!r} and {rate!r}",
                "target_update_rate",
                rate,
            )
        if period is None and rate is None:
            object.__setattr__(self, "target_update_period", DEFAULT_PERIOD)

    def move_target(self, mode: str, online: Sequence[Any], target: Sequence[Any], labels: Mapping[str, Any]) -> None:
        """Call :func:`update_target` in TRAIN, and nothing otherwise. Call before the loss."""
        if mode == Modes.TRAIN:
            period, rate = self.target_update_period, self.target_update_rate
            update_target(online, target, labels["global_step"], period=period, rate=rate)


def update_target(
    online: Sequence[Any], target: Sequence[Any], step: Tensor, *, period: int | None, rate: float | None
) -> None:
    """Move a target network. Call it at the beginning of an update, before the loss.

    At ``step`` 0 the target becomes a copy, whatever its initial values. There is no conditional: an unchanged target
    is assigned to itself.

    Sources: Mnih et al. 2015, https://doi.org/10.1038/nature14236 (copies); Lillicrap et al. 2016,
    https://arxiv.org/abs/1509.02971 (rate).

    Args:
        online: Keras variables.
        target: Keras variables of the same shapes.
        step: ``global_step`` before the update, int64 scalar.
        period: copy if it divides ``step``; for targets without a rate.
        rate: share of the way towards the online network.

    Raises:
        ArgumentError: neither a period nor a rate, or both.
    """
    if (period is None) == (rate is None):
        raise ArgumentError(f"update_target needs a period or a rate, got {period!r} and {rate!r}", "rate", rate)
    copies = tf.equal(step if period is None else step % period, 0)
    share = tf.where(copies, 1.0, 0.0 if rate is None else rate)  # products with 1 and 0 are exact
    rest = 1.0 - share
    for ours, theirs in zip(online, target, strict=True):
        if rate is None and ours.shape.num_elements() >= LARGE:
            # Select copies without arithmetic. For small tensors the sum is faster: LiteRT's kernels have no select.
            theirs.assign(tf.raw_ops.Select(condition=copies, x=ours.value, y=theirs.value))
        else:
            theirs.assign(share * ours + rest * theirs)
