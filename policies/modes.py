"""Modes of a model, as any executor needs them. Loads no TensorFlow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ..core.protocols import ArraySpec, Exploration, SpecTree
from ..core.trace_inputs import Request

COUNTERS: Final = {"global_step": np.int64, "global_timestep": np.int64, "progress": np.float32}
"""Entries of ``labels`` in addition to the batch, in the order of a program's inputs, and their dtype."""


class VariableSpec(NamedTuple):
    """A variable; ``trainable`` tells whether it was created as trainable."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    trainable: bool


def relative_name(scope: str, name: str | None) -> str:
    """The variable's path without numbers appended by Keras and TensorFlow: ``dense/kernel`` of ``dense_3/kernel``.

    A second call of the same ``model_fn`` builds the same layers with higher numbers, so they carry no information. An
    optimizer's slots contain their variable's path in their name (``dense_3_kernel_momentum``).
    """
    path = f"{scope}/{name or 'Variable'}".strip("/")
    return re.sub(r"_\d+(?=_|/|$)", "", path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictMode:
    """The PREDICT mode, for acting.

    Args:
        outputs: the predictions of one row.
        exploration: the behaviour policy; None for the greedy one.
        record: predictions, or extras of the exploration, to store with transitions.
        state: the recurrent state of one row; None if the model has none.
        noise: for acting in training; zero everywhere else.
        evaluation_hooks: the spec's evaluation hooks.
        not_exact: stateful random ops in use.
    """

    outputs: Mapping[str, ArraySpec]
    exploration: Exploration | None = None
    record: tuple[str, ...] = ()
    state: Mapping[str, ArraySpec] | None = None
    noise: tuple[Request, ...] = ()
    evaluation_hooks: tuple[Any, ...] = ()
    not_exact: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainMode:
    """The TRAIN mode, for learning from a batch.

    Args:
        batch: specs, with batch axes.
        metrics: names of the scalars after the loss.
        noise: drawn for every update.
        reads: indices of the inputs that it reads, among the arrays of the batch, ``COUNTERS``, the noise and the
            numbers of the run's params.
        params: numbers among the run's params that are inputs (:mod:`axonrl.inputs`): values by name, in order.
        has_td_error: does the spec have TD errors?
        reads_progress: does it depend on the run's progress?
        training_hooks: the spec's training hooks.
        not_exact: stateful random ops in use.
    """

    batch: Mapping[str, SpecTree]
    metrics: tuple[str, ...]
    noise: tuple[Request, ...]
    reads: frozenset[int]
    params: Mapping[str, float] = dataclasses.field(default_factory=dict)
    has_td_error: bool = False
    reads_progress: bool = False
    training_hooks: tuple[Any, ...] = ()
    not_exact: tuple[str, ...] = ()


class ModelProgram(Protocol):
    """A model as a program: traced, or compiled earlier."""

    @property
    def name(self) -> str:
        """Name of the ``model_fn``, for messages."""

    @property
    def predict(self) -> PredictMode:
        """The acting mode."""

    def variables(self) -> Mapping[str, VariableSpec]:
        """The variables in order, by unique names that are the same in every process."""

    def predict_variables(self) -> Mapping[str, VariableSpec]:
        """Variables created by PREDICT, which come first."""
