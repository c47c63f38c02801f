"""Programs with constant weights: written over, they are what a conversion would have made, or they are refused."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.protocols import ArraySpec, EstimatorSpec
from axonrl.policies.weight_patches import FrozenActor, FrozenProgram
from axonrl.runtimes import frozen
from axonrl.runtimes.frozen import acting_program, freeze
from axonrl.runtimes.litert.conversion import ConversionError
from axonrl.runtimes.tracing.program import Program

FRAME = ArraySpec((8, 8, 2), np.uint8)
Trace = Callable[..., Program]


KEPT: dict[tuple[str, str], bytes] = {}


def keeping(name: str, key: str, make: Callable[[], bytes]) -> bytes:
    """A cache for all tests: to convert takes seconds."""
    if (name, key) not in KEPT:
        KEPT[name, key] = make()
    return KEPT[name, key]


def convolutional(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """A convolution of scaled bytes, a dense layer, and biases that begin at zero."""
    layers = [
        keras.layers.Conv2D(3, 3, strides=2, activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(5, "relu"),
        keras.layers.Dense(2),
    ]
    values = keras.Sequential(layers)(tf.cast(features, tf.float32) / 255.0)
    return EstimatorSpec(mode, {"action": tf.argmax(values, axis=-1, output_type=tf.int32), "values": values})


def normalized(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """Batch normalisation after a convolution: the converter computes with their weights."""
    layers = [keras.layers.Conv2D(3, 3), keras.layers.BatchNormalization(), keras.layers.Flatten()]
    values = keras.Sequential([*layers, keras.layers.Dense(2)])(tf.cast(features, tf.float32))
    return EstimatorSpec(mode, {"action": tf.argmax(values, axis=-1, output_type=tf.int32), "values": values})


def spare(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    """One weight that nothing depends on, one that is used twice, and one of a single number."""
    unused = tf.Variable(tf.ones(3), name="unused")
    shared = tf.Variable(tf.ones((4, 4)), name="shared")
    scale = tf.Variable(2.0, name="scale")
    assert unused is not None
    values = tf.abs(tf.matmul(tf.matmul(features, shared), shared)) * scale
    return EstimatorSpec(mode, {"action": tf.argmax(values, axis=-1, output_type=tf.int32), "values": values})


def counting(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    count = tf.Variable(3, name="count")
    action = tf.zeros_like(features[:, 0], tf.int32) + count
    return EstimatorSpec(mode, {"action": action})


@pytest.fixture(scope="module")
def program(trace: Trace) -> Program:
    """Of the convolutional model: to freeze it changes nothing."""
    return trace(convolutional, FRAME)


def random_weights(program: Program, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    variables = program.store.predict_variables()
    return {name: rng.standard_normal(v.shape).astype(np.float32) for name, v in variables.items()}


def test_written_over_weights_give_the_file_that_a_conversion_gives(program: Program) -> None:
    """And other weights than those that the placements were found and proved with."""
    before = {name: variable.numpy() for name, variable in program.store.variables().items()}
    made = freeze(program, keeping)
    assert all(np.array_equal(before[name], variable.numpy()) for name, variable in program.store.variables().items())
    weights = random_weights(program, 5)
    variables = program.store.predict_variables()
    assert made.with_weights(weights) == frozen._convert_with_weights(program.predict.function, variables, weights)
    kernel, dense = made.placements[0], made.placements[2]
    assert (kernel.permutation, kernel.factor) == ((3, 0, 1, 2), 1 / 255)
    assert (dense.permutation, dense.factor) == ((1, 0), 1.0)


def test_a_weight_may_be_unused_or_used_twice(trace: Trace) -> None:
    program = trace(spare)
    actor = FrozenActor(freeze(program, keeping), ["action", "values"], None)
    unused, shared, scale = program.store.predict_variables()
    twice = np.diag([1, 2, 3, 4]).astype(np.float32)
    actor.set_weights({unused: np.zeros(3, np.float32), shared: twice, scale: np.array(10, np.float32)})
    assert actor.act(np.ones((1, 4), np.float32))[0]["values"].tolist() == [[10, 40, 90, 160]]


def test_what_cannot_be_frozen_is_refused(trace: Trace) -> None:
    with pytest.raises(ConversionError, match=r"not floats cannot be frozen: 0000.count int32"):
        freeze(trace(counting), keeping)


def test_the_same_model_with_other_weights_needs_no_other_program(program: Program, trace: Trace) -> None:
    def unneeded(name: str, key: str, make: Callable[[], bytes]) -> bytes:
        return KEPT[name, key]

    first = freeze(program, keeping)
    assert freeze(trace(convolutional, FRAME, seed=1), unneeded) == first
    with pytest.raises(KeyError):
        freeze(trace(convolutional, ArraySpec((8, 8, 1), np.uint8)), unneeded)


def test_an_actor_without_weights_says_so(trace: Trace) -> None:
    actor = FrozenActor(freeze(trace(spare), keeping), ["action", "values"], None)
    with pytest.raises(ValueError, match="call set_weights before act"):
        actor.act(np.ones((1, 4), np.float32))


def test_constants_where_that_pays_and_variables_elsewhere(program: Program, trace: Trace, caplog: Any) -> None:
    assert isinstance(acting_program(program, keeping), FrozenProgram)
    assert isinstance(acting_program(trace(spare), keeping), bytes)
    assert caplog.messages == []


def test_convolutions_that_cannot_be_frozen_keep_variables_and_it_is_said(trace: Trace, caplog: Any) -> None:
    assert isinstance(acting_program(trace(normalized, FRAME), keeping), bytes)
    # Others may log meanwhile: TensorFlow, or a thread of an earlier test.
    (message,) = (one for one in caplog.messages if "is exported with its weights as variables" in one)
    assert "is exported with its weights as variables, which is slower: the converter computed with" in message
