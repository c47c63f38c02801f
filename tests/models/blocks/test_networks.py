import re
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from axonrl.core.initializers import Initializer, supply_draws
from axonrl.errors import ArgumentError
from axonrl.models.blocks import networks
from axonrl.models.blocks.input_tensors import JoinedShape
from axonrl.models.blocks.networks import Style


def names(network: Any) -> list[tuple[str, tuple[int, ...]]]:
    return [(variable.path, tuple(variable.shape)) for variable in network.variables]


def test_mlp_computes_its_layers() -> None:
    network = networks.mlp((2,), (2, 1))
    weights = [[[1.0, -1.0], [2.0, 1.0]], [0.5, 0.0], [[3.0], [7.0]], [1.0]]
    network.set_weights([np.array(weight) for weight in weights])
    # [1, 2] -> [5.5, 1] -> 16.5 + 7 + 1, and [3, 0] -> [3.5, 0] -> 10.5 + 1
    np.testing.assert_allclose(network(tf.constant([[1.0, 2.0], [3.0, 0.0]])), [[24.5], [11.5]])
    frames = tf.reshape(tf.range(12.0), (2, 3, 2))
    np.testing.assert_allclose(networks.mlp((3, 2), ())(frames), np.arange(12.0).reshape(2, 6))
    assert networks.mlp((3, 2), (5,))(frames).shape == (2, 5)
    np.testing.assert_allclose(networks.mlp((2,), ())(tf.constant([[1.0, 2.0]])), [[1.0, 2.0]])


@pytest.mark.parametrize(
    ("name", "shape", "kernels"),
    [
        ("nature_cnn", (84, 84, 4), [(8, 8, 4, 32), (4, 4, 32, 64), (3, 3, 64, 64), (7 * 7 * 64, 512)]),
        ("minatar_cnn", (10, 10, 7), [(3, 3, 7, 16), (8 * 8 * 16, 128)]),
    ],
)
def test_convolutions_are_the_papers(name: str, shape: tuple[int, ...], kernels: list[tuple[int, ...]]) -> None:
    network = networks.make_network(name, shape, None, Style())
    assert [shape for name, shape in names(network) if name.endswith("kernel")] == kernels
    assert network(tf.zeros((2, *shape))).shape == (2, kernels[-1][-1])


@pytest.mark.parametrize(("name", "smallest"), [("nature_cnn", 36), ("minatar_cnn", 3)])
def test_convolutions_refuse_frames_that_are_too_small(name: str, smallest: int) -> None:
    shape = (smallest - 1, 84, 4)
    message = re.escape(f"at least {smallest} x {smallest} pixels, got {list(shape)}")
    with pytest.raises(ArgumentError, match=message) as error:
        networks.cnn(name, shape, (512,))
    assert (error.value.argument, error.value.value) == ("network", name)
    assert networks.cnn(name, (smallest, smallest, 1), (4,)).output_shape == (None, 4)


def test_make_network_knows_the_usual_sizes() -> None:
    assert [v.shape for v in networks.make_network("mlp", (4,), None, Style("tanh", "orthogonal")).variables] == [
        (4, 64),
        (64,),
        (64, 64),
        (64,),
    ]
    assert networks.make_network("nature_cnn", (36, 36, 1), None, Style("relu", "he_uniform")).output_shape == (
        None,
        512,
    )
    assert networks.make_network("mlp", (4,), (), Style("tanh", "zeros")).variables == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("mpl", (4,), None, Style("relu", "zeros")),
            "network must be one of mlp, nature_cnn, minatar_cnn; got 'mpl' (did you mean",
        ),
        (("mlp", (4,), None, Style("rleu", "zeros")), "got 'rleu' (did you mean 'relu'?)"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        networks.make_network(*arguments)


def test_every_name_is_one_of_keras() -> None:
    assert all(callable(keras.activations.get(name)) for name in networks.ACTIVATIONS)
    assert all(callable(keras.initializers.get(name)) for name in networks.INITIALIZERS)


@pytest.mark.parametrize("shape", [(64, 960), (5, 3, 80, 40)], ids=str)
@pytest.mark.parametrize("law", networks.INITIALIZERS)
def test_initial_values_follow_the_laws_of_keras(law: str, shape: tuple[int, ...]) -> None:
    """The same distribution for the same shape; the draws are others."""
    with supply_draws(3) as draws:
        ours = Initializer(law, 2.0)(shape)
    theirs = 2 * np.asarray(keras.initializers.get(law)(shape))
    assert ours.dtype == np.float32
    assert np.array_equal(draws.made[0](3), ours)
    at = [0, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98, 1]
    np.testing.assert_allclose(np.quantile(ours, at)[1:-1], np.quantile(theirs, at)[1:-1], atol=0.1 * theirs.std())
    if law not in ("orthogonal", "random_normal"):  # whose extremes are rare
        np.testing.assert_allclose(np.abs(ours).max(), np.abs(theirs).max(), rtol=0.15)
    if law != "orthogonal":
        return
    flat = ours.reshape(-1, shape[-1]) / 2
    np.testing.assert_allclose(
        *(flat @ flat.T, np.eye(64)) if shape == (64, 960) else (flat.T @ flat, np.eye(40)), atol=1e-5
    )


@pytest.mark.parametrize("initializer", ["he_normal", "orthogonal", "zeros"])
def test_initializers_work_and_repeat_nothing(initializer: str) -> None:
    kernels = [v.numpy() for v in networks.mlp((4,), (4, 4), Style("relu", initializer)).variables[::2]]
    assert np.array_equal(*kernels) == (initializer == "zeros")


def test_a_scale_multiplies_the_initial_kernels() -> None:
    def initial(*arguments: Any) -> list[Any]:
        keras.utils.set_random_seed(7)
        return [
            variable.numpy()
            for variable in networks.cnn("nature_cnn", (36, 36, 1), (8,), Style("relu", *arguments)).variables
        ]

    plain, scaled = initial("he_normal"), initial("he_normal", 0.25)
    assert len(plain) == len(scaled) >= 2
    for kernel, expected in zip(scaled[::2], plain[::2], strict=True):
        np.testing.assert_allclose(kernel, 0.25 * expected, rtol=1e-6)
        assert kernel.any()
    assert not any(bias.any() for bias in scaled[1::2])
    for kernel, expected in zip(initial("he_normal", 1.0), plain, strict=True):
        np.testing.assert_array_equal(kernel, expected)


def test_nature_cnn_joins_the_features_of_images_with_other_parts() -> None:
    shape = JoinedShape.of([(2,), (36, 40, 3), (1,), (36, 36, 1)])
    joined = networks.cnn("nature_cnn", shape, (), Style("tanh"))
    alone = [networks.cnn("nature_cnn", part, (), Style("tanh")) for part in ((36, 40, 3), (36, 36, 1))]
    for number, network in zip((2, 4), alone, strict=True):
        for layer in network.layers[:3]:
            joined.get_layer(f"part{number}_{layer.name}").set_weights(layer.get_weights())
    rng = np.random.default_rng(0)
    parts = [rng.random((2, *part), np.float32) for part in shape.parts]
    outputs = joined(np.concatenate([part.reshape(2, -1) for part in parts], axis=1))
    images = [network(image) for network, image in zip(alone, (parts[1], parts[3]), strict=True)]
    np.testing.assert_allclose(outputs, np.concatenate([parts[0], images[0], parts[2], images[1]], axis=1), rtol=1e-5)
    with pytest.raises(ValueError, match=r"at least 36 x 36 pixels, got \[\[35, 36, 1\], \[2\]\]"):
        networks.cnn("nature_cnn", JoinedShape.of([(35, 36, 1), (2,)]), ())
