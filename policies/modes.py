"""What must be known of a model's modes to run them, whoever computes them. Loads no TensorFlow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ..core.protocols import ArraySpec, Exploration, SpecTree
from ..core.trace_inputs import Request

COUNTERS: Final = {"global_step": np.int64, "global_timestep": np.int64, "progress": np.float32}
"""What ``labels`` has beside the batch, in the order of a program's inputs, and its dtype."""


class VariableSpec(NamedTuple):
    """A variable; ``trainable`` tells whether it was created to be trained."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    trainable: bool


def relative_name(scope: str, name: str | None) -> str:
    """The variable's path without the numbers that Keras and TensorFlow append: ``dense_3/kernel`` is ``dense/kernel``.

    A second call of the same ``model_fn`` builds the same layers with higher numbers, so numbers say nothing. An
    optimizer's slots carry their variable's path inside their name (``dense_3_kernel_momentum``).
    """
    path = f"{scope}/{name or 'Variable'}".strip("/")
    return re.sub(r"_\d+(?=_|/|$)", "", path)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PredictMode:
    """PREDICT, which acts.

    Args:
        outputs: the predictions of one row.
        exploration: the behaviour policy; None for the greedy one.
        record: predictions, or extras of the exploration, that are stored with transitions.
        state: the recurrent state of one row; None if the model has none.
        noise: what behaviour draws in training; everywhere else it is zero.
        evaluation_hooks: those of the spec.
        not_exact: the stateful random ops it runs.
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
    """TRAIN, which learns from a batch.

    Args:
        batch: with its batch axes.
        metrics: names of the scalars that come after the loss.
        noise: what every update draws.
        reads: places of the inputs that it reads, among the arrays of the batch, ``COUNTERS``, the noise and the
            numbers of the run's params.
        params: the numbers of the run's params that are inputs (:mod:`axonrl.inputs`): their values, by name, in order.
        has_td_error: does the spec have TD errors?
        reads_progress: does it need to know how long the run is?
        training_hooks: those of the spec.
        not_exact: the stateful random ops it runs.
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
    """A model as a program: traced, or compiled before."""

    @property
    def name(self) -> str:
        """The ``model_fn``, for messages."""

    @property
    def predict(self) -> PredictMode:
        """What acts."""

    def variables(self) -> Mapping[str, VariableSpec]:
        """The variables in order, each under a unique name, which is the same in every process."""

    def predict_variables(self) -> Mapping[str, VariableSpec]:
        """Those that PREDICT created, which come first."""
