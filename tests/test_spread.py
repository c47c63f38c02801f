"""Rows that differ by rounding alone are 0 wherever they are divided by their spread; what varies is as it was."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box

from axonrl.compat.common.layers.layer import Step
from axonrl.compat.common.processing import pipeline, steps
from axonrl.compat.common.value_specs import ValueSpec
from axonrl.compat.rlgraph.agents import rollout_core
from axonrl.compat.tensorforce.model import custom_layers
from axonrl.core.protocols import Array
from axonrl.core.spread import varies
from axonrl.environments.normalizers import NormalizeObservation, NormalizeReward
from axonrl.models.blocks import rollouts
from axonrl.policies.description import Normalization
from axonrl.runtimes import onnx_conversion

F32: Final = np.float32
STATE: Final = ValueSpec("state", "float", (4,))


def learnt(rows: Array) -> NormalizeObservation:
    made = NormalizeObservation(Box(-np.inf, np.inf, (1,)), clip=10)
    made.learn(rows)
    return made


def described(rows: Array) -> Normalization:
    moments = learnt(rows).obs_rms
    return Normalization(moments.mean, moments.var, 1e-8, 10)


def observations(rows: Array) -> Any:
    return learnt(rows)(rows)


def of_policies(rows: Array) -> Any:
    return described(rows)(rows)


def of_onnx(rows: Array) -> Any:
    return onnx_conversion._normalize(tf.constant(rows), described(rows)).numpy()


def rewards(rows: Array) -> Any:
    return NormalizeReward(4, 0.0, 10)(rows[:, 0].astype(np.float64))


def advantages(rows: Array) -> Any:
    return rollouts.normalize(tf.constant(rows[:, 0])).numpy()


def rlgraph_advantages(rows: Array) -> Any:
    return rollout_core.standardize(rows[:, 0])


def instance_inputs(rows: Array) -> Any:
    return steps.instance_normalization("state", steps.Numbers((4,)), [0]).function(rows.T)


def exponential_inputs(rows: Array) -> Any:
    return pipeline.exponential_normalization("state", steps.Numbers((4,)), 0.5, [0]).function(rows[:, 0], None)[0]


def tensorforce_layers(kind: Any) -> Callable[[Array], Any]:
    def normalized(rows: Array) -> Any:
        layer = kind("layer", STATE, axes=[0])
        return layer(tf.constant(rows.T), Step(training=True)).numpy()

    return normalized


def scaled_inputs(rows: Array) -> Any:
    return steps.normalize("normalize", steps.Numbers((4,))).function(rows.T)


CENTRED: Final = (-1.341641, -0.447214, 0.447214, 1.341641)  # of 1, 2, 3, 4: -1.5 / sqrt(1.25), ...
PLACES: Final = {
    observations: CENTRED,
    of_policies: CENTRED,
    of_onnx: CENTRED,
    rewards: (0.894427, 1.788854, 2.683282, 3.577709),  # 1 / sqrt(1.25), ...
    advantages: CENTRED,
    rlgraph_advantages: CENTRED,
    instance_inputs: CENTRED,
    exponential_inputs: CENTRED,
    tensorforce_layers(custom_layers.LAYERS["instance_normalization"]): CENTRED,
    tensorforce_layers(custom_layers.LAYERS["exponential_normalization"]): CENTRED,
    scaled_inputs: (0, 1 / 3, 2 / 3, 1),
}


@pytest.mark.parametrize(("place", "wanted"), PLACES.items())
def test_what_rounding_makes_differ_is_0(place: Callable[[Array], Any], wanted: Any) -> None:
    tenth = np.cumsum(np.full(10, 0.1, F32), dtype=F32)[-1]
    assert tenth != 1
    for around in (1e6, 0.1, -3e4, 1e12):
        near = [np.nextafter(F32(around), F32(to)) for to in (-np.inf, np.inf)]
        assert not place(np.array([[around], near[:1], [around], near[1:]], F32)).any()
    assert not place(np.array([[1], [tenth], [1], [tenth]], F32)).any()
    assert not place(np.full((4, 1), 0.1, F32)).any()
    np.testing.assert_allclose(np.ravel(place(np.array([[1], [2], [3], [4]], F32))), wanted, rtol=1e-5, atol=1e-6)
    some = place(np.array([[1e4], [1e4], [1e4], [1e4 + 0.1]], F32))  # 1e-5 of it
    assert np.ptp(some) > 0.5 or place is rewards  # which are not centred: 1e4 / 0.04 is clipped


def test_what_varies_has_the_bits_it_had() -> None:
    """From 1e-6 of the mean on, and, where the mean is 0, always."""
    rng = np.random.default_rng(0)
    for offset, scale in ((0, 1e-9), (0, 1), (1, 3e-6), (100, 1e-3), (-7, 1e6)):
        rows = (offset + scale * rng.standard_normal((64, 1))).astype(F32)
        moments = learnt(rows).obs_rms
        plain = (rows - moments.mean) / np.sqrt(moments.var + 1e-8)
        plain = np.minimum(np.maximum(plain, -10), 10).astype(F32)
        for place in (observations, of_policies, of_onnx):
            assert place(rows).tobytes() == plain.tobytes()
    assert [bool(varies(deviation**2, 1.0)) for deviation in (0.99e-6, 1.01e-6)] == [False, True]


def test_gymnasium_s_wrapper_divides_by_what_rounding_makes() -> None:
    """A policy does what the training did, whatever that was."""
    described = Normalization(np.array([1e6]), np.array([4e-3]), 1e-8)
    assert described(np.array([[1e6 + 0.0625]])).item() == pytest.approx(0.0625 / np.sqrt(4e-3), rel=1e-4)


def test_one_row_batches_keep_what_moves_the_mean() -> None:
    """The variance of Tensorforce's layer is that within batches, which is 0 in those of one row."""
    layer = custom_layers.ExponentialNormalization("layer", ValueSpec("state", "float", (1,)), decay=0.5)
    layer(tf.constant([[1.0]]), Step(training=True))
    assert layer(tf.constant([[2.0]]), Step(training=True)).numpy().item() == pytest.approx(500)  # 0.5 / 0.001
