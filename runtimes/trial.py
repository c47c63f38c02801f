"""Trial of a converted program: its results are compared with TensorFlow's once, after the conversion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import tensorflow as tf
from gymnasium.spaces import Dict, Tuple

from ..core.protocols import Array
from ..core.trees import leaves
from ..environments import spaces
from ..policies import reasons
from ..policies.executors import Executor
from ..policies.lite_executor import LiteRTExecutor
from ..policies.modes import COUNTERS
from .litert.conversion import ConversionError
from .litert.executor import lite_executor
from .tensorflow import TensorFlowExecutor
from .tracing.program import Program, Train

_TOLERANCE: Final = 1e-2
"""Relative tolerance. Rounding differs by 1e-6; silent conversion errors are larger."""
_BYTES: Final = (255, 0)
"""Largest bytes in the trial inputs: for images first, then for indices of an embedding."""
_UPDATES: Final = 2
"""The second update shows the effect of the first on the variables."""


def try_out(program: Program, train: Train | None, content: bytes) -> None:
    """Run both executors on trial inputs. TensorFlow's variables are restored afterwards.

    Args:
        program: the traced ``model_fn``.
        train: its TRAIN, if converted.
        content: the LiteRT file.

    Raises:
        ConversionError: LiteRT cannot run the program, or their results differ.
    """
    theirs = TensorFlowExecutor(program, train)
    before = theirs.get_weights()
    try:
        lite = lite_executor(program, train, content)
        for byte in _BYTES:
            if _compared(lite, theirs, program, train, byte):
                return
            theirs.set_weights(before)
            lite.set_weights({name: before[name] for name in lite.get_weights()})
    except (RuntimeError, ValueError) as error:
        raise ConversionError(f"LiteRT cannot run the converted program: {error}"[:300]) from error
    finally:
        theirs.set_weights(before)


def _compared(lite: LiteRTExecutor, theirs: Executor, program: Program, train: Train | None, byte: int) -> bool:
    """Whether TensorFlow accepts the trial inputs; if not, nothing was compared."""
    try:
        if lite.acts:
            _compare_actions(lite, theirs, program, byte)
        if train is not None:
            _compare_updates(lite, theirs, program, train, byte)
    except tf.errors.OpError:
        return False
    return True


def _compare_actions(lite: Executor, theirs: Executor, program: Program, byte: int) -> None:
    observation, predict = _near_zero(program.spaces[0]), program.predict
    near = observation if predict.state is None else {"observation": observation}
    features = _made_up(predict.function.structured_input_signature[0][0], near, byte)
    rng = np.random.default_rng(0)
    draws = [request.draw(rng) for request in program.predict.noise]
    expected, found = theirs.act(features, draws)[0], lite.act(features, draws)[0]
    for name, value in expected.items():
        for array, other in zip(leaves(value), leaves(found[name]), strict=True):
            if array.dtype.kind == "f":  # either of two equal actions may be the best
                _compare(f"predictions[{name!r}]", other, array)


def _compare_updates(lite: Executor, theirs: Executor, program: Program, train: Train, byte: int) -> None:
    observation, action = map(_near_zero, program.spaces)
    specs = train.function.structured_input_signature[0][0]
    near = {name: observation for name in specs if name.endswith("observation")} | {"action": action}
    batch = _made_up(specs, near, byte)
    rng = np.random.default_rng(0)
    for step in range(_UPDATES):
        draws = [request.draw(rng) for request in train.noise]
        counters = dict.fromkeys(COUNTERS, step) | {"progress": step / _UPDATES}
        expected, found = (executor.train(batch, counters, draws) for executor in (theirs, lite))
        for name, a, b in zip(("loss", *train.metrics), found.scalars.tolist(), expected.scalars.tolist(), strict=True):
            _compare(name, np.array(a), np.array(b))


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
