"""Networks from layer lists: names, shapes, initial values, joins, and layers with memory over windows."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl import noise
from axonrl.compat.common.layers.layer import Layer, Step
from axonrl.compat.common.layers.layers import Convolution2d, Dense, Linear
from axonrl.compat.common.value_specs import ValueSpec
from axonrl.compat.tensorforce.model.networks import Network, build_network
from axonrl.errors import ArgumentError

from .agents import refused

F32 = np.float32
FLOAT = ValueSpec("state", "float", (3,))


def built(*layers: Any, prefix: str = "", **inputs: Any) -> Network:
    network = {"type": "layered", "layers": list(layers)}
    with keras.name_scope("policy"):
        return build_network("net", network, inputs or {"state": FLOAT}, "policy-network", prefix)


def auto(inputs: dict[str, ValueSpec], **arguments: Any) -> Network:
    network = {"type": "auto", "size": 4, "depth": 2, "final_size": 6, "final_depth": 1, "internal_rnn": False}
    return build_network("net", network | arguments, inputs, "policy-network")


def layer(type_: str, **arguments: Any) -> dict[str, Any]:
    return {"type": type_, **arguments}


def call(network: Network, *, training: bool = False, **features: Any) -> Any:
    return network({name: tf.constant(value) for name, value in features.items()}, None, training)[0].numpy()


def shape_of(spec: ValueSpec, *layers: Any) -> tuple[int, ...]:
    """What layers make of one row of zeros; the network flattens it afterwards."""
    shapes: list[tuple[int, ...]] = []

    def note(x: Any) -> Any:
        shapes.append(tuple(x.shape[1:]))
        return x

    network = built(*layers, layer("function", function=note), layer("flatten"), state=spec)
    dtype = np.int32 if spec.type == "int" else F32
    assert call(network, state=np.zeros((2, *spec.shape), dtype)).shape == (2, network.size)
    assert shapes[0] == shapes[-1]  # as inferred, and as called
    return shapes[-1]


def paths(network: Network) -> list[str]:
    return [variable.path for variable in network.variables]


def test_dense_layers_are_numbered_named_and_orthogonal() -> None:
    network = built(layer("dense", size=8), layer("dense", size=4, activation="relu"), layer("dense", size=2, name="z"))
    names = [
        f"policy/policy-network/{name}/{part}" for name in ("dense0", "dense1", "z") for part in ("kernel", "bias")
    ]
    assert paths(network) == names
    assert [tuple(variable.shape) for variable in network.variables] == [(3, 8), (8,), (8, 4), (4,), (4, 2), (2,)]
    first, bias, second = (variable.numpy() for variable in network.variables[:3])
    np.testing.assert_allclose(first @ first.T, np.eye(3), atol=1e-5)
    np.testing.assert_allclose(second.T @ second, 2 * np.eye(4), atol=1e-5)
    assert (network.size, network.internals, network.length, bias.tolist()) == (2, {}, 1, [0] * 8)
    x = np.array([[1, 2, 3], [-1, 0, 1]], F32)
    hidden = np.maximum(np.tanh(x @ first) @ second, 0)
    np.testing.assert_allclose(call(network, state=x), np.tanh(hidden @ network.variables[4].numpy()), atol=1e-6)
    network = built(layer("dense", size=2, bias=False, is_trainable=False), layer("linear", size=1))
    assert paths(network) == ["policy/policy-network/linear0/kernel", "policy/policy-network/linear0/bias"]
    assert [variable.path for variable in network.untrained] == ["policy/policy-network/dense0/kernel"]


def test_an_embedding() -> None:
    spec = ValueSpec("state", "int", (), 5)
    network = built(layer("embedding", size=3, activation="none"), state=spec)
    kernel, bias = network.variables
    assert kernel.path == "policy/policy-network/embedding0/kernel"
    assert tuple(kernel.shape) == (5, 3)
    assert np.abs(kernel.numpy()).max() <= 0.2  # truncated at two standard deviations of 0.1
    bias.assign([1, 2, 3])
    expected = kernel.numpy()[[4, 0]] + [1, 2, 3]
    np.testing.assert_allclose(call(network, state=np.array([4, 0], np.int32)), expected, atol=1e-6)
    bounded = built(layer("embedding", size=2, activation="none", max_norm=1.0), state=spec)
    bounded.variables[0].assign([[3, 4], [0.3, 0.4], [0, 0], [0, 2], [0, 1]])
    found = call(bounded, state=np.arange(5, dtype=np.int32))
    expected = np.array([[0.6, 0.8], [0.3, 0.4], [0, 0], [0, 1], [0, 1]])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    bits = built(layer("embedding", size=2), layer("flatten"), state=ValueSpec("state", "bool", (3,)))
    assert (bits.size, tuple(bits.variables[0].shape)) == (6, (2, 2))


@pytest.mark.parametrize(
    ("given", "layers", "expected"),
    [
        ((9, 2), [layer("conv1d", size=4, padding="valid", dilation=2)], (5, 4)),
        ((9, 7, 2), [layer("conv2d", size=4, window=[3, 5], stride=2)], (5, 4, 4)),
        ((9, 7, 2), [layer("pool2d", reduction="max")], (5, 4, 2)),
        ((9, 2), [layer("pool1d", reduction="average", window=3, stride=3, padding="valid")], (3, 2)),
        ((4, 3), [layer("keras", layer="Conv1D", filters=2, kernel_size=2)], (3, 2)),
    ],
)
def test_shapes(given: tuple[int, ...], layers: list[Any], expected: tuple[int, ...]) -> None:
    assert shape_of(ValueSpec("state", "float", given), *layers) == expected


def test_pooling_and_windows_by_hand() -> None:
    x = np.array([[[1, -2], [3, 4], [-5, 6]]], F32)
    spec = ValueSpec("state", "float", (3, 2))
    expectations: dict[str, Any] = {"max": [3, 6], "mean": [-1 / 3, 8 / 3], "product": [-15, -48], "sum": [-1, 8]}
    for reduction, expected in expectations.items():
        found = call(built(layer("pooling", reduction=reduction), state=spec), state=x)
        np.testing.assert_allclose(found, [expected], atol=1e-6)
    halves = built(layer("pool1d", reduction="max"), layer("flatten"), state=spec)
    assert call(halves, state=x).tolist() == [[3, 4, -5, 6]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("crelu", [0, 0, 2, 1, 0, 0]),
        ("leaky-relu", [-0.2, 0, 2]),
        ("swish", [-1 / (1 + np.e), 0, 2 / (1 + np.exp(-2))]),
    ],
)
def test_activations(name: str, expected: Any) -> None:
    found = call(built(layer("activation", nonlinearity=name)), state=np.array([[-1.0, 0.0, 2.0]], F32))
    np.testing.assert_allclose(found, [expected], atol=1e-6)


def test_dropout_in_training_only() -> None:
    network = built(layer("dropout", rate=0.25))
    x = np.array([[3, 6, 9]], F32)
    with noise.supplying(lambda request: tf.constant([[0.1, 0.25, 0.9]])):
        np.testing.assert_allclose(call(network, state=x, training=True), [[0, 8, 12]], atol=1e-6)
    assert call(network, state=x).tolist() == x.tolist()


def test_normalizations() -> None:
    x = np.array([[1, 2, 3], [3, 2, 7], [9, 9, 9]], F32)
    instance = built(layer("instance_normalization"))
    np.testing.assert_allclose(call(instance, state=x[:1]), [[-1.2247449, 0, 1.2247449]], atol=1e-5)
    network = built(layer("exponential_normalization", decay=0.5))
    assert network.variables == []
    assert call(network, state=x).tolist() == x.tolist()  # no statistics yet
    valid = tf.constant([1.0, 1.0, 0.0])  # the last row is padding
    found, _ = network({"state": tf.constant(x)}, None, True, valid)
    np.testing.assert_allclose(found[:2, 0], [-1, 1], atol=1e-5)
    mean, variance, _ = network.untrained
    assert mean.numpy().tolist() == [[2, 2, 5]]
    network({"state": tf.zeros([1, 3])}, None, True)
    assert mean.numpy().tolist() == [[1, 1, 2.5]]
    assert variance.numpy().tolist() == [[0.5, 0, 2]]


def test_layers_of_ones_own() -> None:
    class Scale(keras.layers.Layer):  # type: ignore[misc]
        def build(self, shape: Any) -> None:
            self.factor = self.add_weight(shape=(shape[-1],), initializer="ones", name="factor")

        def call(self, x: Any) -> Any:
            return x * self.factor

    network = built(
        layer("function", function=lambda x: tf.concat([x, x], -1)),
        layer("keras", layer=Scale, name="scale_1"),
        layer("keras", layer="Dense", units=2),
    )
    assert network.size == 2
    names = ["scale_1./factor", "keras0/kernel", "keras0/bias"]
    assert paths(network) == [f"policy/policy-network/{name}" for name in names]
    assert tuple(network.variables[1].shape) == (6, 2)


def test_a_built_layer_keeps_its_weights() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dropout(0.5)])
    model.add(keras.layers.Dense(2))
    x = np.array([[1, 2, 3]], F32)
    np.testing.assert_allclose(call(built(layer("keras", layer=model)), state=x), model(x), atol=1e-6)


def test_register_and_retrieve() -> None:
    network = built(
        [layer("retrieve", tensors="a"), layer("linear", size=2, bias=False), layer("register", tensor="of-a")],
        [layer("retrieve", tensors="b"), layer("retrieve", tensors=["of-a", "b", "*"])],
        a=FLOAT,
        b=ValueSpec("b", "float", ()),
    )
    network.variables[0].assign([[1, 0], [0, 1], [0, 0]])
    assert call(network, a=np.array([[5, 6, 7]], F32), b=np.array([8], F32)).tolist() == [[5, 6, 8, 8]]
    stacked = layer("retrieve", tensors=["a", "b"], aggregation="stack", axis=1)
    network = built(stacked, layer("flatten"), a=FLOAT, b=FLOAT)
    found = call(network, a=np.array([[1, 2, 3]], F32), b=np.array([[3, 4, 5]], F32))
    assert found.tolist() == [[1, 3, 2, 4, 3, 5]]


def test_blocks_and_layers_used_again() -> None:
    square = {"type": "linear", "size": 3, "bias": False}
    block = layer("block", name="twice", layers=[square, square])
    network = built(block, layer("reuse", layer="twice"), layer("reuse", layer="twice/linear0"))
    names = [f"policy/policy-network/twice/linear{n}/kernel" for n in range(2)]
    assert paths(network) == names
    network.variables[0].assign(2 * np.eye(3))
    network.variables[1].assign(3 * np.eye(3))
    assert call(network, state=np.ones((1, 3), F32)).tolist() == [[72, 72, 72]]  # 2 3 2 3 2


def test_auto() -> None:
    single = auto({"state": FLOAT})
    assert paths(single) == [f"policy-network/state-dense{n}/{part}" for n in range(2) for part in ("kernel", "bias")]
    assert (single.size, single.internals) == (4, {})
    inputs = {
        "a/on": ValueSpec("a/on", "bool", ()),
        "eye": ValueSpec("eye", "float", (6, 6, 1)),
        "level": ValueSpec("level", "int", (2,), 5),
    }
    several = auto(inputs, internal_rnn=3)
    kernels = {v.path.removeprefix("policy-network/"): tuple(v.shape) for v in several.variables if "kernel" in v.path}
    assert kernels == {
        "a/on-embedding/kernel": (2, 4),
        "a/on-dense0/kernel": (4, 4),
        "eye-conv2d0/kernel": (3, 3, 1, 4),
        "eye-conv2d1/kernel": (3, 3, 4, 4),
        "level-embedding/kernel": (5, 4),
        "level-conv1d0/kernel": (3, 4, 4),
        "dense0/kernel": (12, 6),
        "lstm/kernel": (6, 24),
        "lstm/recurrent_kernel": (6, 24),
    }
    assert (several.size, several.internals, several.length) == (6, {"policy-network-state": (2, 6)}, 3)
    values: dict[str, Any] = {"a/on": np.ones(2, F32), "eye": np.ones((2, 6, 6, 1), F32)}
    values["level"] = np.ones((2, 2), np.int32)
    assert call(several, **values).shape == (2, 6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_cell_is_that_of_keras(kind: str) -> None:
    network = built(layer(f"internal_{kind}", size=2, length=1))
    cell = {"gru": keras.layers.GRUCell, "lstm": keras.layers.LSTMCell}[kind](2)
    cell.build((None, 3))
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=tuple(variable.shape)).astype(F32) for variable in network.variables]
    for variable, value in zip(network.variables, weights, strict=True):
        variable.assign(value)
    cell.set_weights(weights)
    x = tf.constant(rng.normal(size=(4, 3)), tf.float32)
    (name, shape), *_ = network.internals.items()
    state = tf.constant(rng.normal(size=(4, *shape)), tf.float32)
    found, following = network({"state": x}, {name: state}, False)
    expected, states = cell(x, [state] if kind == "gru" else tf.unstack(state, axis=1))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(following[name], states[0] if kind == "gru" else tf.stack(states, 1), atol=1e-6)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_window_equals_its_timesteps_and_padding_changes_nothing(kind: str) -> None:
    network = built(
        layer("dense", size=4),
        layer("register", tensor="before"),
        layer(f"internal_{kind}", size=3, length=3, activation="relu"),
        layer("dense", size=3, name="d"),
        layer("internal_rnn", cell=kind, size=2, length=2, bias=True),
        layer("retrieve", tensors=["*", "before", "state"]),
    )
    rng = np.random.default_rng(1)
    shapes: Any = {"gru": [(3,), (2,)], "lstm": [(2, 3), (2, 2)]}[kind]
    names = [f"policy-network-internal_{kind}0-state", "policy-network-internal_rnn0-state"]
    assert (network.internals, network.length) == (dict(zip(names, shapes, strict=True)), 3)
    before = {name: tf.constant(rng.normal(size=(5, *shape)), tf.float32) for name, shape in network.internals.items()}
    xs = tf.constant(rng.normal(size=(5, 3, 3)), tf.float32)
    run = tf.function(lambda x, window: network(x, before, False, window=window), autograph=False)
    state, output = before, None
    for t in (1, 2):
        output, state = network({"state": xs[:, t]}, state, False)
    assert output is not None
    valid = tf.repeat(tf.constant([[0.0, 1.0, 1.0]]), 5, axis=0)
    for window, counts in ((xs[:, 1:], valid[:, 1:]), (xs, valid)):
        found, following = run({"state": window}, counts)
        np.testing.assert_allclose(found, output, atol=1e-6)
        for name in names:
            np.testing.assert_allclose(following[name], state[name], atol=1e-6)
    np.testing.assert_array_equal(found[:, -3:], xs[:, -1])


@pytest.mark.parametrize(
    ("layers", "argument"),
    [
        ([layer("reshape", shape=[3, 1, 1, 1])], "net"),
        ([layer("register", tensor="state")], "net: layer 'register0': tensor"),
        (
            [layer("internal_gru", size=3, length=1), layer("reuse", layer="internal_gru0")],
            "net: layer 'reuse0': layer",
        ),
        ([layer("function", function=tf.reduce_sum)], "net: layer 'function0': function"),
        ([layer("keras", layer="Desne", units=2)], "net: layer 'keras0': layer"),
    ],
)
def test_what_does_not_fit_is_refused(layers: list[Any], argument: str) -> None:
    assert refused(built, *layers).argument == argument


def test_several_inputs_need_a_retrieve_and_ints_an_embedding() -> None:
    dense = layer("dense", size=1)
    assert refused(built, dense, a=FLOAT, b=FLOAT).argument == "net: layer 'dense0'"
    assert refused(built, dense, a=ValueSpec("a", "int", (2,), 3)).argument == "net: layer 'dense0'"


VECTOR = ValueSpec("", "float", (3,))
IMAGE = ValueSpec("", "float", (3, 4, 2))


def output(layer: Layer, x: Any) -> Any:
    return layer(tf.constant(x, tf.float32), Step(training=False)).numpy().tolist()


def test_numbers_arrays_and_a_convolution() -> None:
    layer = Dense("d", VECTOR, 2, activation=None, kernel_initializer=0.5, bias_initializer=np.array([1, -1]))
    assert output(layer, [[1, 2, 3]]) == [[4.0, 2.0]]  # 0.5 * 6, and the bias
    kernel = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])
    assert output(Linear("d", VECTOR, 2, bias=False, kernel_initializer=kernel), [[1, 10, 100]]) == [[301.0, 20.0]]
    moving = Convolution2d(
        "c", IMAGE, 1, 2, (1, 2), "valid", kernel_initializer=1.0, bias_initializer=-7, activation="relu"
    )
    x = np.arange(24).reshape(1, 3, 4, 2)
    sums = [[x[0, i : i + 2, j : j + 2].sum() - 7.0 for j in (0, 2)] for i in (0, 1)]
    assert output(moving, x) == [[[[one] for one in row] for row in sums]]
    assert sums[0][0] == 0 + 1 + 2 + 3 + 8 + 9 + 10 + 11 - 7


@pytest.mark.parametrize(
    ("argument", "given"),
    [("kernel_initializer", np.zeros((3, 1))), ("kernel_initializer", float("nan")), ("bias_initializer", "zeros")],
)
def test_values_that_do_not_fit_are_refused(argument: str, given: Any) -> None:
    with pytest.raises(ArgumentError) as caught:
        Dense("d", VECTOR, 2, **{argument: given})
    assert caught.value.argument == f"d: {argument}"
