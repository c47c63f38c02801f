"""The LiteRT executor: acting and learning in one program that keeps the weights inside."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...contracts import Array, ArraySpec, ArrayTree
from ...policies.executors import Acted, Features, TrainResult, check_weights
from ...policies.interpreter import Actor, LiteProgram
from ..tracing import graphs
from ..tracing.program import COUNTERS, Program, Train


class LiteRTExecutor:
    """Runs a converted program; the weights begin as TensorFlow's variables are.

    Args:
        program: the traced ``model_fn``.
        train: its TRAIN, or None to act only.
        content: of the LiteRT file that was converted from PREDICT, from TRAIN, or from both.

    Raises:
        ValueError: LiteRT does not take the program.
    """

    def __init__(self, program: Program, train: Train | None, content: bytes) -> None:
        self._name = program.name
        variables = program.store.variables() if train is not None else program.store.predict_variables()
        self._specs = {name: ArraySpec(v.shape, v.dtype.as_numpy_dtype) for name, v in variables.items()}
        self._predict = {name: self._specs[name] for name in program.store.predict_variables()}
        signatures = LiteProgram(content).signatures
        self._get, self._set = signatures.get("get"), signatures.get("set")
        self._put({name: variable.numpy() for name, variable in variables.items()})
        state = program.predict.state
        names = None if state is None else sorted(state)
        self._actor = Actor(signatures["act"], sorted(program.predict.outputs), names) if "act" in signatures else None
        self.acts = self._actor is not None
        self._train = None if train is None else signatures["train"]
        if self._train is not None and train is not None:
            places = _places(train.function.structured_input_signature[0][0])
            read = graphs.read_inputs(train.function.graph)
            unread = set(range(len(places) + len(COUNTERS))) - read  # noise is handed over in any case
            self._train.leave_out(unread)
            self._values = _picked([place for i, place in enumerate(places) if i in read])
            counters = {name: np.zeros((), np.int64) for i, name in enumerate(COUNTERS, len(places)) if i in read}
            self._counters, self._counter_arrays = tuple(counters.items()), tuple(counters.values())

    def act(self, features: Features) -> Acted:
        """Predictions [N, ...] for a batch of observations, and the next recurrent state of a model that has one.

        Raises:
            ValueError: it was made to learn only.
        """
        if self._actor is None:
            raise ValueError(f"this executor of {self._name} was made to learn only")
        return self._actor(features)

    def train(self, batch: Mapping[str, ArrayTree], counters: Mapping[str, int], draws: Sequence[Array]) -> TrainResult:
        """One training step on a batch whose shapes are those of the trace.

        Raises:
            ValueError: it was made to act only.
        """
        if self._train is None:
            raise ValueError(f"this executor of {self._name} was made to act only")
        for name, array in self._counters:
            array[()] = counters[name]
        scalars, *td_error = self._train((*self._values(batch), *self._counter_arrays, *draws))
        return TrainResult(scalars, td_error[0] if td_error else None)

    def get_weights(self) -> dict[str, Array]:
        """Every variable by name, copied."""
        return {} if self._get is None else dict(zip(self._specs, self._get([]), strict=True))

    def get_predict_weights(self) -> dict[str, Array]:
        """The variables that PREDICT uses, by name, copied."""
        weights = self.get_weights()
        return {name: weights[name] for name in self._predict}

    def set_weights(self, weights: Mapping[str, Array]) -> None:
        """Set PREDICT's variables, or all; nothing is set where something does not fit.

        Raises:
            ValueError: a name too many or too few, another shape or dtype; names it.
        """
        check_weights(self._name, weights, self._predict, self._specs)
        if len(weights) < len(self._specs):
            weights = {**self.get_weights(), **weights}
        self._put(weights)

    def _put(self, weights: Mapping[str, Array]) -> None:
        if self._set is not None:
            self._set([np.asarray(weights[name]) for name in self._specs])


def _picked(places: Sequence[tuple[str, str | None]]) -> Callable[[Mapping[str, Any]], Sequence[Array]]:
    """A function of a batch that returns the arrays which stand at these places."""
    if len(places) > 1 and all(part is None for _, part in places):
        return operator.itemgetter(*(key for key, _ in places))
    return lambda batch: [batch[key] if part is None else batch[key][part] for key, part in places]


def _places(tree: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Where the arrays of a batch stand: key, and name inside a Dict; in the order of ``leaves``."""
    found: list[tuple[str, str | None]] = []
    for key, value in sorted(tree.items()):
        found += [(key, part) for part in sorted(value)] if isinstance(value, Mapping) else [(key, None)]
    return found
