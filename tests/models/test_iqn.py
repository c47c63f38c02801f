"""IQN by hand: one observed number s, and Z_tau(s, a) = v_a s (w_0 + w_1 cos(pi tau)) + c_a."""

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import iqn
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-2, 2, (1,)), action_space=spaces.Discrete(2, start=5))
SGD = {**LINEAR, "optimizer_epsilon": None}
PARAMS = {**SGD, "quantiles": 2, "target_quantiles": 1, "policy_quantiles": 1, "cosines": 2}
ONLINE = {  # phi(tau) = 1 - cos(pi tau): 0.5, 1 and 1.5 at 1/3, 1/2 and 2/3
    "online/fractions/kernel": [1, -1],
    "online/quantiles/kernel": [1, 2],
    "online/quantiles/bias": [0.5, 0],
}
TARGET = {  # phi(tau) = 1 + cos(pi tau): 1 and 0.5 at 1/2 and 2/3
    "target/fractions/kernel": [1, 1],
    "target/quantiles/kernel": [-1, 1],
    "target/quantiles/bias": [4, 0],
}
BATCH = transitions(
    np.array([[1], [2]], F32),
    np.array([5, 6], np.int32),
    [0.5, 3],
    next_observation=np.ones((2, 1), F32),
    weight=[1, 0.5],
)
FRACTIONS = np.array([[1 / 3, 1 / 2], [1 / 2, 2 / 3]], F32)
DRAWS = [FRACTIONS, np.array([[2 / 3], [1 / 2]], F32), np.full((2, 1), 0.5, F32)]  # prediction, target, selection


@pytest.mark.parametrize(("double", "runtime"), [(False, "litert"), (True, "tensorflow")])
def test_one_update_by_hand(double: bool, runtime: str) -> None:
    model = Model(iqn.model_fn, {**PARAMS, "double": double}, CONFIG, BATCH, runtime)
    model.set({**ONLINE, **TARGET})
    predictions = model.act()  # at 1/2, the middle of all fractions
    np.testing.assert_allclose(predictions["q_values"], [[1.5, 2], [2.5, 4]], rtol=1e-6)
    np.testing.assert_allclose(predictions["quantiles"], np.array([[[1.5], [2]], [[2.5], [4]]]), rtol=1e-6)
    assert predictions["action"].tolist() == [6, 6]
    assert [request.shape for request in model.train_program.noise] == [(2, 2), (2, 1), (2, 1)]
    result = model.train(draws=DRAWS)
    # Predictions are [1, 1.5] and [4, 6]. At 1/2 the target network values the next actions 3 and 1, the online network
    # 1.5 and 2; at 2/3 they are 3.5 and 0.5. The second transition has terminated: its target is 3.
    target = 0.5 + 0.5 * (0.5 if double else 3.5)  # 0.75 or 2.25
    if double:  # errors -0.25 and -0.75, below: weights 2/3 and 1/2
        first, slopes = 2 / 3 * 0.25**2 / 2 + 1 / 2 * 0.75**2 / 2, np.array([2 / 3 * 0.25, 1 / 2 * 0.75])
    else:  # errors 1.25 and 0.75, above: weights 1/3 and 1/2
        first, slopes = 1 / 3 * 0.75 + 1 / 2 * 0.75**2 / 2, np.array([-1 / 3, -1 / 2 * 0.75])
    assert target == (0.75 if double else 2.25)
    second = 1 / 2 * 0.5 + 1 / 3 * 2.5  # errors -1 and -3
    np.testing.assert_allclose(result["td_error"], [first, second], rtol=1e-5)
    assert result["loss"] == pytest.approx((first + 0.5 * second) / 2, rel=1e-5)
    assert result["q_mean"] == pytest.approx((1.25 + 5) / 2)
    above = slopes / 2  # the gradient of the loss with respect to the first predictions, and to the second
    below = np.array([1 / 2, 1 / 3]) * 0.5 / 2
    embedded = np.array([*above * 1 * 1, *below * 2 * 2])  # times s v_a: with respect to phi
    moved = {
        "online/quantiles/bias": [0.5 - 0.1 * above.sum(), 0 - 0.1 * below.sum()],
        "online/quantiles/kernel": [1 - 0.1 * above @ [0.5, 1], 2 - 0.1 * below @ [2 * 1, 2 * 1.5]],
        "online/fractions/kernel": [1 - 0.1 * embedded.sum(), -1 - 0.1 * embedded @ [0.5, 0, 0, -0.5]],
        "online/fractions/bias": [0 - 0.1 * embedded.sum()],
    }
    model.check(moved)


def test_the_greedy_action_sees_evenly_spaced_fractions() -> None:
    batch = {name: value for name, value in BATCH.items() if name != "weight"}
    model = Model(iqn.model_fn, {**PARAMS, "policy_quantiles": 3}, CONFIG, batch, "tensorflow")
    model.set(ONLINE)
    cosines = np.cos(np.pi * np.array([1 / 6, 1 / 2, 5 / 6]))
    np.testing.assert_allclose(model.act(np.ones((1, 1), F32))["quantiles"][0, 1], 2 * (1 - cosines), rtol=1e-5)
    assert not model.program.predict.noise


def test_branches_masks_dueling_and_noisy_layers_train_together() -> None:
    space = spaces.MultiDiscrete([2, 3])
    observation = spaces.Dict({"x": spaces.Box(-1, 1, (1,)), "action_mask": spaces.MultiBinary(5)})
    seen = {"x": np.ones((2, 1), F32), "action_mask": np.array([[1, 1, 1, 0, 1]] * 2, np.int8)}
    batch = {**BATCH, "observation": seen, "next_observation": seen, "action": np.array([[0, 2], [1, 0]], np.int32)}
    params = {**PARAMS, "dueling": "mean", "noisy": True}
    model = Model(iqn.model_fn, params, RunConfig(observation_space=observation, action_space=space), batch, "litert")
    predictions = model.act(seen)
    assert predictions["quantiles"].shape == (2, 5, 1)
    assert predictions["action"][0, 1] != 1  # illegal
    assert set(predictions) == {"action", "action_mask", "noisy_action", "q_values", "quantiles"}
    rng = np.random.default_rng(0)
    draws = [request.draw(rng) for request in model.train_program.noise]
    before = model.weights
    result = model.train(draws=draws)
    assert result["td_error"].shape == (2,)
    assert np.isfinite(result["loss"])
    changed = {name for name, value in model.weights.items() if not np.array_equal(value, before[name])}
    trained = {name for name in before if name.startswith("online/")}
    assert changed >= trained - {"online/fractions/kernel_sigma", "online/fractions/kernel"}
    assert {name.split("/")[1] for name in trained} == {"advantage", "value", "fractions"}
