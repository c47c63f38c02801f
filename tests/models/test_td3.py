"""TD3 against its paper's algorithm in NumPy, and what is its own: delay, smoothing, twin critics."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import RunConfig, noise
from axonrl.core.protocols import Modes
from axonrl.models import td3
from axonrl.tests.models.deterministic import ACTOR, BATCH, CONFIG, F32, ByHand
from axonrl.tests.models.executed import LINEAR, Model, traced

PARAMS = {**LINEAR, "target_update_rate": 0.25, "smoothing": 0.2, "smoothing_clip": 0.5}
CRITICS = [[0.5, 2.0, 0.1], [0.4, 2.2, 0.3]]  # by observation, by action, bias; which is less depends on both
NAMES = ["critic1", "critic2"]
DRAWS = np.array([[[-4.0], [0.3], [1.0]], [[4.0], [0.0], [0.5]]], F32)  # 4 is 0.8, which is clipped to 0.5


def made(runtime: str = "tensorflow", **params: Any) -> Model:
    return traced(td3.model_fn, {**PARAMS, **params}, CONFIG, BATCH, runtime)


def by_hand(delay: int = 2) -> ByHand:
    return ByHand(CRITICS, rate=0.25, delay=delay, actor_rate=0.1, critic_rate=0.1, limit=0.5)


def start(model: Model) -> None:
    """Its weights are those of :func:`by_hand`; its targets have something else."""
    target = {name.replace("actor", "target_actor"): 7.0 for name in ("actor/mu/kernel", "actor/mu/bias")}
    model.set({**by_hand().weights(NAMES), **target})


@pytest.mark.parametrize(("runtime", "delay"), [("litert", 2), ("tensorflow", 1)])
def test_updates_are_those_of_the_paper(runtime: str, delay: int) -> None:
    model, expected = made(runtime, policy_delay=delay), by_hand(delay)
    start(model)
    for step in range(5):
        draws = DRAWS[step % 2]
        found, wanted = model.train(step, [draws]), expected.step(BATCH, 0.2 * draws.ravel())
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=f"{name} in step {step}")
        model.check(expected.weights(NAMES))


def test_the_actor_and_its_optimizer_rest_between_its_steps() -> None:
    params = {**PARAMS, "hidden": (4,), "optimizer": "adam", "policy_delay": 2}
    model = Model(td3.model_fn, params, CONFIG, BATCH, "tensorflow")
    changed = []
    for step in range(4):
        before = model.executor.get_weights()
        model.train(step, [DRAWS[0]])
        after = model.executor.get_weights()
        names = [name for name, value in after.items() if not np.array_equal(value, before[name])]
        parts = {name.partition(".")[2].partition("dense1")[0].partition("mlp")[0].strip("/_") for name in names}
        iterations = sorted(int(value) for name, value in after.items() if "iteration" in name)
        changed.append((parts & {"actor", "adam/actor", "critic1", "adam/critic1", "target_actor"}, iterations))
    always, due = {"critic1", "adam/critic1"}, {"actor", "adam/actor", "target_actor"}
    assert changed == [(always | due, [1, 1]), (always, [1, 2]), (always | due, [2, 3]), (always, [2, 4])]


def test_predictions_are_greedy_in_the_environments_units_and_of_the_actor_alone() -> None:
    model = made(policy_delay=2)
    start(model)
    found = model.act(np.array([[1], [40]], F32))
    np.testing.assert_allclose(found["action"], [[2 + 2 * np.tanh(-0.25)], [4.0]], rtol=1e-6)
    assert list(found) == ["action"]
    assert list(model.program.store.predict_variables()) == ["0000.actor/mu/kernel", "0001.actor/mu/bias"]
    assert [float(value.item()) for value in model.executor.get_predict_weights().values()] == ACTOR.tolist()


def test_actions_of_any_shape_dict_observations_and_eval() -> None:
    observation_space = spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Box(-1, 1, (2, 2))})
    config = RunConfig(observation_space=observation_space, action_space=spaces.Box(-3, 3, (2, 3), np.float64))
    observation = {"a": tf.ones([4, 2, 2]), "b": tf.constant([0, 1, 1, 0])}
    spec = td3.model_fn(observation, None, Modes.PREDICT, {"hidden": (5,)}, config)
    assert spec.predictions is not None
    assert spec.predictions["action"].shape == (4, 2, 3)
    labels = {
        "action": tf.zeros([4, 2, 3]),
        "next_observation": observation,
        "reward": tf.constant([1.0, 2.0, 3.0, 4.0]),
        "discount": tf.ones([4]),
    }
    with noise.supplying(lambda request: tf.zeros(request.shape)):
        spec = td3.model_fn(observation, labels, Modes.EVAL, {"hidden": (5,), "initializer": "zeros"}, config)
    # All values are 0: half the square of the reward, by two critics.
    assert float(spec.loss) == pytest.approx((1 + 4 + 9 + 16) / 4)
    assert spec.metrics == {}
