"""The TensorFlow executor: concrete functions, without retracing. Also runs EVAL for all executors."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import ConfigProto, GraphOptions
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from ..core.protocols import Array, ArraySpec, ArrayTree
from ..core.tensorflow_import import use_tensorflow
from ..core.trees import leaves
from ..policies.batches import BatchBoundary
from ..policies.executors import Acted, Features, TrainResult, check_weights, with_parts
from ..policies.modes import COUNTERS
from .tracing import graphs
from .tracing.program import Eval, Program, Train

_FEW: Final = 8
"""Up to this number of observations, the short way is faster even for a convolutional network."""
_ON_THIS_THREAD: Final = "SINGLE_THREADED_EXECUTOR"
_NOT_OPTIMIZED: Final = ConfigProto(
    graph_options=GraphOptions(rewrite_options=RewriterConfig(disable_meta_optimizer=True))
).SerializeToString()


class TensorFlowExecutor:
    """Runs a traced program through TensorFlow's concrete functions.

    Args:
        program: the traced ``model_fn``.
        train: its TRAIN; None to act only.
        optimized: does TensorFlow optimise the graphs before they run? For two calls that takes longer than the calls.
    """

    def __init__(self, program: Program, train: Train | None = None, *, optimized: bool = True) -> None:
        self._name = program.name
        self._variables = program.store.variables()
        self._specs = {name: ArraySpec(v.shape, v.dtype.as_numpy_dtype) for name, v in self._variables.items()}
        self._predict = {name: self._specs[name] for name in program.store.predict_variables()}
        predict = program.predict
        self._act_on_few = _Call(predict.function, True)
        self._act = self._act_on_few if predict.large is None else _Call(predict.function, False)
        self._zeros = [np.zeros(request.shape, request.dtype) for request in predict.noise]
        self._predictions = sorted(predict.outputs)
        self._state = None if predict.state is None else sorted(predict.state)
        self._train = None
        if train is not None:
            self._train = _Call(_with_constants(train), train.large is None, optimized=optimized)
        self._batch = None if train is None else BatchBoundary(train.batch)

    @functools.cached_property
    def _read_predict(self) -> _Call:
        """Read PREDICT's variables in one call, as it may precede every action if another executor acts."""
        variables = [self._variables[name] for name in self._predict]
        read = tf.function(lambda: [variable.read_value() for variable in variables], autograph=False)
        return _Call(read.get_concrete_function(), small=True)

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state, if the model has one."""
        few = len(leaves(features)[0]) <= _FEW
        outputs = iter((self._act_on_few if few else self._act)(features, draws or self._zeros))
        predictions = with_parts({name: next(outputs) for name in self._predictions})
        return predictions, None if self._state is None else {name: next(outputs) for name in self._state}

    def train(
        self, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]
    ) -> TrainResult:
        """Run one training step on a batch of the traced shapes.

        Raises:
            ValueError: it only acts, or an array has a wrong shape or dtype; names the key.
        """
        if self._train is None or self._batch is None:
            raise ValueError(f"this executor of {self._name} only acts")
        numbers = {name: np.asarray(counters[name], dtype) for name, dtype in COUNTERS.items()}
        scalars, *td_error = self._train(self._batch.convert(batch), numbers, draws)
        return TrainResult(scalars, td_error[0] if td_error else None)

    def get_weights(self) -> dict[str, Array]:
        """Copy every variable, by name."""
        use_tensorflow()
        return {name: variable.numpy() for name, variable in self._variables.items()}

    def get_predict_weights(self) -> dict[str, Array]:
        """Copy the variables used by PREDICT, by name."""
        return dict(zip(self._predict, self._read_predict(), strict=True))

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; sets none if any does not fit.

        Raises:
            ValueError: a name is missing or unknown, or a shape or dtype is wrong; names it.
        """
        use_tensorflow()
        check_weights(self._name, weights, self._predict, self._specs)
        for name, value in weights.items():
            self._variables[name].assign(value)


class TensorFlowEval:
    """Runs EVAL in TensorFlow with given weights, whichever executor the run uses, as EVAL is rare.

    Args:
        program: the traced ``model_fn``.
        evaluation: its EVAL.
    """

    def __init__(self, program: Program, evaluation: Eval) -> None:
        used = {id(tensor) for tensor in evaluation.function.captured_inputs}
        self._variables = {name: v for name, v in program.store.variables().items() if id(v.handle) in used}
        self._run = _Call(evaluation.function, small=False)
        self._batch = BatchBoundary(evaluation.batch)

    def get_weights(self) -> dict[str, Array]:
        """Copy the variables that EVAL reads, by name.

        TensorFlow executors share them. A LiteRT executor contains its weights, and these stay the initial ones, which
        the cache of programs stores.
        """
        return {name: variable.numpy() for name, variable in self._variables.items()}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set the weights to evaluate: all weights of a run, by name."""
        for name, variable in self._variables.items():
            variable.assign(weights[name])

    def __call__(self, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]) -> Array:
        """Return the loss, then the eval metrics in the order of ``Eval.metrics``, float32 [1 + M]."""
        numbers = {name: np.asarray(counters[name], dtype) for name, dtype in COUNTERS.items()}
        (scalars,) = self._run(self._batch.convert(batch), numbers, draws)
        return scalars


class _Call:
    """A concrete function from NumPy arrays to a flat list of outputs as arrays.

    A small function's time is mostly call overhead. One op that runs the function on NumPy arrays takes a tenth of the
    time of the Python path around a concrete function, with identical results. It runs on the calling thread, which is
    slower for functions that are large enough to run in parallel.

    TensorFlow's default executor may still pass each op to another thread, which made a Nature CNN act up to 50 %
    slower. The executor that does not do that cannot run loops.

    Args:
        function: the concrete function.
        small: take the short way, regardless of the number of threads.
        optimized: as for :class:`TensorFlowExecutor`, on the short way.
    """

    def __init__(self, function: Any, small: bool, *, optimized: bool = True) -> None:
        branches = graphs.branches(graphs.reached_ops(graphs.reached_nodes(function.graph)))
        self._function = function
        self._short = small or (not branches and _has_one_thread())
        self._executor = "" if branches else _ON_THIS_THREAD
        self._config = b"" if optimized else _NOT_OPTIMIZED
        self._arguments = function.structured_input_signature[0]
        self._captured = list(function.captured_inputs)
        self._dtypes = [tensor.dtype for tensor in function.outputs]

    def __call__(self, *inputs: Any) -> list[Array]:
        use_tensorflow()
        try:
            return [tensor.numpy() for tensor in self._outputs(inputs)]
        except tf.errors.OpError as error:  # the traceback frames of the model's function are lost here
            place = graphs.place_of_failure(self._function.graph, error.message)
            if place is None:
                raise
            raise type(error)(error.node_def, error.op, f"{error.message} ({place})") from error

    def _outputs(self, inputs: Sequence[Any]) -> Any:
        if self._short:
            # A tensor shares the memory of its array, and a variable that of an assigned tensor, so copies are
            # needed.
            arguments = [*(array.copy() for array in leaves(inputs)), *self._captured]
            return tf.raw_ops.StatefulPartitionedCall(
                args=arguments,
                Tout=self._dtypes,
                f=self._function,
                config_proto=self._config,
                executor_type=self._executor,
            )
        # As traced: without noise, an empty list of draws, or no argument at all.
        arguments = tf.nest.pack_sequence_as(self._arguments, [tf.constant(array) for array in leaves(inputs)])
        return tf.nest.flatten(self._function(*arguments))


def _with_constants(train: Train) -> Any:
    """TRAIN's function with three arguments and its params as constants, which TensorFlow folds."""
    if not train.params:
        return train.function

    def call(*inputs: Any) -> Any:  # constants from outside would become inputs again
        return train.function(*inputs, {name: tf.constant(value, tf.float32) for name, value in train.params.items()})

    arguments = train.function.structured_input_signature[0][:3]
    return tf.function(call, autograph=False).get_concrete_function(*arguments)


def _has_one_thread() -> bool:
    """Does TensorFlow use one thread, by its settings, the environment, or the number of processors?"""
    inside = tf.config.threading.get_intra_op_parallelism_threads()
    between = tf.config.threading.get_inter_op_parallelism_threads()
    return _threads(inside, "TF_NUM_INTRAOP_THREADS") == _threads(between, "TF_NUM_INTEROP_THREADS") == 1


def _threads(configured: int, variable: str) -> int:
    given = os.environ.get(variable, "")
    if threads := configured or (int(given) if given.isdigit() else 0):
        return threads
    affinity = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(affinity(0)) if affinity else os.cpu_count() or 1
