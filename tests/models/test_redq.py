"""REDQ against the paper's algorithm in NumPy, on networks that are one matrix: Q(s, a) = [s a] w + b."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import redq
from axonrl.tests.models.executed import LINEAR, Model, traced, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(-1, 1, (1,)))
PARAMS = {**LINEAR, "updates": 2, "critics": 3, "subset": 2}
SEEN, NEXT_SEEN = np.array([1, 2, -1, 0.5]), np.array([2, 3, 1, -2])
ACTION = np.array([-0.5, 0.5, 0.2, -0.1])
REWARD, DISCOUNT, WEIGHT = np.array([1, -1, 2, 0.5]), np.array([0.5, 0, 0.9, 0.8]), np.array([1, 0.5, 0.25, 0.75])
NOISE, NEXT_NOISE = np.array([0.5, -1, 0.3, 1.2]), np.array([1, 0.2, -0.7, 0.4])
DRAW = np.array([[0.9, 0.1, 0.4], [0.2, 0.7, 0.3]])  # the first and the last critic, then the second and the last
ACTOR = {"mean/kernel": 0.25, "mean/bias": -0.5, "log_std/kernel": 0.1, "log_std/bias": -0.7}
CRITICS = np.array([[0.5, 2.0, 0.1], [0.4, 1.0, 0.3], [-0.2, 0.8, 0.0]])  # by observation, by action, bias
TARGETS = np.array([[0.3, -1.0, 0.0], [0.2, 0.5, 0.2], [0.1, 0.9, -0.4]])
ALPHA = 0.5
COLUMNS = [values.astype(F32)[:, None] for values in (SEEN, ACTION, NEXT_SEEN)]
BATCH = transitions(COLUMNS[0], COLUMNS[1], REWARD, DISCOUNT, next_observation=COLUMNS[2], weight=WEIGHT)
DRAWS = [NOISE[:, None].astype(F32), NEXT_NOISE[:, None].astype(F32), DRAW.astype(F32)]


def made() -> Model:
    return traced(redq.model_fn, {**PARAMS, "max_gradient_norm": 1e9}, CONFIG, BATCH, "litert")


def drawn(s: Any, z: Any) -> tuple[Any, Any, Any]:
    """Actions, standard deviations and log-probabilities."""
    std = np.exp(0.1 * s - 0.7)
    u = 0.25 * s - 0.5 + std * z
    return np.tanh(u), std, -(z**2) / 2 - np.log(std) - np.log(2 * np.pi) / 2 - np.log(1 - np.tanh(u) ** 2)


def q(w: Any, s: Any, a: Any) -> Any:
    """[N, B]."""
    return w @ np.array([s, a, np.ones_like(s)])


def test_one_update_by_hand() -> None:
    model = made()
    model.set(
        {
            **{f"actor/{name}": value for name, value in ACTOR.items()},
            **{"critics/dense1/kernel": CRITICS[:, :2], "critics/dense1/bias": CRITICS[:, 2]},
            **{"targets/dense1/kernel": TARGETS[:, :2], "targets/dense1/bias": TARGETS[:, 2]},
            "log_temperature": np.log(ALPHA),
        }
    )
    result = model.train(1, DRAWS)
    critics, targets, losses, means, norms, td_errors = CRITICS, TARGETS, [], [], [], []
    for rows, some in ((slice(0, 2), [0, 2]), (slice(2, 4), [1, 2])):
        targets = targets + 0.005 * (critics - targets)
        action, _, log_prob = drawn(NEXT_SEEN[rows], NEXT_NOISE[rows])
        lowest = q(targets[some], NEXT_SEEN[rows], action).min(axis=0)
        target = REWARD[rows] + DISCOUNT[rows] * (lowest - ALPHA * log_prob)  # the temperature changes at the end only
        values = q(critics, SEEN[rows], ACTION[rows])
        errors = target - values
        td_errors += errors.mean(axis=0).tolist()
        losses.append((WEIGHT[rows] * errors**2 / 2).sum(axis=0).mean())
        means.append(values.mean())
        gradient = -(WEIGHT[rows] * errors) @ np.array([SEEN[rows], ACTION[rows], np.ones(2)]).T / 2
        norms.append(np.linalg.norm(gradient))
        critics = critics - 0.1 * gradient
    s, z = SEEN[2:], NOISE[2:]
    action, std, log_prob = drawn(s, z)
    by_u = ALPHA * 2 * action - critics[:, 1].mean() * (1 - action**2)
    by_log_std = -ALPHA + by_u * std * z
    gradients = np.array([by_u * s, by_u, by_log_std * s, by_log_std]).mean(axis=1)
    np.testing.assert_allclose(result.pop("td_error"), td_errors, rtol=1e-5)
    numbers = {
        "loss": np.mean(losses),
        "q_mean": np.mean(means),
        "critic_gradient_norm": np.mean(norms),
        "actor_loss": np.mean(ALPHA * log_prob - q(critics, s, action).mean(axis=0)),
        "temperature": ALPHA,
        "entropy": -log_prob.mean(),
        "actor_gradient_norm": np.linalg.norm(gradients),
        "learning_rate": 0.1,
    }
    assert result == pytest.approx(numbers, rel=1e-5)
    after = {f"actor/{name}": ACTOR[name] - 0.1 * by for name, by in zip(ACTOR, gradients, strict=True)}
    after |= {"critics/dense1/kernel": critics[:, :2], "critics/dense1/bias": critics[:, 2]}
    after |= {"targets/dense1/kernel": targets[:, :2]}
    model.check({**after, "log_temperature": np.log(ALPHA) - 0.1 * (-log_prob.mean() + 1)})


def test_targets_become_copies_in_the_first_gradient_step_of_all_and_in_no_other() -> None:
    model = made()
    model.set({"critics/dense1/kernel": CRITICS[:, :2], "targets/dense1/kernel": TARGETS[:, :2]})
    model.train(0, DRAWS)
    moved = np.abs(model.weights["targets/dense1/kernel"][..., 0] - CRITICS[:, :2])
    assert 0 < moved.min() < moved.max() < 0.01  # 0.005 of the way to critics that have learned once
