"""A2C: PPO with one step for each rollout."""

from typing import Any

import numpy as np
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import a2c, ppo
from axonrl.tests.models.executed import WHOLE, Model, random_rollout

CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2))


def rollout(seed: int) -> dict[str, Any]:
    return {**random_rollout(np.random.default_rng(seed), (5, 2)), "log_prob": np.full((5, 2), np.log(0.5), np.float32)}


def test_it_is_ppo_with_one_step_for_each_rollout() -> None:
    """In each rollout the policy that learns is the one that acted, so that no ratio is clipped: its own are given."""
    params = {"hidden": (4,), "learning_rate": {"kind": "linear", "start": 0.01, "stop": 0.001, "duration": 3}}
    as_ppo = {**WHOLE, **params, "gae_lambda": 1.0, "entropy_coefficient": 0.01, "optimizer": "rmsprop"}
    ours = Model(a2c.model_fn, params, CONFIG, rollout(0), "tensorflow")
    theirs = Model(ppo.model_fn, as_ppo, CONFIG, rollout(0), "tensorflow")
    names = ("loss", "policy_loss", "value_loss", "entropy", "gradient_norm", "explained_variance", "learning_rate")
    for step in range(3):
        batch, before = rollout(step), ours.weights
        found, expected = (model.train(step, **batch) for model in (ours, theirs))
        assert found == {name: expected[name] for name in (*names, "td_error")}
        np.testing.assert_equal(ours.weights, theirs.weights)
        assert all((value != before[name]).any() for name, value in ours.weights.items() if "head" in name)
