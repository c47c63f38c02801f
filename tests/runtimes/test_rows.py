"""Every kind of model acts on any number of rows, in every executor: each row as if it were alone."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import noise
from axonrl.core.protocols import ArraySpec, EstimatorSpec
from axonrl.core.trees import leaves
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.litert.executor import lite_executor
from axonrl.runtimes.tensorflow import TensorFlowExecutor
from axonrl.runtimes.tracing.program import Program

VECTOR, IMAGE = ArraySpec((3,), np.float32), ArraySpec((8, 8, 1), np.uint8)
MASK = ArraySpec((2,), np.float32)
# One array or several, with and without convolutions (which TensorFlow calls in another way), state, noise and a mask.
KINDS: dict[str, tuple[Any, bool, bool]] = {
    "vector": (VECTOR, False, False),
    "image": (IMAGE, False, False),
    "image, state": (IMAGE, True, False),
    "image and vector": ({"image": IMAGE, "vector": VECTOR}, False, False),
    "image, vector and mask, noise": ({"action_mask": MASK, "image": IMAGE, "vector": VECTOR}, False, True),
    "vector and mask, state, noise": ({"action_mask": MASK, "vector": VECTOR}, True, True),
}


def model(state: bool, noisy: bool) -> Callable[..., EstimatorSpec]:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        given = features["observation"] if isinstance(features, dict) and "state" in features else features
        parts = dict(given) if isinstance(given, dict) else {"vector" if given.shape[-1] == 3 else "image": given}
        mask = parts.pop("action_mask", None)
        hidden = []
        for name, part in sorted(parts.items()):
            seen = part if name == "vector" else keras.layers.Conv2D(16, 4)(tf.cast(part, tf.float32) / 255)
            hidden.append(keras.layers.Dense(4, "tanh")(keras.layers.Flatten()(seen)))
        memory = {}
        if state:
            before = features["state"]["sum"] if isinstance(features, dict) and "state" in features else None
            memory["sum"] = hidden[0] if before is None else before + hidden[0]
            hidden.append(memory["sum"])
        q = keras.layers.Dense(2)(tf.concat(hidden, -1))
        q = q if mask is None else tf.where(mask > 0, q, -1e9)
        predictions = {"q": q, "action": tf.argmax(q, -1, output_type=tf.int32)}
        if noisy:
            predictions["noisy"] = q + noise.normal([2])
        return EstimatorSpec(mode, predictions, state=memory or None)

    return model_fn


@pytest.mark.parametrize("kind", KINDS)
def test_each_row_is_as_if_it_were_alone(kind: str, trace: Callable[..., Program]) -> None:
    observation, state, noisy = KINDS[kind]
    program = trace(model(state, noisy), observation)
    assert (program.predict.large is not None) == ("image" in kind)
    functions = {"act": program.predict.function}
    content = convert(functions, list(program.store.predict_variables().values()))
    rng = np.random.default_rng(0)

    def rows(spec: Any) -> Any:
        if isinstance(spec, dict):
            return {name: rows(one) for name, one in spec.items()}
        shape = (64, *spec.shape)
        drawn = rng.standard_normal(shape) if spec.dtype.kind == "f" else rng.integers(0, 200, shape)
        return drawn.astype(spec.dtype)

    features = rows(observation)
    if state:
        features = {"observation": features, "state": rows(program.predict.state)}
    draws = [request.draw(rng) for request in program.predict.noise]
    for executor in (TensorFlowExecutor(program), lite_executor(program, None, content)):
        alone = [acted(executor, _rows(features, k, k + 1), draws) for k in range(64)]
        for count in (1, 8, 9, 64, 1):
            together = acted(executor, _rows(features, 0, count), draws)
            for found, *single in zip(together, *alone[:count], strict=True):
                np.testing.assert_allclose(found, np.concatenate(single), rtol=1e-4, atol=1e-5)


def acted(executor: Any, features: Any, draws: list[Any]) -> list[Any]:
    """Predictions and the next recurrent state, as arrays [N, ...]."""
    predictions, state = executor.act(features, draws)
    return leaves([predictions, state or {}])


def _rows(tree: Any, first: int, end: int) -> Any:
    return {name: _rows(one, first, end) for name, one in tree.items()} if isinstance(tree, dict) else tree[first:end]
