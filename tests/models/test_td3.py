"""TD3 against its paper's algorithm in NumPy, and what is its own: delay, smoothing, twin critics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Agent, RunConfig, noise
from axonrl.contracts import Modes
from axonrl.explorations import GaussianNoise, OrnsteinUhlenbeck
from axonrl.memories import ReplayMemory
from axonrl.models import td3
from axonrl.tests.models.bandits import Bandit
from axonrl.tests.models.deterministic import ACTOR, BATCH, CONFIG, F32, ByHand
from axonrl.tests.models.executed import Model, traced

PARAMS: dict[str, Any] = {
    "hidden": (),
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "target_update_rate": 0.25,
    "smoothing": 0.2,
    "smoothing_clip": 0.5,
}
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
        for name, value in expected.weights(NAMES).items():
            np.testing.assert_allclose(model.weights[name].ravel(), value, rtol=1e-5, err_msg=f"{name} in step {step}")


def test_the_numbers_of_an_update_in_full() -> None:
    """Of the first transition, so that they can be followed without a program."""
    model = made(policy_delay=2)
    start(model)
    found = model.train(0, [DRAWS[1]])
    # mu(2) is tanh(0.5 - 0.5) = 0, and with the clipped noise 0.5. There Q1 is 1 + 1 + 0.1, and Q2 0.8 + 1.1 + 0.3.
    # The target is 1 + 0.5 * 2.1; Q1(1, -0.5) is -0.4, and Q2 is -0.4.
    assert found["td_error"][0] == pytest.approx(2.05 + 0.4)


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


def test_several_gradient_steps_are_that_many_updates_on_the_parts_of_the_batch() -> None:
    params = {**PARAMS, "hidden": (3,), "max_gradient_norm": 0.7, "policy_delay": 3}
    rng = np.random.default_rng(0)
    batch = {name: np.concatenate([value, F32(0.5) * value[::-1]]) for name, value in BATCH.items()}
    one = Model(td3.model_fn, params, CONFIG, BATCH, "tensorflow")
    two = Model(td3.model_fn, {**params, "updates": 2}, CONFIG, batch, "tensorflow")
    two.executor.set_weights(one.executor.get_weights())
    for update in range(3):  # the actor learns in steps 0 and 3: the first one of an update, the second, none
        draws = rng.standard_normal((6, 1)).astype(F32)
        singles = [
            one.train(2 * update + part, [draws[rows]], **{name: value[rows] for name, value in batch.items()})
            for part, rows in enumerate((slice(0, 3), slice(3, 6)))
        ]
        found = two.train(update, [draws])
        expected = np.concatenate([single.pop("td_error") for single in singles])
        np.testing.assert_allclose(found.pop("td_error"), expected, rtol=1e-4, atol=1e-6)
        for name, value in found.items():
            assert value == pytest.approx(np.mean([single[name] for single in singles]), rel=1e-4), name
    for name, value in one.executor.get_weights().items():
        np.testing.assert_allclose(two.executor.get_weights()[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_norms_are_before_clipping_and_each_has_its_own() -> None:
    results, length = {}, {}
    for limit in (1e9, 1e-3):
        model = made(policy_delay=1, max_gradient_norm=limit)
        start(model)
        begun = model.weights
        results[limit] = model.train(0, [DRAWS[0]])
        for part in ("critic", "actor"):
            moves = [value - begun[name] for name, value in model.weights.items() if name.startswith(part)]
            length[limit, part] = float(np.sqrt(sum(np.sum(np.square(move)) for move in moves))) / 0.1
    for part in ("critic", "actor"):
        assert length[1e-3, part] == pytest.approx(1e-3, rel=0.02)
        assert results[1e9][f"{part}_gradient_norm"] == pytest.approx(length[1e9, part], rel=1e-4)
    assert results[1e-3]["critic_gradient_norm"] == pytest.approx(length[1e9, "critic"], rel=1e-4)


def test_predictions_are_greedy_in_the_environments_units_and_of_the_actor_alone() -> None:
    model = made(policy_delay=2)
    start(model)
    found = model.act(np.array([[1], [40]], F32))
    np.testing.assert_allclose(found["action"], [[2 + 2 * np.tanh(-0.25)], [4.0]], rtol=1e-6)
    assert list(found) == ["action"]
    assert list(model.program.store.predict_variables()) == ["0000.actor/mu/kernel", "0001.actor/mu/bias"]
    assert [float(value.item()) for value in model.executor.get_predict_weights().values()] == ACTOR.tolist()


def test_exploration_is_in_halves_of_the_actions_range() -> None:
    def explored(**params: Any) -> Any:
        spec = td3.model_fn(tf.zeros((1, 1)), None, Modes.PREDICT, {"hidden": (), **params}, CONFIG)
        return spec.exploration

    rng = np.random.default_rng(0)
    zeros = {"action": np.zeros((20_000, 1), F32)}
    assert isinstance(explored(), GaussianNoise)
    assert explored()(zeros, 0, rng)[0].std() == pytest.approx(0.1 * 2, rel=0.05)
    drifting = explored(exploration="ornstein_uhlenbeck", sigma=0.5)
    assert isinstance(drifting, OrnsteinUhlenbeck)
    assert drifting(zeros, 0, rng)[0].std() == pytest.approx(0.5 * 2, rel=0.05)


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


@pytest.mark.learning
def test_it_finds_the_best_action_from_a_prioritized_memory(tmp_path: Path) -> None:
    params = {"hidden": (32,), "learning_rate": 1e-2, "sigma": 0.4, "target_update_rate": 0.05}
    memory = ReplayMemory(1000, 32, n_step=2, sampler="prioritized")
    agent = Agent(td3.model_fn, memory, tmp_path, RunConfig(seed=1), params)
    agent.train(Bandit(), first_update=64, update_frequency=1, max_timesteps=1000)
    action = agent.predict(np.array([[-1], [1]], F32))["action"]
    np.testing.assert_allclose(action, [[0, 2], [2, 0]], atol=0.2)
