"""The TensorFlow executor: concrete functions, no retracing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from ..contracts import Array, ArrayTree
from .executors import TrainResult
from .tracing import COUNTERS, Program, Train


class TensorFlowExecutor:
    """Runs a traced program through TensorFlow's concrete functions.

    Args:
        program: the traced ``model_fn``.
    """

    name = "tensorflow"

    def __init__(self, program: Program) -> None:
        self.program = program
        self._predict = program.predict.function
        self._train: Any = None

    def prepare_training(self, train: Train) -> None:
        """Use this trace for ``train``."""
        self._train = train.function

    def act(self, features: ArrayTree) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state of a model that has one."""
        outputs = self._predict(_tensors(features))
        predictions = {name: tensor.numpy() for name, tensor in outputs["predictions"].items()}
        if "state" in outputs:
            return predictions, {name: tensor.numpy() for name, tensor in outputs["state"].items()}
        return predictions, None

    def train(self, batch: Mapping[str, ArrayTree], counters: Mapping[str, int], draws: Sequence[Array]) -> TrainResult:
        """One training step on a batch whose shapes are those of the trace."""
        outputs = self._train(
            _tensors(batch),
            {name: tf.constant(counters[name], tf.int64) for name in COUNTERS},
            [tf.constant(draw) for draw in draws],
        )
        td_error = outputs.get("td_error")
        return TrainResult(outputs["scalars"].numpy(), None if td_error is None else td_error.numpy())

    def get_weights(self) -> dict[str, Array]:
        """Every variable by name, copied."""
        return {name: variable.numpy() for name, variable in self.program.store.variables().items()}

    def get_predict_weights(self) -> dict[str, Array]:
        """The variables that PREDICT uses, by name, copied."""
        store = self.program.store
        predict = itertools.islice(store.variables().items(), store.num_predict)
        return {name: variable.numpy() for name, variable in predict}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the variables named.

        Raises:
            ValueError: a name that the program has not, or another shape.
        """
        variables = self.program.store.variables()
        for name, value in weights.items():
            if name not in variables:
                raise ValueError(f"{self.program.name} has no variable {name!r}; it has {', '.join(variables)}")
            variable = variables[name]
            if tuple(variable.shape) != value.shape:
                raise ValueError(f"{name} has shape {tuple(variable.shape)}, the saved weights {value.shape}")
            variable.assign(value)


def _tensors(tree: Any) -> Any:
    if isinstance(tree, Mapping):
        return {key: _tensors(value) for key, value in tree.items()}
    return tf.constant(tree)
