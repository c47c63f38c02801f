"""Masks in the programs of algorithms, worked out by hand on logits that are a bias."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.core.protocols import NO_LEGAL_ACTION
from axonrl.models import c51, ppo
from axonrl.tests.models.executed import LINEAR, WHOLE, Model, transitions

F32 = np.float32
THREE = spaces.Discrete(3, start=5)
PLAIN = {**LINEAR, "max_gradient_norm": None}


def made(algorithm: Any, actions: Any, params: Mapping[str, Any], batch: Any, runtime: str) -> Model:
    """Its observations are two numbers and a mask."""
    size = int(np.sum(getattr(actions, "nvec", getattr(actions, "n", 0))))
    space = spaces.Dict({"action_mask": spaces.MultiBinary(size), "observation": spaces.Box(-1, 1, (2,))})
    config = RunConfig(observation_space=space, action_space=actions)
    return Model(algorithm.model_fn, {**PLAIN, **params}, config, batch, runtime)


def observations(mask: Any) -> dict[str, Any]:
    mask = np.array(mask, np.int8)
    return {"action_mask": mask, "observation": np.zeros((*mask.shape[:-1], 2), F32)}


MASK = [[1, 0, 1], [1, 0, 1]]
# The second is terminal, and nothing is legal there
BATCH = transitions(
    observations(MASK), np.array([5, 7], np.int32), [0.25, 0.5], next_observation=observations([[1, 0, 1], [0, 0, 0]])
)


@pytest.mark.parametrize(
    ("double", "target", "runtime"),
    [(False, [0.225, 0.65, 0.125], "litert"), (True, [0.4375, 0.5, 0.0625], "tensorflow")],
)
def test_c51(double: bool, target: Any, runtime: str) -> None:
    """The case of test_c51, with an illegal action between the two, whose return is always the highest."""
    online, best = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], [1e-6, 1e-6, 1]
    model = made(c51, THREE, {"atoms": 3, "v_min": 0, "v_max": 2, "double": double}, BATCH, runtime)
    model.set(
        {
            "online/logits/bias": np.log([online[0], best, online[1]]),
            "target/logits/bias": np.log([[0.2, 0.3, 0.5], best, [0.5, 0.25, 0.25]]),
        }
    )
    assert model.act(observations(MASK))["action"].tolist() == [7, 7]
    m = np.array([target, [0.5, 0.5, 0]])
    divergence = (m * np.log(np.where(m > 0, m, 1) / np.array(online))).sum(1)
    np.testing.assert_allclose(model.train()["td_error"], divergence, rtol=1e-5)


@pytest.mark.parametrize(
    ("actions", "logits", "mask", "entropy", "taken", "runtime"),
    [
        (THREE, [1.0, 96, 3], [1, 0, 1], -0.25 * np.log(0.25) - 0.75 * np.log(0.75), [5, 7], "tensorflow"),
        (spaces.MultiDiscrete([2, 2], start=[3, 0]), [1, 9, 1, 1], [1, 0, 1, 1], np.log(2), [[3, 0], [3, 1]], "litert"),
    ],
)
def test_ppo_learns_with_the_probabilities_that_it_acted_with(
    actions: Any, logits: Any, mask: Any, entropy: float, taken: Any, runtime: str
) -> None:
    rows = 4
    one = {name: np.zeros((rows, 1), F32) for name in ("reward", "discount", "truncated", "log_prob", "value")}
    batch: dict[str, Any] = {
        **one,
        "terminated": np.ones((rows, 1), F32),
        "observation": observations([[mask]] * rows),
        "next_observation": observations(np.zeros((rows, 1, len(mask)))),
        "action": np.zeros((rows, 1, *actions.shape), np.int32),
        "reward": np.array([[1], [0], [1], [3]], F32),
    }
    model = made(ppo, actions, {**WHOLE, "entropy_coefficient": 0.1}, batch, runtime)
    model.set({"policy/head/bias": np.log(logits)})
    predictions = model.act(observations([mask] * rows + [[0] * len(mask)]))
    greedy = np.array(taken[1] if isinstance(taken[1], int) else taken[0])  # the first of equal ones
    assert predictions["action"].tolist() == [greedy.tolist()] * rows + [np.full_like(greedy, NO_LEGAL_ACTION).tolist()]
    acted = {name: value[:rows] for name, value in predictions.items()}
    exploration = model.program.predict.exploration
    assert exploration is not None
    action, extras = exploration(acted, 0, np.random.default_rng(1))
    assert all(one in taken for one in action.tolist())
    scalars = model.train(action=action[:, None], log_prob=extras["log_prob"][:, None])
    assert scalars["kl"] == pytest.approx(0, abs=1e-6)  # so every ratio is 1
    assert scalars["clip_fraction"] == 0
    assert scalars["entropy"] == pytest.approx(entropy, rel=1e-5)
    assert scalars["policy_loss"] == pytest.approx(-1.25)
    moved = model.weights["policy/head/bias"] - np.log(np.array(logits, F32))
    assert (moved[~np.array(mask, bool)] == 0).all()
    assert np.abs(moved).max() > 1e-3
