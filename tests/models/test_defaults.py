"""Defaults of algorithms: those of their papers, and how they explore."""

from typing import Any

import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import RunConfig, explorations
from axonrl.core.protocols import Modes
from axonrl.models import c51, cql, ddpg, iqn, naf, qr_dqn, r2d2, rainbow, td3

BOX = spaces.Box(-1, 1, (1,))
DISTRIBUTIONAL = {"atoms": 51, "v_min": -10, "v_max": 10}
QUANTILES = {"kappa": 1, "learning_rate": 5e-5, "optimizer_epsilon": 0.0003125}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (c51.C51Params, DISTRIBUTIONAL),
        (iqn.IQNParams, {**QUANTILES, "quantiles": 64, "target_quantiles": 64, "policy_quantiles": 32, "cosines": 64}),
        (qr_dqn.QRDQNParams, {**QUANTILES, "quantiles": 200}),
        (r2d2.R2D2Params, {"n_step": 5, "double": True, "dueling": "mean", "rescaling": 1e-3}),
        (rainbow.RainbowParams, {**DISTRIBUTIONAL, "learning_rate": 6.25e-5, "optimizer_epsilon": 1.5e-4}),
        (rainbow.RainbowParams, {"noisy_sigma": 0.5, "noisy": True, "distributional": True}),
        (rainbow.RainbowParams, {"double": True, "dueling": "mean"}),
    ],
)
def test_defaults_are_those_of_the_paper(params: Any, expected: dict[str, Any]) -> None:
    assert {name: getattr(params(), name) for name in expected} == expected


@pytest.mark.parametrize(
    ("algorithm", "space", "params", "kind", "level"),
    [
        (cql, spaces.Discrete(2), None, explorations.EpsilonGreedy, 0.05),  # where it goes on in an environment
        (ddpg, BOX, None, explorations.OrnsteinUhlenbeck, 0.2),
        (td3, BOX, None, explorations.GaussianNoise, 0.1),
        (td3, BOX, {"exploration": "ornstein_uhlenbeck", "sigma": 0.5}, explorations.OrnsteinUhlenbeck, 0.5),
        (naf, BOX, {"exploration": "gaussian", "sigma": 0.7}, explorations.GaussianNoise, 0.7),
    ],
)
def test_they_explore(algorithm: Any, space: Any, params: Any, kind: Any, level: float) -> None:
    config = RunConfig(observation_space=BOX, action_space=space)
    exploration = algorithm.model_fn(tf.zeros((1, 1)), None, Modes.PREDICT, params, config).exploration
    assert type(exploration) is kind
    assert exploration.level(0) == level
    if algorithm in (ddpg, td3):  # in halves of an action's range
        assert exploration.relative
        assert getattr(exploration, "theta", 0.15) == 0.15
