"""R2D2 against numbers worked out by hand, with an LSTM of one unit whose gates are open.

Its cell adds up tanh(x), its output is tanh of the cell. Observations are chosen by what they add.
"""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import r2d2
from axonrl.tests.models.executed import LINEAR, Model

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-5, 5, (1,)), action_space=spaces.Discrete(2, start=5))
PARAMS = {**LINEAR, "lstm": 1, "dueling": None, "n_step": 2, "max_gradient_norm": None}
ONLINE, TARGET = np.array([[1.0, 2.0]]), np.array([[3.0, 1.0]])  # Q is the LSTM's output times these
OPEN = 50.0

# Columns: one that its window ends; one from an episode's beginning that is terminated; one that is truncated at once.
ADDED = np.array([[0.1, 9, 0.1], [0.2, 0.3, 0.4], [0.3, 0.2, 0.1], [-0.1, 0.6, 0.1]])  # 9: padding before the beginning
FINAL = np.array([0.4, 0.6, 0.1])
CELLS = np.array([[0.8, 0.3, 0.5], [1.1, 0.5, 0.6], [1.0, 1.1, 0.7], [1.4, 1.7, 0.8]])  # 0.5, 0 and 0 before burn-in
OUTPUTS = np.tanh(CELLS)
VALID = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], F32)
WEIGHT = np.array([1, 0.5, 2], F32)
REWARD = np.array([[7, 0, 0], [1, 2, 3], [-1, 4, 0], [2, 0, 0]], F32)
ACTION = np.array([[0, 0, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0]])


def h(x: Any, epsilon: float | None) -> Any:
    return x if epsilon is None else np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + epsilon * x


def inverse_h(x: Any, epsilon: float | None) -> Any:
    if epsilon is None:
        return x
    return np.sign(x) * (((np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon)) - 1) / (2 * epsilon)) ** 2 - 1)


def observations(added: Any) -> Any:
    return np.arctanh(np.where(added == 9, 0.5, added)).astype(F32)[..., None]


def batch() -> dict[str, Any]:
    flags = np.zeros((4, 3), F32)
    terminated, truncated = flags.copy(), flags.copy()
    terminated[2, 1] = truncated[1, 2] = 1
    inside = np.concatenate([[[1, 0, 1]], VALID]).astype(F32)
    seen = observations(ADDED)
    return {
        "observation": seen,
        "next_observation": np.concatenate([seen[1:], observations(FINAL)[None]]),
        "action": (ACTION + 5).astype(np.int32),
        "reward": REWARD,
        "terminated": terminated,
        "truncated": truncated,
        "discount": 0.5 * (1 - terminated) * inside,
        "weight": WEIGHT,
        "valid": VALID,
        "burn_in": inside[:1],
        "state": {"cell": np.array([[0.5], [0], [0]], F32), "hidden": np.zeros((3, 1), F32)},
    }


def weights() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for network, head in (("online", ONLINE), ("target", TARGET)):
        found |= {f"{network}/lstm/kernel": [0, 0, 1, 0], f"{network}/lstm/bias": [OPEN, OPEN, 0, OPEN]}
        found[f"{network}/q_values/kernel"] = head
    return found


@pytest.mark.parametrize(("double", "rescaling", "runtime"), [(True, None, "tensorflow"), (False, 0.01, "litert")])
def test_one_update_by_hand(double: bool, rescaling: float | None, runtime: str) -> None:
    params = {**PARAMS, "double": double, "rescaling": rescaling}
    model = Model(r2d2.model_fn, params, CONFIG, batch(), runtime)
    model.set(weights())
    state = {"cell": np.full((2, 1), 0.5, F32), "hidden": np.zeros((2, 1), F32)}
    predictions, following = model.executor.act({"observation": observations(np.array([0.3, -0.7])), "state": state})
    assert following is not None
    np.testing.assert_allclose(following["cell"], [[0.8], [-0.2]], rtol=1e-6)
    np.testing.assert_allclose(following["hidden"], np.tanh([[0.8], [-0.2]]), rtol=1e-6)
    expected = inverse_h(np.tanh([[0.8], [-0.2]]) * ONLINE, rescaling)
    np.testing.assert_allclose(predictions["q_values"], expected, rtol=1e-4)
    assert predictions["action"].tolist() == [6, 5]
    # The online network prefers action 1, the target network action 0; the target network's value of that action.
    value = inverse_h(OUTPUTS * (1 if double else 3), rescaling)
    returns = np.zeros((3, 3))
    returns[0] = 1 - 0.5 + 0.25 * value[2, 0], 2 + 0.5 * 4, 3 + 0.5 * value[1, 2]
    returns[1, :2] = -1 + 0.5 * 2 + 0.25 * value[3, 0], 4
    returns[2, 0] = 2 + 0.5 * value[3, 0]  # one timestep only: the sequence ends
    taken = OUTPUTS[:3] * ONLINE[0][ACTION[1:]]
    td_error = VALID * (h(returns, rescaling) - taken)
    result = model.train()
    np.testing.assert_allclose(result["td_error"].reshape(4, 3)[1:], td_error, rtol=2e-4)
    assert not result["td_error"].reshape(4, 3)[0].any()
    assert result["loss"] == pytest.approx((WEIGHT * td_error**2 / 2).sum() / 6, rel=1e-4)
    assert result["q_mean"] == pytest.approx((VALID * inverse_h(taken, rescaling)).sum() / 6, rel=1e-4)
    assert result["td_error_mean"] == pytest.approx(np.abs(td_error).sum() / 6, rel=1e-4)
    gradient = [-(WEIGHT * td_error * OUTPUTS[:3] * (ACTION[1:] == action)).sum() / 6 for action in (0, 1)]
    moved = model.weights["online/q_values/kernel"]
    np.testing.assert_allclose(moved, ONLINE - 0.1 * np.array([gradient]), rtol=1e-4)
