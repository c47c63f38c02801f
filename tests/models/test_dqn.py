"""DQN against numbers worked out by hand, on a network that is one matrix: Q(s) = s W + b."""

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.core.protocols import Modes, RunConfig
from axonrl.errors import ArgumentError
from axonrl.models import dqn
from axonrl.models.dqn import DQNParams
from axonrl.schedules import make_schedule
from axonrl.tests.models.executed import LINEAR, Model, traced, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2, start=5))
PLAIN = {**LINEAR, "max_gradient_norm": None}
KERNEL = np.array([[1, 0], [0, 2]], F32)
BATCH = transitions(
    np.array([[1, 2], [3, 1]], F32),  # Q [[1, 4], [3, 2]]
    np.array([5, 6], np.int32),  # Q of the taken actions: 1 and 2
    [1, -1],
    next_observation=np.array([[1, 1], [2, 0]], F32),  # Q [[1, 2], [2, 0]]
)
ONLINE, TARGET = "online/q_values", "target/q_values"


def made(batch: Any = BATCH, config: RunConfig = CONFIG, **params: Any) -> Model:
    """Equal ones share a trace: plain SGD has no memory."""
    return traced(dqn.model_fn, {**PLAIN, **params}, config, batch)


def linear(target: Any = None, batch: Any = BATCH, **params: Any) -> Model:
    """Both networks hold KERNEL, unless the target's weights are given."""
    model = made(batch, **params)
    model.set({f"{ONLINE}/kernel": KERNEL, **({f"{TARGET}/kernel": KERNEL} if target is None else target)})
    return model


NINES = {f"{TARGET}/kernel": [9] * 4, f"{TARGET}/bias": [9, 9]}


def test_predictions_are_greedy_in_the_environments_units() -> None:
    predictions = linear().act()
    np.testing.assert_allclose(predictions["q_values"], [[1, 4], [3, 2]])
    assert (predictions["action"].tolist(), predictions["action"].dtype) == ([6, 5], np.int32)


def test_predict_declares_the_behaviour_policy_and_records_nothing() -> None:
    model = linear(epsilon={"kind": "linear", "start": 0.8, "stop": 0.2, "duration": 100})
    spec: Any = model.program.predict
    assert [spec.exploration.level(t) for t in (0, 50, 200)] == pytest.approx([0.8, 0.5, 0.2])
    explored = spec.exploration(model.act(), 0, np.random.default_rng(0))[0]
    assert set(explored.tolist()) <= {5, 6}
    assert spec.record == ()
    default = make_schedule(DQNParams().epsilon)
    assert [default(t) for t in (0, 5000, 10_000)] == pytest.approx([1.0, 0.525, 0.05])


def test_one_update_by_hand() -> None:
    model = linear()
    result = model.train(0)
    # Targets 1 + 0.5 * 2 and -1: td errors 2 - 1 and -1 - 2; Huber 0.5 and 2.5.
    np.testing.assert_allclose(result["td_error"], [1, -3])
    assert (result["loss"], result["q_mean"]) == (pytest.approx(1.5), pytest.approx(1.5))
    assert result["td_error_mean"] == pytest.approx(2.0)
    assert result["learning_rate"] == pytest.approx(0.1)
    # The loss falls with Q(s1, 5) by 1/2 and rises with Q(s2, 6) by 1/2 (clipped): the kernel's gradient is
    # [[-0.5, 1.5], [-1, 0.5]] and the bias' [-0.5, 0.5], of squared norm 3.75 + 0.5.
    assert result["gradient_norm"] == pytest.approx(np.sqrt(4.25))
    weights = model.weights
    np.testing.assert_allclose(weights[f"{ONLINE}/kernel"], [[1.05, -0.15], [0.1, 1.95]], rtol=1e-6)
    np.testing.assert_allclose(weights[f"{ONLINE}/bias"], [0.05, -0.05], rtol=1e-6)
    np.testing.assert_array_equal(weights[f"{TARGET}/kernel"], KERNEL)


def test_gradients_are_clipped_by_their_global_norm() -> None:
    model = linear(max_gradient_norm=0.5)
    assert model.train()["gradient_norm"] == pytest.approx(np.sqrt(4.25))  # before clipping
    scale = 0.1 * 0.5 / np.sqrt(4.25)
    np.testing.assert_allclose(model.weights[f"{ONLINE}/bias"], [0.5 * scale, -0.5 * scale], rtol=1e-5)
    np.testing.assert_allclose(model.weights[f"{ONLINE}/kernel"][0], [1 + 0.5 * scale, -1.5 * scale], rtol=1e-5)


def test_squared_loss() -> None:
    model = linear(loss="squared")
    assert model.train()["loss"] == pytest.approx((0.5 + 4.5) / 2)
    np.testing.assert_allclose(model.weights[f"{ONLINE}/bias"], [0.05, -0.15], rtol=1e-6)  # td errors / 2, not clipped


@pytest.mark.parametrize(("double", "td_errors"), [(True, [1.5, -3]), (False, [2, -3])])
def test_double_lets_the_online_network_choose(double: bool, td_errors: list[float]) -> None:
    model = linear({f"{TARGET}/kernel": [4, 3, 0, 0]}, double=double)  # Q'(s1') [4, 3]; online says [1, 2]
    np.testing.assert_allclose(model.train()["td_error"], td_errors)  # 1 + 0.5 * 3 - 1, or 1 + 0.5 * 4 - 1


def test_dueling_trains_both_streams() -> None:
    model = made(dueling="mean", loss="squared")
    model.set({"online/advantage/kernel": KERNEL, "target/advantage/kernel": KERNEL})
    # Q [[-1.5, 1.5], [0.5, -0.5]], Q(s1') [-0.5, 0.5]: td errors 1.25 + 1.5 and -1 + 0.5. The gradient to Q of the
    # taken actions is -2.75 / 2 and 0.5 / 2; half of it goes to the taken advantage, minus half to the other.
    np.testing.assert_allclose(model.train()["td_error"], [2.75, -0.5])
    weights = model.weights
    np.testing.assert_allclose(weights["online/value/bias"], [0.1 * (2.75 - 0.5) / 2], rtol=1e-6)
    np.testing.assert_allclose(weights["online/advantage/bias"], 0.1 * np.array([1.625, -1.625]) / 2, rtol=1e-6)


def test_the_target_is_copied_every_period_before_the_loss() -> None:
    model = linear(NINES, target_update_period=2)
    target: dict[str, Any] = {}
    for step in range(5):
        online = {name: model.weights[f"{ONLINE}/{name}"] for name in ("kernel", "bias")}
        result = model.train(step)
        target = online if step % 2 == 0 else target
        for name, expected in target.items():
            np.testing.assert_array_equal(model.weights[f"{TARGET}/{name}"], expected)
        if step == 0:  # the loss has seen the copy, not the nines
            np.testing.assert_allclose(result["td_error"], [1, -3])


def test_the_learning_rate_follows_global_step() -> None:
    for step, rate in [(0, 0.2), (2, 0.2), (3, 0.1)]:
        model = linear(learning_rate={"kind": "piecewise_constant", "boundaries": [3], "values": [0.2, 0.1]})
        assert model.train(step)["learning_rate"] == pytest.approx(rate)
        np.testing.assert_allclose(model.weights[f"{ONLINE}/bias"], [0.5 * rate, -0.5 * rate], rtol=1e-6)


def test_the_online_network_comes_first_in_every_mode() -> None:
    program = made(hidden=(3,), dueling="mean").program
    shapes = [tuple(variable.shape) for variable in program.variables().values()]
    assert [tuple(variable.shape) for variable in program.predict_variables().values()] == shapes[:6]
    assert shapes[:12] == [(2, 3), (3,), (3, 2), (2,), (3, 1), (1,)] * 2


def test_eval_is_the_loss_and_changes_nothing() -> None:
    model = linear(NINES)  # Q'(s1') 27: the td error is 13.5
    before = model.weights
    counters = {"global_step": np.int64(0), "global_timestep": np.int64(0), "progress": F32(0)}
    given = tf.nest.map_structure(tf.constant, [BATCH, counters])
    assert float(model.program.trace_eval().function(*given, [])["scalars"][0]) == (13 + 2.5) / 2
    np.testing.assert_equal(model.weights, before)


def test_training_is_free_of_branches_and_randomness() -> None:
    function = made().train_program.function
    outputs = [output.op.name for output in function.outputs]
    update = tf.compat.v1.graph_util.extract_sub_graph(function.graph.as_graph_def(), outputs)
    operations = {node.op for node in update.node}
    assert "MatMul" in operations
    assert not [name for name in operations if re.search("If$|While|Switch|Random|Where|GatherNd", name)]


def test_dict_observations() -> None:
    space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (1,))})
    seen = {"a": np.array([[0.5], [1]], F32), "b": np.array([1, 0], np.int32)}
    batch = {**BATCH, "observation": seen, "next_observation": seen, "action": np.array([0, 1], np.int32)}
    model = made(batch, RunConfig(observation_space=space, action_space=spaces.Discrete(2)))
    model.set({f"{ONLINE}/kernel": [[2, 0], [0, 3], [5, 0]]})
    np.testing.assert_allclose(model.act()["q_values"], [[6, 0], [2, 3]])


def test_learning_from_demonstrations_by_hand() -> None:
    demonstrations = {
        "demonstration": np.array([1, 0], F32),
        "n_step_reward": np.array([2, 0], F32),
        "n_step_discount": np.array([0.25, 0.5], F32),
        "n_step_next_observation": np.array([[0, 1], [2, 0]], F32),  # Q [[0, 2], [2, 0]]
    }
    model = linear(batch={**BATCH, **demonstrations}, margin_weight=0.5, n_step_weight=2, l2=0.1)
    result = model.train()
    # One step as above, 1.5. Margin: max(1, 4 + 0.8) - 1 = 3.8 for the demonstration, so half of 3.8 / 2. n steps:
    # targets 2 + 0.25 * 2 and 0.5 * 2, errors 1.5 and -1, Huber 1 and 0.5, so twice 0.75. Weights: 0.1 * (1 + 4) / 2.
    assert result["loss"] == pytest.approx(1.5 + 0.95 + 1.5 + 0.25)
    np.testing.assert_allclose(result["td_error"], [1, -3])
    labels = tf.nest.map_structure(tf.constant, {**BATCH, "global_step": np.int64(0)})
    for param, key in (("margin_weight", "demonstration"), ("n_step_weight", "n_step_reward")):
        with pytest.raises(ArgumentError, match=key) as caught:
            dqn.model_fn(labels["observation"], labels, Modes.TRAIN, {**PLAIN, param: 1}, CONFIG)
        assert caught.value.argument == param
