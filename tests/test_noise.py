"""Noise: what may be asked for, where, and which numbers come."""

import math
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from axonrl import Agent, EstimatorSpec, Modes, RunConfig, noise
from axonrl.core.protocols import ArraySpec
from axonrl.memories import ReplayMemory
from axonrl.noise import Request
from axonrl.runtimes.tracing.program import Program
from axonrl.runtimes.tracing.signature import BoundModelFn
from axonrl.tests.estimators.fakes import Counting
from axonrl.tests.raising import raised


def asked(call: Any) -> list[Request]:
    requests: list[Request] = []

    def supply(request: Request) -> Any:
        requests.append(request)
        return tf.zeros(request.shape, request.dtype)

    with noise.supplying(supply):
        call()
    return requests


def test_a_request_says_what_was_asked_for() -> None:
    assert asked(lambda: noise.normal([2, 3])) == [Request("normal", (2, 3))]
    assert asked(lambda: noise.normal(())) == [Request("normal", ())]
    assert asked(lambda: noise.normal(tf.TensorShape([4]))) == [Request("normal", (4,))]
    assert asked(lambda: noise.uniform([2], -1, 1)) == [Request("uniform", (2,), -1.0, 1.0)]
    assert asked(lambda: noise.permutation(5)) == [Request("permutation", (5,))]


def test_the_supplier_gives_the_value() -> None:
    with noise.supplying(lambda request: tf.fill(request.shape, 7.0)):
        assert noise.normal([2]).numpy().tolist() == [7.0, 7.0]


def test_outside_a_trace_there_is_none() -> None:
    asked(lambda: noise.uniform([2]))  # what was open once is closed again
    with pytest.raises(ValueError, match="works only while a model_fn is traced: call it inside model_fn"):
        noise.uniform([2])


def test_an_exception_closes_the_supply() -> None:
    with pytest.raises(RuntimeError, match="mine"), noise.supplying(lambda request: tf.zeros(request.shape)):
        raise RuntimeError("mine")
    raised(ValueError, noise.normal, [2], match="works only while")


@pytest.mark.parametrize(
    ("shape", "shown"),
    [([None, 3], r"\[None, 3\]"), (tf.TensorShape(None), "<unknown>"), ([2.0], r"\[2\.0\]"), ([True], r"\[True\]")],
)
def test_shapes_must_be_static(shape: Any, shown: str) -> None:
    with pytest.raises(ValueError, match=f"needs a static shape of positive integers, got {shown}$"):
        asked(lambda: noise.normal(shape))


def test_the_size_of_a_permutation_must_be_static() -> None:
    with pytest.raises(ValueError, match=r"static shape of positive integers, got \[-1\]"):
        asked(lambda: noise.permutation(-1))


@pytest.mark.parametrize(("low", "high"), [(2, 1), (math.nan, 1), ("0", 1), (1.0, 1.0 + 1e-12)])
def test_bounds_must_be_an_interval(low: Any, high: Any) -> None:
    with pytest.raises(ValueError, match="needs numbers low < high, finite in float32; got"):
        asked(lambda: noise.uniform([2], low, high))


def test_draws_come_from_the_generator_alone() -> None:
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    normal = Request("normal", (2, 3)).draw(rng)
    uniform = Request("uniform", (1000,), 2.0, 4.0).draw(rng)
    permutation = Request("permutation", (6,)).draw(rng)
    assert normal.dtype == np.float32
    np.testing.assert_array_equal(normal, same.standard_normal((2, 3), dtype=np.float32))
    assert uniform.dtype == np.float32
    np.testing.assert_array_equal(uniform, 2 + 2 * same.random(1000, dtype=np.float32))
    assert permutation.dtype == np.int32
    np.testing.assert_array_equal(permutation, same.permutation(6))
    assert rng.bit_generator.state == same.bit_generator.state


def test_rounding_never_reaches_the_upper_bound() -> None:
    class Highest:
        def random(self, shape: tuple[int, ...], dtype: Any) -> Any:
            return np.full(shape, 1 - 2.0**-24, dtype)  # the largest number that a generator gives

    (drawn,) = Request("uniform", (1,), 1.0, 2.0).draw(Highest())  # type: ignore[arg-type]
    assert drawn == np.float32(2 - 2.0**-23)  # the largest float32 below 2


def test_a_value_without_axes_is_an_array() -> None:
    drawn = Request("uniform", ()).draw(np.random.default_rng(0))
    assert isinstance(drawn, np.ndarray)
    assert drawn.shape == ()
    assert drawn.dtype == np.float32


class Ones(Counting):
    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)

    def __init__(self) -> None:
        super().__init__(7, action_space=gymnasium.spaces.Box(-100, 100, (1,), np.float32))

    def observation(self) -> Any:
        return np.ones(2, np.float32)

    def taken(self) -> list[float]:
        return [float(action[0]) for action in self.actions]


class Noisy:
    """The noisy action, and a number of its own from the same generator."""

    def __call__(self, predictions: Any, timestep: int, rng: np.random.Generator) -> Any:
        return predictions["noisy_action"] + 100 * rng.random() // 100, {}


def noisy_model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
    weight = tf.Variable([[1.0], [2.0]], name="weight")
    action = features @ weight
    if mode == Modes.PREDICT:
        predictions = {"action": action, "noisy_action": action + features @ noise.normal([2, 1])}
        return EstimatorSpec(mode, predictions, exploration=Noisy())
    weight.assign_sub(0.01 * tf.reduce_mean(labels["action"]) * tf.ones_like(weight))
    return EstimatorSpec(mode, loss=tf.reduce_mean(action))


@pytest.mark.parametrize("runtime", ["tensorflow", "litert"])
def test_behaviour_is_noisy_and_resumes_exactly_and_the_greedy_action_is_not(runtime: str, tmp_path: Path) -> None:
    def agent(folder: str) -> Agent:
        return Agent(noisy_model_fn, ReplayMemory(50, 4), tmp_path / folder, RunConfig(seed=3, runtime=runtime))

    whole, first, second = Ones(), Ones(), Ones()
    one = agent("whole").train(whole, first_update=5, update_frequency=2, timesteps=20)
    agent("parts").train(first, first_update=5, update_frequency=2, timesteps=10)
    other = agent("parts").train(second, first_update=5, update_frequency=2, timesteps=10)
    assert len(set(whole.taken())) == 20
    assert [*first.taken(), *second.taken()[-10:]] == whole.taken()
    observations = np.array([[1, 1], [0, 1]], np.float32)
    greedy = one.predict(observations)
    np.testing.assert_array_equal(greedy["noisy_action"], greedy["action"])
    np.testing.assert_array_equal(other.predict(observations)["action"], greedy["action"])
    evaluated = Ones()
    one.evaluate(evaluated, 1)
    assert evaluated.taken() == [float(greedy["action"][0, 0])] * 7


def noisy_action(features: Any, draw: Any) -> Any:
    return {"action": features @ draw}


def hidden_in_a_function(features: Any, draw: Any) -> Any:
    both = tf.function(lambda x, y: (x, y))(tf.reduce_sum(features, 1), features @ draw)
    return {"action": both[1], "other": both[0]}


def beside_it_in_a_function(features: Any, draw: Any) -> Any:
    both = tf.function(lambda x, y: (x, y))(tf.reduce_sum(features, 1), features @ draw)
    return {"action": both[0], "other": both[1]}


def in_one_part_of_several(features: Any, draw: Any) -> Any:
    return {"action": {"a": tf.reduce_sum(features, 1), "b": features @ draw}}


@pytest.mark.parametrize(
    ("predicting", "allowed"),
    [
        (noisy_action, False),
        (hidden_in_a_function, False),
        (beside_it_in_a_function, True),
        (in_one_part_of_several, False),
    ],
)
def test_a_greedy_action_that_depends_on_noise_is_refused(predicting: Any, allowed: bool) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> EstimatorSpec:
        return EstimatorSpec(mode, predicting(features, noise.normal([4, 1])))

    def trace() -> Program:
        return Program(BoundModelFn(model_fn, None, RunConfig(), None), ArraySpec((4,), np.float32), 0)

    if allowed:
        assert trace().predict.noise == (Request("normal", (4, 1)),)
        return
    raised(ValueError, trace, match=r"predictions\['action'\] depends on axonrl\.noise\. The greedy")
