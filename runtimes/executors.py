"""What runs a traced ``model_fn``: one small interface, whatever is behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from ..contracts import Array, ArrayTree

Features: TypeAlias = "ArrayTree | Mapping[str, ArrayTree]"
"""Observations; for a recurrent model ``{"observation": observations, "state": {name: array}}``."""


@dataclasses.dataclass(frozen=True)
class TrainResult:
    """One update. ``scalars`` float32 [1 + M]: the loss, then the metrics in the order of ``Train.metrics``."""

    scalars: Array
    td_error: Array | None


class Executor(Protocol):
    """Runs PREDICT, and TRAIN once it has been prepared."""

    name: str

    def act(self, features: Features) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state of a model that has one."""

    def train(self, batch: Mapping[str, ArrayTree], counters: Mapping[str, int], draws: Sequence[Array]) -> TrainResult:
        """One training step."""

    def get_weights(self) -> dict[str, Array]:
        """Every variable by name, copied."""

    def get_predict_weights(self) -> dict[str, Array]:
        """The variables that PREDICT uses, by name, copied."""

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; ``ValueError``, and nothing is set, where names, shapes or dtypes differ."""
