"""Trial of a converted program: its results are compared with TensorFlow's once, after the conversion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import tensorflow as tf
from gymnasium.spaces import Dict, Tuple

from ..core.protocols import Array
from ..core.trees import leaves
from ..environments import spaces
from ..policies import reasons
from ..policies.executors import Executor
from ..policies.modes import COUNTERS
from .litert.conversion import ConversionError
from .litert.executor import lite_executor
from .tensorflow import TensorFlowExecutor
from .tracing.program import Program, Train

Results: TypeAlias = "list[tuple[str, Array]]"
"""Names and values."""
_TOLERANCE: Final = 1e-2
"""Relative tolerance. Rounding differences are about 1e-6; silent conversion errors are larger."""
_BYTES: Final = (255, 0)
"""Largest byte in the trial inputs: first for images, then for indices of an embedding."""
_UPDATES: Final = 2
"""The second update shows the effect of the first on the variables."""


class Trial:
    """Compares LiteRT's results on trial inputs with TensorFlow's, which may be computed during the conversion.

    Args:
        program: the traced ``model_fn``.
        train: its TRAIN, if converted.
        acts: is PREDICT converted?
    """

    def __init__(self, program: Program, train: Train | None, acts: bool = True) -> None:
        self._program, self._train, self._acts = program, train, acts
        self._tensorflow = TensorFlowExecutor(program, train, optimized=False)
        self._byte: int | None = None
        """The largest byte that TensorFlow accepts in the inputs; None if it accepts none."""

    def expected(self) -> Results:
        """Run TensorFlow. Its variables are restored afterwards."""
        before = self._tensorflow.get_weights()
        for byte in _BYTES:
            try:
                results = [*self._results(self._tensorflow, byte)]
            except tf.errors.OpError:
                continue
            finally:
                self._tensorflow.set_weights(before)
            self._byte = byte
            return results
        return []

    def compare(self, content: bytes, expected: Results) -> None:
        """Run a LiteRT file.

        Raises:
            ConversionError: LiteRT cannot run it, or its results differ.
        """
        try:
            lite = lite_executor(self._program, self._train, content)
            found = [] if self._byte is None else [*self._results(lite, self._byte)]
        except (RuntimeError, ValueError) as error:
            raise ConversionError(f"LiteRT cannot run the converted program: {error}"[:300]) from error
        for (what, array), (_, other) in zip(expected, found, strict=True):
            _compare(what, other, array)

    def _results(self, executor: Executor, byte: int) -> Iterator[tuple[str, Array]]:
        """An executor's predictions that are floats, then losses and metrics of updates."""
        program, rng = self._program, np.random.default_rng(0)
        observation, action = map(_near_zero, program.spaces)
        if self._acts:
            near = observation if program.predict.state is None else {"observation": observation}
            features = _made_up(program.predict.function.structured_input_signature[0][0], near, byte)
            predictions, _ = executor.act(features, [request.draw(rng) for request in program.predict.noise])
            for name in sorted(predictions):  # either of two equal actions may be the best
                yield from ((f"predictions[{name!r}]", x) for x in leaves(predictions[name]) if x.dtype.kind == "f")
        if self._train is None:
            return
        specs = self._train.function.structured_input_signature[0][0]
        near = {name: observation for name in specs if name.endswith("observation")} | {"action": action}
        batch, rng = _made_up(specs, near, byte), np.random.default_rng(0)
        for step in range(_UPDATES):
            draws = [request.draw(rng) for request in self._train.noise]
            counters = dict.fromkeys(COUNTERS, step) | {"progress": step / _UPDATES}
            scalars = executor.train(batch, counters, draws).scalars.tolist()
            yield from zip(("loss", *self._train.metrics), map(np.array, scalars), strict=True)


def _near_zero(space: Any) -> Any:
    """Valid integers nearest to zero for each array of a space; by name if it has several."""
    if space is None:
        return 0
    near = {leaf.name: np.clip(0, *(spaces.limits(leaf.space) or (0, 0))) for leaf in spaces.leaves(space)}
    return near if isinstance(space, Dict | Tuple) else near[""]


def _made_up(specs: Any, near: Any, byte: int) -> Any:
    """Trial inputs of a function: floats in [0, 1), bytes up to ``byte``, and other integers ``near`` zero.

    Args:
        specs: a tree of TensorFlow's specs.
        near: integers, in the same structure where they are not zero.
        byte: the largest byte.
    """
    rng = np.random.default_rng(0)

    def make(spec: Any, near: Any) -> Any:
        if isinstance(spec, Mapping):
            return {
                name: make(one, near.get(name, 0) if isinstance(near, Mapping) else 0) for name, one in spec.items()
            }
        shape, dtype = [size or 2 for size in spec.shape], spec.dtype.as_numpy_dtype
        if spec.dtype.is_floating:
            return rng.random(shape).astype(dtype)
        return rng.integers(0, byte, shape, dtype, endpoint=True) if dtype == np.uint8 else np.full(shape, near, dtype)

    return make(specs, near)


def _compare(what: str, found: Array, expected: Array) -> None:
    wrong = ~np.isclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE * 1e-2, equal_nan=True)
    if wrong.any():
        pair = f"{found[wrong][0]:g} instead of {expected[wrong][0]:g}"
        raise ConversionError(f"{what} is {pair}", reasons.DIFFERS)
