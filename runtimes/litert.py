"""The LiteRT executor: acting and learning in one program that keeps the weights inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contracts import Array, ArraySpec, ArrayTree
from .executors import Acted, Features, TrainResult, check_weights
from .interpreter import Actor, LiteProgram
from .tracing import COUNTERS, Program, Train


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
        self._places = [] if train is None else _places(train.function.structured_input_signature[0][0])
        self._counters = [np.zeros((), np.int64) for _ in COUNTERS]

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
        for name, array in zip(COUNTERS, self._counters, strict=True):
            array[()] = counters[name]
        arrays: list[Any] = [batch[key] if part is None else batch[key][part] for key, part in self._places]
        scalars, *td_error = self._train([*arrays, *self._counters, *draws])
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


def _places(tree: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """Where the arrays of a batch stand: key, and name inside a Dict; in the order of ``leaves``."""
    found: list[tuple[str, str | None]] = []
    for key, value in sorted(tree.items()):
        found += [(key, part) for part in sorted(value)] if isinstance(value, Mapping) else [(key, None)]
    return found
