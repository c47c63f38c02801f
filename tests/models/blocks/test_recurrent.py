"""The LSTM against a loop in NumPy; which timesteps change its state, and where gradients flow."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from axonrl.models.blocks.lstm import LSTM
from axonrl.models.blocks.recurrent import RecurrentNetwork, RecurrentParams

F32 = np.float32


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def numpy_lstm(layer: LSTM, inputs: Any, hidden: Any, cell: Any, valid: Any) -> tuple[Any, Any, Any]:
    kernel, recurrent, bias = (variable.numpy() for variable in layer.variables)
    outputs = []
    for x, counts in zip(inputs, valid, strict=True):
        i, f, g, o = np.split(x @ kernel + hidden @ recurrent + bias, 4, axis=-1)
        following = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        outputs.append(sigmoid(o) * np.tanh(following))
        hidden = np.where(counts[:, None] > 0, outputs[-1], hidden)
        cell = np.where(counts[:, None] > 0, following, cell)
    return np.stack(outputs), hidden, cell


def test_an_lstm_unrolled() -> None:
    rng = np.random.default_rng(0)
    layer = LSTM(3, 2, "glorot_uniform")
    assert layer.variables[2].numpy().tolist() == [0, 0, 1, 1, 0, 0, 0, 0]  # forget gates begin open
    inputs, hidden, cell = (rng.normal(size=shape).astype(F32) for shape in [(4, 2, 3), (2, 2), (2, 2)])
    before = {"hidden": tf.constant(hidden), "cell": tf.constant(cell)}
    outputs, state = layer(tf.constant(inputs), before)
    expected = numpy_lstm(layer, inputs, hidden, cell, np.ones((4, 2)))
    for found, value in zip((outputs, state["hidden"], state["cell"]), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
    valid = np.array([[0, 1], [1, 1], [1, 0], [1, 0]], F32)
    state = layer.after(tf.constant(inputs), before, tf.constant(valid))
    _, hidden, cell = numpy_lstm(layer, inputs, hidden, cell, valid)
    np.testing.assert_allclose(state["hidden"], hidden, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state["cell"], cell, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("broken", [False, True])
def test_gradients_and_their_gradients_are_those_of_the_plain_loop(broken: bool) -> None:
    rng = np.random.default_rng(2)
    layer = LSTM(3, 2, "glorot_uniform")
    shapes = [(4, 3, 3), (3, 2), (3, 2), *(tuple(variable.shape) for variable in layer.variables)]
    given = [tf.constant(rng.normal(size=shape).astype(F32)) for shape in shapes]
    begins = np.zeros((4, 3), F32)
    if broken:
        begins[[0, 2, 3], [1, 1, 2]] = 1
    weight = tf.constant(rng.normal(size=(4, 3, 2)).astype(F32))

    def plain(inputs: Any, hidden: Any, cell: Any, kernel: Any, recurrent: Any, bias: Any) -> Any:
        outputs = []
        for x, starts in zip(tf.unstack(inputs), begins, strict=True):
            hidden, cell = (tf.where(starts[:, None] > 0, 0.0, value) for value in (hidden, cell))
            i, f, g, o = tf.split(x @ kernel + hidden @ recurrent + bias, 4, axis=-1)
            cell = tf.sigmoid(f) * cell + tf.sigmoid(i) * tf.tanh(g)
            hidden = tf.sigmoid(o) * tf.tanh(cell)
            outputs.append(hidden)
        return tf.stack(outputs)

    def own(inputs: Any, hidden: Any, cell: Any, *variables: Any) -> Any:
        layer.variables = list(variables)
        state = {"hidden": hidden, "cell": cell}
        return layer.unrolled(inputs, state, tf.constant(begins))[0] if broken else layer(inputs, state)[0]

    def derivatives(*tensors: Any) -> list[list[Any]]:
        """First ones, and those of the sum of their squares, which TRPO has alike."""
        found = []
        for function in (plain, own):
            first = tf.gradients(tf.reduce_sum(weight * function(*tensors)), tensors)
            found.append([*first, *tf.gradients(tf.add_n([tf.reduce_sum(tf.square(each)) for each in first]), tensors)])
        return found

    expected, found = tf.function(derivatives)(*given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_burn_in_changes_the_state_and_gets_no_gradient() -> None:
    params = RecurrentParams(hidden=(4,), activation="tanh")
    network = RecurrentNetwork("online", (3,), {"q_values": 2}, params, 2)
    rng = np.random.default_rng(1)
    inputs = tf.constant(rng.normal(size=(5, 2, 3)).astype(F32))  # two timesteps of burn-in
    state = {name: tf.constant(rng.normal(size=(2, 2)).astype(F32)) for name in ("hidden", "cell")}
    burn_in = tf.constant([[0.0, 1.0], [1.0, 1.0]])
    sequences: Any = SimpleNamespace(state=state, burn_in=2, labels={"burn_in": burn_in})
    with tf.GradientTape() as tape:
        tape.watch([inputs, *state.values()])
        outputs = network.unroll(inputs, sequences)
    gradients = tape.gradient(outputs, [inputs, *state.values()])
    assert gradients[1:] == [None, None]
    moved = np.abs(tf.convert_to_tensor(gradients[0])).sum(axis=(1, 2)) > 0
    assert moved.tolist() == [False, False, True, True, True]

    after = network.lstm.after(tf.reshape(network.body(tf.reshape(inputs[:2], [4, 3])), [2, 2, 4]), state, burn_in)
    expected, _ = network(inputs[2:], after)
    np.testing.assert_allclose(outputs, expected, rtol=1e-6)
    stale, _ = network(inputs[2:], state)
    assert np.abs(outputs - stale).max() > 0.01


def test_every_variable_by_order_and_shape() -> None:
    network = RecurrentNetwork("online", (3,), {"a": 2, "b": 1}, RecurrentParams(hidden=(4,)), 5, zeros=True)
    shapes = [tuple(variable.shape) for variable in network.variables]
    assert shapes == [(3, 4), (4,), (4, 20), (5, 20), (20,), (5, 2), (2,), (5, 1), (1,)]
    assert not any(variable.numpy().any() for variable in network.variables if len(variable.shape) == 2)
