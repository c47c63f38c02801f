"""The LiteRT executor: acts and learns in one program that contains the weights. Loads no TensorFlow."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np

from ..core.protocols import Array, ArraySpec, ArrayTree
from .batches import BatchBoundary
from .executors import Acted, Features, TrainResult, check_weights
from .interpreter import ActSignature, LiteProgram, Signature
from .modes import COUNTERS, ModelProgram, PredictMode, TrainMode


class LiteRTExecutor:
    """Runs a converted program. Thread-safe: calls wait for each other.

    Args:
        program: the converted program.
        train: its TRAIN, or None to act only.
        content: the LiteRT file converted from PREDICT, from TRAIN, or from both.
        weights: initial values of the variables.

    Raises:
        ValueError: LiteRT cannot load the program.
    """

    def __init__(
        self, program: ModelProgram, train: TrainMode | None, content: bytes, weights: Mapping[str, Array]
    ) -> None:
        self._name = program.name
        self._lock = threading.RLock()
        predict = program.predict_variables()
        variables = program.variables() if train is not None else predict
        self._specs = {name: ArraySpec(v.shape, v.dtype) for name, v in variables.items()}
        self._predict = {name: self._specs[name] for name in predict}
        signatures = LiteProgram(content).signatures
        self._get, self._set = signatures.get("get"), signatures.get("set")
        self._put(weights)
        self._act = _acting(program.predict, signatures["act"]) if "act" in signatures else None
        self.acts = self._act is not None
        self._train = None if train is None else signatures["train"]
        if self._train is not None and train is not None:
            self._batch, self._num_draws = BatchBoundary(train.batch, train.reads), len(train.noise)
            first = self._batch.number
            noise = range(first + len(COUNTERS), first + len(COUNTERS) + len(train.noise))  # is always passed
            self._train.leave_out(set(range(len(self._train.inputs))) - train.reads - {*noise})
            self._params = tuple(np.array(value, np.float32) for value in train.params.values())
            counters = {
                name: np.zeros((), dtype) for i, (name, dtype) in enumerate(COUNTERS.items(), first) if i in train.reads
            }
            self._counters, self._counter_arrays = tuple(counters.items()), tuple(counters.values())

    def act(self, features: Features, draws: Sequence[Array] = ()) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state, if the model has one.

        Raises:
            ValueError: it only learns; wrong number of arrays, shape or dtype.
        """
        if self._act is None:
            raise ValueError(f"this executor of {self._name} only learns")
        with self._lock:
            return self._act(features, draws)

    def train(
        self, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]
    ) -> TrainResult:
        """Run one training step on a batch of the traced shapes.

        Raises:
            ValueError: it only acts; an array has a wrong shape or dtype, or a counter is missing (names the key);
                wrong number of draws.
        """
        if self._train is None:
            raise ValueError(f"this executor of {self._name} only acts")
        with self._lock:
            return self._update(self._train, batch, counters, draws)

    def _update(
        self, train: Signature, batch: Mapping[str, ArrayTree], counters: Mapping[str, float], draws: Sequence[Array]
    ) -> TrainResult:
        try:
            for name, array in self._counters:
                array[()] = counters[name]
        except KeyError as error:
            raise ValueError(f"counters must have {', '.join(COUNTERS)}; {error} is missing") from None
        arrays = (*self._batch.arrays(batch), *self._counter_arrays, *draws, *self._params)
        try:
            scalars, *td_error = train(arrays)
        except ValueError:
            self._batch.convert(batch)  # names the array with a wrong shape
            if len(draws) != self._num_draws:
                raise ValueError(
                    f"an update of {self._name} takes {self._num_draws} draws of noise, got {len(draws)}"
                ) from None
            raise
        return TrainResult(scalars, td_error[0] if td_error else None)

    def get_weights(self) -> dict[str, Array]:
        """Copy every variable, by name."""
        with self._lock:
            return {} if self._get is None else dict(zip(self._specs, self._get([]), strict=True))

    def get_predict_weights(self) -> dict[str, Array]:
        """Copy the variables used by PREDICT, by name."""
        weights = self.get_weights()
        return {name: weights[name] for name in self._predict}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; sets none if any does not fit.

        Raises:
            ValueError: a name is missing or unknown, or a shape or dtype is wrong; names it.
        """
        check_weights(self._name, weights, self._predict, self._specs)
        with self._lock:
            if len(weights) < len(self._specs):
                weights = {**self.get_weights(), **weights}
            self._put(weights)

    def _put(self, weights: Mapping[str, Array]) -> None:
        if self._set is not None:
            self._set([np.asarray(weights[name]) for name in self._specs])


def _acting(predict: PredictMode, signature: Signature) -> ActSignature:
    state = None if predict.state is None else sorted(predict.state)
    zeros = [np.zeros(request.shape, request.dtype) for request in predict.noise]
    return ActSignature(signature, sorted(predict.outputs), state, zeros)
