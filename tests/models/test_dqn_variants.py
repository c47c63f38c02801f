"""Variants of DQN: noisy, Munchausen, with branches, with images in Dicts. One update of each by hand.

Networks are one layer, and observations 0: values of actions are biases.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.explorations import Noisy
from axonrl.memories import ReplayMemory
from axonrl.models import dqn
from axonrl.policies import Policy
from axonrl.tests.estimators.fakes import Counting
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2, start=5))
PARAMS = {**LINEAR, "loss": "squared", "max_gradient_norm": None}
BATCH = transitions(np.zeros((2, 1), F32), np.array([5, 6], np.int32), [1, 2], weight=[1, 0.5])
ONLINE, TARGET = "online/q_values/bias", "target/q_values/bias"


@pytest.mark.parametrize(("double", "runtime"), [(True, "litert"), (False, "tensorflow")])
def test_munchausen(double: bool, runtime: str) -> None:
    extra = {"munchausen": 0.5, "munchausen_temperature": 1.0, "munchausen_floor": -1.0, "double": double}
    model = Model(dqn.model_fn, {**PARAMS, **extra}, CONFIG, BATCH, runtime)
    model.set({ONLINE: [0, np.log(3)], TARGET: [0, np.log(7)]})
    # The policy is that of the online network, 1/4 and 3/4, or of the target network, 1/8 and 7/8. The log-probability
    # of the first action is below the floor.
    policy = np.array([0.25, 0.75] if double else [0.125, 0.875])
    soft_value = policy @ (np.array([0, np.log(7)]) - np.log(policy))
    if not double:
        assert soft_value == pytest.approx(np.log(8))  # t log sum exp(q' / t)
    targets = np.array([1 + 0.5 * -1 + 0.5 * soft_value, 2 + 0.5 * np.log(policy[1])])
    td_error = targets - [0, np.log(3)]
    result = model.train()
    np.testing.assert_allclose(result["td_error"], td_error, rtol=1e-5)
    assert result["loss"] == pytest.approx((td_error[0] ** 2 + 0.5 * td_error[1] ** 2) / 4, rel=1e-5)
    moved = [0 + 0.1 * td_error[0] / 2, np.log(3) + 0.1 * 0.5 * td_error[1] / 2]
    np.testing.assert_allclose(model.weights[ONLINE], moved, rtol=1e-5)


@pytest.mark.parametrize(("double", "second", "runtime"), [(True, 6.0, "tensorflow"), (False, 7.0, "litert")])
def test_branches_with_masks(double: bool, second: float, runtime: str) -> None:
    observation = spaces.Dict({"x": spaces.Box(-1, 1, (1,)), "action_mask": spaces.MultiBinary(5)})
    config = RunConfig(observation_space=observation, action_space=spaces.MultiDiscrete([2, 3], start=[0, 10]))
    seen = {"x": np.zeros((2, 1), F32), "action_mask": np.array([[1, 1, 1, 0, 1], [1, 0, 1, 1, 1]], np.int8)}
    next_seen = {**seen, "action_mask": np.array([[1, 1, 1, 0, 1], [0, 0, 0, 0, 0]], np.int8)}
    batch = {**BATCH, "observation": seen, "next_observation": next_seen, "action": np.array([[1, 12], [0, 10]])}
    batch["action"] = batch["action"].astype(np.int32)
    model = Model(dqn.model_fn, {**PARAMS, "double": double}, config, batch, runtime)
    model.set({ONLINE: [1, 0, 2, 9, 3], TARGET: [2, 1, 7, 9, 6]})
    predictions = model.act()
    assert predictions["action"].tolist() == [[0, 12], [0, 11]]  # the choice worth 9 is illegal at first
    result = model.train()
    # Both branches have one target, of the mean of the branches' next values; the second transition has terminated.
    target = 1 + 0.5 * (2 + second) / 2
    td_error = np.array([[target - 0, target - 3], [2 - 1, 2 - 2]])
    np.testing.assert_allclose(result["td_error"], np.abs(td_error).sum(1), rtol=1e-6)
    assert result["loss"] == pytest.approx(((td_error[0] ** 2).sum() + 0.5 * (td_error[1] ** 2).sum()) / 2 / 2 / 2)
    steps = 0.1 * td_error / 2 / 2  # of the mean over branches, and over the batch
    moved = [1 + 0.5 * steps[1, 0], 0 + steps[0, 0], 2 + 0.5 * steps[1, 1], 9, 3 + steps[0, 1]]
    np.testing.assert_allclose(model.weights[ONLINE], moved, rtol=1e-5)


def test_noisy_layers() -> None:
    model = Model(dqn.model_fn, {**PARAMS, "noisy": True}, CONFIG, BATCH, "litert")
    model.set({ONLINE: [1, 2], f"{ONLINE}_sigma": [0.5, 1], TARGET: [3, 5], f"{TARGET}_sigma": [1, 1]})
    own, target, selecting = (np.array(e) for e in ([1, -1], [1, 2], [3, 0]))  # noise of the two biases
    draws = [np.array([0, *np.sign(e) * e**2], F32) for e in (own, target, selecting)]
    predictions = model.act(np.zeros((1, 1), F32), [draws[2]])
    np.testing.assert_allclose(predictions["q_values"], [[1, 2]])
    assert (predictions["action"].tolist(), predictions["noisy_action"].tolist()) == ([6], [5])  # 2.5 against 2
    assert type(model.program.predict.exploration) is Noisy
    result = model.train(draws=draws)
    # Predictions 1 + 0.5 and 2 - 1; the next action is 0, whose value is 3 + 1; the second transition has terminated.
    td_error = np.array([1 + 0.5 * 4 - 1.5, 2 - 1])
    np.testing.assert_allclose(result["td_error"], td_error, rtol=1e-6)
    step = 0.1 * np.array([1, 0.5]) * td_error / 2
    np.testing.assert_allclose(model.weights[ONLINE], np.array([1, 2]) + step, rtol=1e-6)
    np.testing.assert_allclose(model.weights[f"{ONLINE}_sigma"], np.array([0.5, 1]) + step * own, rtol=1e-6)
    np.testing.assert_allclose(model.weights[f"{TARGET}_sigma"], [1, 1])


NOISY = {"hidden": (8,), "noisy": True, "noisy_sigma": 5.0}
SEEN = np.array([0.5, -0.5], np.float32)


class Still(Counting):
    observation_space = spaces.Box(-1, 1, (2,))

    def observation(self) -> Any:
        return SEEN


@pytest.mark.usefixtures("traced_once")
def test_only_training_is_noisy_and_it_resumes_exactly(tmp_path: Path) -> None:
    def agent(folder: str) -> Agent:
        memory = ReplayMemory(100, 4)
        return Agent(dqn.model_fn, memory, tmp_path / folder, RunConfig(seed=3, runtime="litert"), NOISY)

    whole, first, second, evaluated = (Still(7) for _ in range(4))
    one = agent("whole").train(whole, first_update=20, update_frequency=5, timesteps=40)
    agent("parts").train(first, first_update=20, update_frequency=5, timesteps=24)
    other = agent("parts").train(second, first_update=20, update_frequency=5, timesteps=16)
    assert set(whole.actions[:19]) == {0, 1}  # the network is the same before the first update
    assert [*first.actions, *second.actions[-16:]] == whole.actions
    predicted = one.predict(SEEN[None])
    np.testing.assert_equal(other.predict(SEEN[None]), predicted)
    assert predicted["action"].tolist() == predicted["noisy_action"].tolist()
    one.evaluate(evaluated, 2)
    assert set(evaluated.actions) == set(predicted["action"].tolist())
    assert {int(one.act(SEEN, explore=True)) for _ in range(40)} == {0, 1}
    policy = Policy.load(one.export(tmp_path / "exported"))
    assert policy.act(SEEN) == predicted["action"][0]
    with pytest.raises(ValueError, match="Noisy explores by noise in the model during training"):
        policy.act(SEEN, explore=True)
