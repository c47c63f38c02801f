"""DQN against numbers worked out by hand, on a network that is one matrix: Q(s) = s W + b."""

import functools
import json
import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.contracts import Modes, RunConfig
from axonrl.errors import ArgumentError
from axonrl.models import dqn
from axonrl.models.dqn import DQNParams
from axonrl.schedules import make_schedule

CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2, start=5))
LINEAR = {"hidden": (), "optimizer": "sgd", "learning_rate": 0.1, "max_gradient_norm": None}
WEIGHTS = [np.array([[1.0, 0.0], [0.0, 2.0]], np.float32), np.zeros(2, np.float32)]
OBSERVATION = np.array([[1, 2], [3, 1]], np.float32)  # Q [[1, 4], [3, 2]]
BATCH: dict[str, Any] = {
    "action": np.array([5, 6], np.int32),  # Q of the taken actions: 1 and 2
    "reward": np.array([1, -1], np.float32),
    "discount": np.array([0.5, 0], np.float32),
    "next_observation": np.array([[1, 1], [2, 0]], np.float32),  # Q [[1, 2], [2, 0]]
}


class Traced:
    """Runs a model_fn as a runtime does: traced per mode, its variables handed over in the order of creation."""

    def __init__(self, params: Any, config: RunConfig = CONFIG) -> None:
        self.params, self.config = params, config
        self.variables: list[Any] = []
        self.specs: dict[str, Any] = {}
        self.functions: dict[str, Any] = {}

    def _call(self, mode: str, features: Any, labels: Any = None) -> Any:
        cursor = 0

        def creator(next_creator: Any, **kwargs: Any) -> Any:
            nonlocal cursor
            if cursor == len(self.variables):
                self.variables.append(next_creator(**kwargs))
            cursor += 1
            return self.variables[cursor - 1]

        with tf.variable_creator_scope(creator):
            spec = self.specs[mode] = dqn.model_fn(features, labels, mode, self.params, self.config)
        if mode == Modes.PREDICT:
            return spec.predictions
        outputs = {"loss": spec.loss, **spec.metrics}
        return outputs if spec.td_error is None else {**outputs, "td_error": spec.td_error}

    def run(self, mode: str, *arguments: Any) -> dict[str, Any]:
        arguments = tf.nest.map_structure(tf.constant, arguments)
        if mode not in self.functions:
            function = tf.function(lambda *a: self._call(mode, *a), autograph=False)
            self.functions[mode] = function.get_concrete_function(*arguments)
        return {name: value.numpy() for name, value in self.functions[mode](*arguments).items()}

    def predict(self, observation: Any = OBSERVATION) -> dict[str, Any]:
        return self.run(Modes.PREDICT, observation)

    def train(self, step: int, observation: Any = OBSERVATION, mode: str = Modes.TRAIN, **batch: Any) -> dict[str, Any]:
        counters = {"global_step": np.int64(step), "global_timestep": np.int64(10 * step), "progress": 0.0}
        return self.run(mode, observation, {**BATCH, **batch, **counters})

    def prepare(self) -> None:
        """Trace both modes; afterwards ``set`` decides all weights."""
        self.predict()
        self.train(0)

    def set(self, online: list[Any], target: list[Any]) -> None:
        for variable, value in zip(self.variables, [*online, *target], strict=False):
            variable.assign(value)

    def values(self) -> list[Any]:
        return [variable.numpy() for variable in self.variables]


@functools.cache
def made(params: str) -> Traced:
    model = Traced({**LINEAR, **json.loads(params)})
    model.prepare()
    return model


def linear(**params: Any) -> Traced:
    """Both networks hold WEIGHTS; their variables are number 0, 1 and 2, 3. Traced once for the same parameters."""
    model = made(json.dumps(params))
    model.set(WEIGHTS, WEIGHTS)
    return model


def test_predictions_are_greedy_in_the_environments_units() -> None:
    model = linear()
    predictions = model.predict()
    np.testing.assert_allclose(predictions["q_values"], [[1, 4], [3, 2]])
    assert predictions["action"].tolist() == [6, 5]
    assert predictions["action"].dtype == np.int32


def test_predict_declares_the_behaviour_policy_and_records_nothing() -> None:
    model = linear(epsilon={"kind": "linear", "start": 0.8, "stop": 0.2, "duration": 100})
    spec = model.specs[Modes.PREDICT]
    assert [spec.exploration.level(t) for t in (0, 50, 200)] == pytest.approx([0.8, 0.5, 0.2])
    explored = spec.exploration(model.predict(), 0, np.random.default_rng(0))[0]
    assert set(explored.tolist()) <= {5, 6}
    assert spec.record == ()
    default = make_schedule(DQNParams().epsilon)
    assert [default(t) for t in (0, 5000, 10_000)] == pytest.approx([1.0, 0.525, 0.05])


def test_one_update_by_hand() -> None:
    model = linear()
    result = model.train(0)
    # Targets 1 + 0.5 * 2 and -1: td errors 2 - 1 and -1 - 2; Huber 0.5 and 2.5.
    np.testing.assert_allclose(result["td_error"], [1, -3])
    assert result["loss"] == pytest.approx(1.5)
    assert result["q_mean"] == pytest.approx(1.5)
    assert result["td_error_mean"] == pytest.approx(2.0)
    assert result["learning_rate"] == pytest.approx(0.1)
    # The loss falls with Q(s1, 5) by 1/2 and rises with Q(s2, 6) by 1/2 (clipped): the kernel's gradient is
    # [[-0.5, 1.5], [-1, 0.5]] and the bias' [-0.5, 0.5], of squared norm 3.75 + 0.5.
    assert result["gradient_norm"] == pytest.approx(np.sqrt(4.25))
    kernel, bias, *target = model.values()
    np.testing.assert_allclose(kernel, [[1.05, -0.15], [0.1, 1.95]], rtol=1e-6)
    np.testing.assert_allclose(bias, [0.05, -0.05], rtol=1e-6)
    np.testing.assert_array_equal(target[0], WEIGHTS[0])


def test_gradients_are_clipped_by_their_global_norm() -> None:
    model = linear(max_gradient_norm=0.5)
    assert model.train(0)["gradient_norm"] == pytest.approx(np.sqrt(4.25))  # before clipping
    scale = 0.1 * 0.5 / np.sqrt(4.25)
    np.testing.assert_allclose(model.values()[1], [0.5 * scale, -0.5 * scale], rtol=1e-5)
    np.testing.assert_allclose(model.values()[0][0], [1 + 0.5 * scale, -1.5 * scale], rtol=1e-5)


def test_squared_loss() -> None:
    model = linear(loss="squared")
    assert model.train(0)["loss"] == pytest.approx((0.5 + 4.5) / 2)
    np.testing.assert_allclose(model.values()[1], [0.05, -0.15], rtol=1e-6)  # td errors / 2, not clipped


@pytest.mark.parametrize(("double", "td_errors"), [(True, [1.5, -3]), (False, [2, -3])])
def test_double_lets_the_online_network_choose(double: bool, td_errors: list[float]) -> None:
    model = linear(double=double)
    target = [np.array([[4, 3], [0, 0]], np.float32), np.zeros(2, np.float32)]  # Q'(s1') [4, 3]; online says [1, 2]
    model.set(WEIGHTS, target)
    np.testing.assert_allclose(model.train(1)["td_error"], td_errors)  # 1 + 0.5 * 3 - 1, or 1 + 0.5 * 4 - 1


def test_dueling_trains_both_streams() -> None:
    model = Traced({**LINEAR, "dueling": "mean", "loss": "squared"})
    model.prepare()
    value = [np.zeros((2, 1), np.float32), np.zeros(1, np.float32)]
    model.set([*WEIGHTS, *value], [*WEIGHTS, *value])
    # Q [[-1.5, 1.5], [0.5, -0.5]], Q(s1') [-0.5, 0.5]: td errors 1.25 + 1.5 and -1 + 0.5. The gradient to Q of the
    # taken actions is -2.75 / 2 and 0.5 / 2; half of it goes to the taken advantage, minus half to the other.
    np.testing.assert_allclose(model.train(0)["td_error"], [2.75, -0.5])
    _, advantage_bias, _, value_bias = model.values()[:4]
    np.testing.assert_allclose(value_bias, [0.1 * (2.75 - 0.5) / 2], rtol=1e-6)
    np.testing.assert_allclose(advantage_bias, 0.1 * np.array([1.625, -1.625]) / 2, rtol=1e-6)


def test_the_target_is_copied_every_period_before_the_loss() -> None:
    model = linear(target_update_period=2)
    model.set(WEIGHTS, [np.full((2, 2), 9, np.float32), np.full(2, 9, np.float32)])
    target = None
    for step in range(5):
        online = model.values()[:2]
        result = model.train(step)
        target = online if step % 2 == 0 else target
        assert target is not None
        for variable, expected in zip(model.values()[2:4], target, strict=True):
            np.testing.assert_array_equal(variable, expected)
        if step == 0:  # the loss has seen the copy, not the nines
            np.testing.assert_allclose(result["td_error"], [1, -3])


def test_the_learning_rate_follows_global_step() -> None:
    model = linear(learning_rate={"kind": "piecewise_constant", "boundaries": [3], "values": [0.2, 0.1]})
    for step, rate in [(0, 0.2), (2, 0.2), (3, 0.1)]:
        model.set(WEIGHTS, WEIGHTS)
        assert model.train(step)["learning_rate"] == pytest.approx(rate)
        np.testing.assert_allclose(model.values()[1], [0.5 * rate, -0.5 * rate], rtol=1e-6)


def test_the_online_network_comes_first_in_every_mode() -> None:
    model = Traced({"hidden": (3,), "dueling": "mean"})
    model.predict()
    shapes = [tuple(v.shape) for v in model.variables]
    assert shapes == [(2, 3), (3,), (3, 2), (2,), (3, 1), (1,)]
    model.train(0)
    assert [tuple(v.shape) for v in model.variables[:12]] == shapes * 2


def test_eval_is_the_loss_and_changes_nothing() -> None:
    model = linear()
    model.train(0, mode=Modes.EVAL)  # traced
    model.set(WEIGHTS, [np.full((2, 2), 9, np.float32), np.full(2, 9, np.float32)])  # Q'(s1') 27: the td error is 13.5
    before = model.values()
    assert model.train(0, mode=Modes.EVAL)["loss"] == pytest.approx((13 + 2.5) / 2)
    for value, expected in zip(model.values(), before, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_training_is_free_of_branches_and_randomness() -> None:
    model = linear()
    model.train(0)
    update = tf.compat.v1.graph_util.extract_sub_graph(
        model.functions[Modes.TRAIN].graph.as_graph_def(),
        [output.op.name for output in model.functions[Modes.TRAIN].outputs],
    )
    operations = {node.op for node in update.node}
    assert "MatMul" in operations
    assert not [name for name in operations if re.search("If$|While|Switch|Random|Where|GatherNd", name)]


def test_dict_observations() -> None:
    space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (1,))})
    model = Traced(LINEAR, RunConfig(observation_space=space, action_space=spaces.Discrete(2)))
    observation = {"a": np.array([[0.5], [1]], np.float32), "b": np.array([1, 0], np.int32)}
    model.predict(observation)
    model.train(0, observation, next_observation=observation, action=np.array([0, 1], np.int32))
    model.set([np.array([[2, 0], [0, 3], [5, 0]], np.float32), np.zeros(2, np.float32)], [])
    np.testing.assert_allclose(model.predict(observation)["q_values"], [[6, 0], [2, 3]])


def test_learning_from_demonstrations_by_hand() -> None:
    model = Traced({**LINEAR, "margin_weight": 0.5, "n_step_weight": 2, "l2": 0.1})
    demonstrations: dict[str, Any] = {
        "demonstration": np.array([1, 0], np.float32),
        "n_step_reward": np.array([2, 0], np.float32),
        "n_step_discount": np.array([0.25, 0.5], np.float32),
        "n_step_next_observation": np.array([[0, 1], [2, 0]], np.float32),  # Q [[0, 2], [2, 0]]
    }
    model.predict()
    model.train(0, **demonstrations)
    model.set(WEIGHTS, WEIGHTS)
    result = model.train(0, **demonstrations)
    # One step as above, 1.5. Margin: max(1, 4 + 0.8) - 1 = 3.8 for the demonstration, so half of 3.8 / 2. n steps:
    # targets 2 + 0.25 * 2 and 0.5 * 2, errors 1.5 and -1, Huber 1 and 0.5, so twice 0.75. Weights: 0.1 * (1 + 4) / 2.
    assert result["loss"] == pytest.approx(1.5 + 0.95 + 1.5 + 0.25)
    np.testing.assert_allclose(result["td_error"], [1, -3])
    for params, key in (({"margin_weight": 1}, "demonstration"), ({"n_step_weight": 1}, "n_step_reward")):
        lacking = Traced({**LINEAR, **params})
        lacking.predict()
        with pytest.raises(ArgumentError, match=key) as caught:
            lacking.train(0)
        assert caught.value.argument in params
