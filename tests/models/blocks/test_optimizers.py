from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.spaces import Box, Discrete

from axonrl import RunConfig
from axonrl.errors import ArgumentError
from axonrl.explorations import Linear
from axonrl.models import dqn, ppo, sac
from axonrl.models.blocks import optimizers
from axonrl.policies.interpreter import LiteProgram
from axonrl.runtimes.litert.conversion import convert
from axonrl.runtimes.tracing.graphs import reached_nodes, reached_ops
from axonrl.tests.models.executed import Model, random_rollout, transitions
from axonrl.tests.raising import raised


def labels(step: int, progress: float = 0.0) -> dict[str, Any]:
    return {"global_step": tf.constant(step, tf.int64), "progress": tf.constant(progress)}


def test_gradients_are_scaled_down_together() -> None:
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = optimizers.clip_by_global_norm(gradients, 1.0)
    assert float(norm) == pytest.approx(5.0)
    np.testing.assert_allclose(clipped[0], [0.6, 0.0], rtol=1e-6)
    np.testing.assert_allclose(clipped[1], [[0.8]], rtol=1e-6)
    clipped, norm = optimizers.clip_by_global_norm([tf.zeros(2)], 1.0)
    assert float(norm) == 0
    assert clipped[0].numpy().tolist() == [0.0, 0.0]


def test_over_the_run_the_learning_rate_follows_its_progress() -> None:
    rates = [optimizers.learning_rate_at(Linear(0.5, 0.0, 1.0, over="run"), labels(7, p)) for p in (0.0, 0.5, 1.0)]
    assert [float(rate) for rate in rates] == [0.5, 0.25, 0.0]


@pytest.mark.parametrize("value", [max, "0.1"])
def test_what_cannot_be_a_learning_rate(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^learning_rate must be "):
        optimizers.learning_rate_at(value, labels(0))


@pytest.mark.parametrize("name", ["ftrl", "rmsprop"])
def test_optimizers_move_against_the_gradient(name: str) -> None:
    variable = keras.Variable(np.ones((2, 2), np.float32))
    optimizer: Any = optimizers.make_optimizer(name, tf.constant(0.1))
    for _ in range(3):
        optimizer.apply([tf.ones((2, 2))], [variable])
    assert float(tf.reduce_max(variable.value)) < 1
    assert not any("learning_rate" in v.name for v in optimizer.variables)  # it is the graph's, not a variable


def adam_steps(make: Any, shape: tuple[int, ...], count: int) -> list[Any]:
    """A variable and its moments after so many steps from ones, of gradients drawn from a seed."""
    variable = keras.Variable(np.ones(shape, np.float32))
    optimizer = make(lambda: tf.constant(0.1))
    optimizer.build([variable])

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(gradient: Any) -> None:
        optimizer.apply([gradient], [variable])

    rng = np.random.default_rng(0)
    for _ in range(count):
        step(tf.constant(rng.normal(size=shape), tf.float32))
    moments = [v.numpy() for v in optimizer.variables if "momentum" in v.path or "velocity" in v.path]
    return [variable.numpy(), *moments]


@pytest.mark.parametrize(("shape", "rtol"), [((optimizers.LARGE - 1,), 0.0), ((2, optimizers.LARGE // 2), 2e-5)])
def test_adam_is_keras_adam(shape: tuple[int, ...], rtol: float) -> None:
    """Bit by bit where it is small; else in other roundings: 1 - beta_2 is off by 1.3e-5, and steps by half of that."""
    ours = adam_steps(optimizers.optimizer_class("adam"), shape, 50)
    theirs = adam_steps(keras.optimizers.Adam, shape, 50)
    assert len(ours) == len(theirs) == 3
    for found, expected in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-4 if rtol else 0.0)
    assert np.abs(ours[0] - 1).mean() > 0.1


def test_an_epsilon_makes_the_first_step_of_adam_smaller() -> None:
    """sqrt(0.004) in the divisor, of the second moment, and 0.1 / 0.1 * sqrt(0.001) * 0.2 in the numerator."""
    variable = keras.Variable(np.ones(3, np.float32))
    optimizers.make_optimizer("adam", tf.constant(0.1), 0.5).apply([tf.fill([3], 2.0)], [variable])
    step = 0.1 * np.sqrt(0.001) / 0.1 * 0.2 / (np.sqrt(0.004) + 0.5)
    np.testing.assert_allclose(variable.numpy(), 1 - step, rtol=1e-5)


@pytest.mark.parametrize("name", ["sgd", "adafactor"])
def test_an_epsilon_is_refused_by_optimizers_that_have_none(name: str) -> None:
    error = raised(ArgumentError, optimizers.make_optimizer, name, tf.constant(0.1), 1e-4, match=name)
    assert (error.argument, error.value) == ("optimizer_epsilon", 1e-4)


def test_adam_in_litert() -> None:
    """In one op, which a conversion takes apart: once and in a loop, like PPO's."""
    variable = keras.Variable(np.ones((2, optimizers.LARGE // 2), np.float32))
    optimizer = optimizers.make_optimizer("adam", tf.constant(0.1))
    optimizer.build([variable])

    def program(gradient: Any) -> list[Any]:
        optimizer.apply([gradient], [variable])
        between = variable.value.read_value()

        def again(i: Any) -> list[Any]:
            optimizer.apply([i * gradient], [variable])
            return [i + 1]

        tf.while_loop(lambda i: i < 4.0, again, [2.0])
        return [between, variable.value.read_value()]

    concrete = tf.function(program, autograph=False).get_concrete_function(tf.TensorSpec(variable.shape))
    ops = {op.type for op in concrete.graph.get_operations()}
    assert "ResourceApplyAdam" in ops
    variables = [variable.value, *(v.value for v in optimizer.variables)]
    signatures = LiteProgram(convert({"f": concrete}, variables)).signatures
    signatures["set"]([v.numpy() for v in variables])
    gradient = np.random.default_rng(0).normal(size=variable.shape).astype(np.float32)
    found = signatures["f"]([gradient])
    for ours, theirs in zip(found, concrete(tf.constant(gradient)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    assert float(np.abs(found[1] - found[0]).mean()) > 0.1


PLANE, AXIS = Box(-1, 1, (2,), np.float32), Box(-1, 1, (1,), np.float32)
SEEN = np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)
PLAYED = transitions(SEEN, np.array([0, 1, 1, 0], np.int32), [1, -1, 0, 2], [0.9, 0.9, 0.9, 0])
WIDE: dict[str, Any] = {
    "dqn": (dqn.model_fn, {}, Discrete(2), PLAYED),
    "ppo": (
        ppo.model_fn,
        {"epochs": 2, "minibatch_size": 4},
        Discrete(2),
        random_rollout(np.random.default_rng(0), (8, 1)),
    ),
    "sac": (sac.model_fn, {}, AXIS, {**PLAYED, "action": np.array([[0.5], [-0.5], [0], [1]], np.float32)}),
}


@pytest.mark.parametrize(("model_fn", "params", "action", "batch"), WIDE.values(), ids=WIDE)
def test_networks_of_256_units_learn_alike_in_both_executors(
    model_fn: Any, params: dict[str, Any], action: Any, batch: dict[str, Any]
) -> None:
    """In one step and in loops over minibatches; one layer has ``LARGE`` weights, and LiteRT runs the op of Adam."""
    config = RunConfig(observation_space=PLANE, action_space=action)
    ours = Model(model_fn, {**params, "hidden": (256, 256), "learning_rate": 1e-3}, config, batch, "litert")
    assert "ResourceApplyAdam" in reached_ops(reached_nodes(ours.train_program.function.graph))
    assert ours.train_program.large is None
    before, theirs, rng = ours.weights, ours.also_in("tensorflow"), np.random.default_rng(0)
    for step in range(2):
        draws = [request.draw(rng) for request in ours.train_program.noise]
        assert ours.train(step, draws)["loss"] == pytest.approx(theirs.train(step, draws)["loss"], rel=1e-3)
    for name, expected in theirs.weights.items():
        np.testing.assert_allclose(ours.weights[name], expected, rtol=1e-3, atol=1e-5, err_msg=name)
    moved = [np.abs(ours.weights[name] - value).max() for name, value in before.items() if name.endswith("kernel")]
    assert max(moved) > 1e-3


def test_adam_takes_the_gradients_of_a_large_embedding() -> None:
    table = keras.Variable(np.ones((optimizers.LARGE, 2), np.float32))
    optimizer = optimizers.make_optimizer("adam", tf.constant(0.1))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(3 * tf.gather(table.value, [5, 7, 5]))
    gradient = tape.gradient(loss, table.value)
    assert isinstance(gradient, tf.IndexedSlices)
    optimizer.apply([gradient], [table])
    expected = np.ones((optimizers.LARGE, 2))
    expected[[5, 7]] = 0.9
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-6)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"optimizer must be one of .*; got 'Adam' \(did you mean 'adam'\?\)"):
        optimizers.make_optimizer("Adam", tf.constant(0.1))
    with pytest.raises(ValueError, match=r"learning_rate must stay in 0 \.\. inf, got -1"):
        optimizers.learning_rate_at(-1, labels(0))
