"""The TensorFlow executor: concrete functions, no retracing."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ..contracts import Array, ArrayTree
from .executors import Features, TrainResult
from .tracing import COUNTERS, Program, Train


class TensorFlowExecutor:
    """Runs a traced program through TensorFlow's concrete functions.

    Args:
        program: the traced ``model_fn``.
    """

    name = "tensorflow"

    def __init__(self, program: Program) -> None:
        self.program = program
        predict = program.predict
        self._predict = _Call(predict.function, predict.small)
        self._predictions = sorted(predict.outputs)
        self._state = None if predict.state is None else sorted(predict.state)
        self._train: _Call | None = None

    def prepare_training(self, train: Train) -> None:
        """Use this trace for ``train``."""
        self._train = _Call(train.function, train.small)

    def act(self, features: Features) -> tuple[dict[str, Array], dict[str, Array] | None]:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state of a model that has one."""
        outputs = iter(self._predict(features))
        predictions = {name: next(outputs) for name in self._predictions}
        return predictions, None if self._state is None else {name: next(outputs) for name in self._state}

    def train(self, batch: Mapping[str, ArrayTree], counters: Mapping[str, int], draws: Sequence[Array]) -> TrainResult:
        """One training step on a batch whose shapes are those of the trace.

        Raises:
            ValueError: ``prepare_training`` was not called.
        """
        if self._train is None:
            raise ValueError("the executor trains only after prepare_training")
        numbers = {name: np.asarray(counters[name], np.int64) for name in COUNTERS}
        *td_error, scalars = reversed(self._train(batch, numbers, draws))
        return TrainResult(scalars, td_error[0] if td_error else None)

    def get_weights(self) -> dict[str, Array]:
        """Every variable by name, copied."""
        return {name: variable.numpy() for name, variable in self.program.store.variables().items()}

    def get_predict_weights(self) -> dict[str, Array]:
        """The variables that PREDICT uses, by name, copied."""
        return {name: variable.numpy() for name, variable in self._predict_variables().items()}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; nothing is set where something does not fit.

        Raises:
            ValueError: a name too many or too few, another shape or dtype; names it.
        """
        name, variables = self.program.name, self.program.store.variables()
        expected = self._predict_variables() if weights.keys() <= self._predict_variables().keys() else variables
        unknown = [key for key in weights if key not in variables]
        missing = [key for key in expected if key not in weights]
        if unknown or missing:
            raise ValueError(
                f"these are not the weights of {name}: unknown {unknown}, missing {missing}; it has"
                f" {', '.join(variables)}"
            )
        for key, value in weights.items():
            variable = variables[key]
            if not variable.shape.is_compatible_with(value.shape) or variable.dtype.as_numpy_dtype != value.dtype:
                raise ValueError(
                    f"{key} of {name} is {variable.dtype.name}{variable.shape}, given was {value.dtype}{value.shape}"
                )
        for key, value in weights.items():
            variables[key].assign(value)

    def _predict_variables(self) -> dict[str, tf.Variable]:
        store = self.program.store
        return dict(itertools.islice(store.variables().items(), store.num_predict))


class _Call:
    """A concrete function that takes NumPy arrays and returns its outputs as a flat list of them.

    Most of a small function's time is the overhead of its call. One op that runs the function, given NumPy arrays,
    takes a tenth of the Python path around a concrete function, with the same bits. It runs on the calling thread,
    which is slower where a function is large enough to be run in parallel.

    Args:
        function: the concrete function.
        small: take the short way.
    """

    def __init__(self, function: Any, small: bool) -> None:
        self._function = function
        self._small = small
        self._captured = list(function.captured_inputs)
        self._dtypes = [tensor.dtype for tensor in function.outputs]

    def __call__(self, *inputs: Any) -> list[Array]:
        if self._small:
            arguments = [*_arrays(inputs), *self._captured]
            outputs = tf.raw_ops.StatefulPartitionedCall(args=arguments, Tout=self._dtypes, f=self._function)
        else:
            outputs = tf.nest.flatten(self._function(*tf.nest.map_structure(tf.constant, inputs)))
        return [tensor.numpy() for tensor in outputs]


def _arrays(tree: Any) -> list[Array]:
    """The arrays of a tree, in the order in which TensorFlow flattens it: dictionaries by sorted keys.

    They are copied, because a tensor shares the memory of an array that it is made from, and a variable that of a
    tensor which is assigned to it.
    """
    if isinstance(tree, Mapping):
        return [array for key in sorted(tree) for array in _arrays(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [array for item in tree for array in _arrays(item)]
    return [tree.copy()]
