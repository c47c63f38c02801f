"""TQC against the paper's losses in NumPy, on networks that are one matrix: quantile m of Q(s, a) is [s a 1] w_m."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import tqc
from axonrl.tests.models.executed import LINEAR, traced, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(0, 4, (1,)))
PARAMS = {**LINEAR, "critics": 2, "quantiles": 3, "dropped": 1, "target_update_rate": 0.25, "temperature": 0.5}
RNG = np.random.default_rng(0)
BATCH = transitions(
    np.array([[1], [2]], F32),
    np.array([[1], [3]], F32),  # -0.5 and 0.5 in -1 .. 1
    [1, -1],
    [0.5, 0],
    next_observation=np.array([[2], [3]], F32),
    weight=[1, 0.5],
)
SEEN, NEXT_SEEN, ACTION = np.array([1, 2]), np.array([2, 3]), np.array([-0.5, 0.5])
NOISE, NEXT_NOISE = np.array([0.5, -1]), np.array([1, 0.2])
DRAWS = [values[:, None].astype(F32) for values in (NOISE, NEXT_NOISE)]
CRITICS, TARGETS = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3, 3))  # [N, input, quantile]; the last is the bias
ACTOR = {"mean/kernel": 0.25, "mean/bias": -0.5, "log_std/kernel": 0.1, "log_std/bias": -0.7}
FRACTIONS = np.array([1 / 6, 3 / 6, 5 / 6])


def drawn(s: Any, z: Any) -> tuple[Any, Any]:
    """Actions in -1 .. 1 and their log-densities."""
    std, mean = np.exp(0.1 * s - 0.7), 0.25 * s - 0.5
    action = np.tanh(mean + std * z)
    return action, -(z**2) / 2 - np.log(std) - np.log(2 * np.pi) / 2 - np.log(1 - action**2)


def theta(weights: Any, s: Any, a: Any) -> Any:
    """Quantiles [N, B, M]."""
    return np.einsum("ib,nim->nbm", np.array([s, a, np.ones(2)]), weights)


def critics_loss(weights: Any) -> dict[str, Any]:
    action, log_prob = drawn(NEXT_SEEN, NEXT_NOISE)
    every = theta(0.25 * CRITICS + 0.75 * TARGETS, NEXT_SEEN, action)
    kept = np.sort(np.concatenate(list(every), axis=-1), axis=-1)[:, :4]  # of 6, one for each critic is left out
    wanted = BATCH["reward"][:, None] + BATCH["discount"][:, None] * (kept - 0.5 * log_prob[:, None])
    taken = theta(weights, SEEN, ACTION)
    u = wanted[None, :, None, :] - taken[..., None]  # [N, B, M, K]
    huber = np.where(np.abs(u) <= 1, u**2 / 2, np.abs(u) - 0.5)
    errors = (np.abs(FRACTIONS[:, None] - (u < 0)) * huber).mean(axis=(2, 3)).sum(axis=0)  # [B]
    return {
        "loss": np.mean(BATCH["weight"] * errors),
        "q_mean": taken.mean(),
        "td_error": wanted.mean(axis=1) - taken.mean(axis=(0, 2)),
    }


def test_one_update_by_hand() -> None:
    """Losses against NumPy; weights of the critics after it against the loss's differences."""
    model = traced(tqc.model_fn, PARAMS, CONFIG, BATCH, "litert")
    named = {"critics/dense1/kernel": CRITICS[:, :2], "critics/dense1/bias": CRITICS[:, 2]}
    named |= {"targets/dense1/kernel": TARGETS[:, :2], "targets/dense1/bias": TARGETS[:, 2]}
    model.set(named | {f"actor/{name}": value for name, value in ACTOR.items()})
    found, expected, gradient = model.train(1, DRAWS), critics_loss(CRITICS), np.zeros_like(CRITICS)
    np.testing.assert_allclose(found.pop("td_error"), expected.pop("td_error"), rtol=1e-5)
    for place in np.ndindex(*CRITICS.shape):
        step = np.zeros_like(CRITICS)
        step[place] = 1e-6
        gradient[place] = (critics_loss(CRITICS + step)["loss"] - critics_loss(CRITICS - step)["loss"]) / 2e-6
    critics = CRITICS - 0.1 * gradient
    model.check({"critics/dense1/kernel": critics[:, :2], "critics/dense1/bias": critics[:, 2]}, rtol=1e-4)
    action, log_prob = drawn(SEEN, NOISE)  # the policy learns from all quantiles of critics that have learned
    expected |= {"actor_loss": np.mean(0.5 * log_prob - theta(critics, SEEN, action).mean(axis=(0, 2)))}
    expected |= {"entropy": -log_prob.mean(), "temperature": 0.5, "learning_rate": 0.1}
    assert found == pytest.approx(expected, rel=1e-4)
