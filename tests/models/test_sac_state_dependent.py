"""SAC with state-dependent exploration: an update by hand, where the only feature is the observation, and a life."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.core.protocols import Modes
from axonrl.errors import ArgumentError
from axonrl.explorations import StateDependent
from axonrl.memories import ReplayMemory
from axonrl.models import sac
from axonrl.policies import Policy
from axonrl.tests.estimators.fakes import differences, snapshot
from axonrl.tests.models.executed import LINEAR, Model, layers, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(0, 4, (1,)))
PARAMS = {**LINEAR, "state_dependent_exploration": True}
SEEN, NEXT_SEEN, ACTION = np.array([1, -2]), np.array([2, 3]), np.array([-0.5, 0.5])  # actions in -1 .. 1
REWARD, DISCOUNT = np.array([1, -1]), np.array([0.5, 0.9])
NOISE, NEXT_NOISE = np.array([0.5, -1.0]), np.array([1.0, 0.2])
COLUMNS = [values.astype(F32)[:, None] for values in (SEEN, 2 + 2 * ACTION, NEXT_SEEN)]
BATCH = transitions(COLUMNS[0], COLUMNS[1], REWARD, DISCOUNT, next_observation=COLUMNS[2])
MEAN, LOG_STD, ALPHA = np.array([0.25, -0.5]), -0.7, 0.5  # mean: by observation, bias
CRITICS = np.array([[0.5, 2.0, 0.1], [0.4, 1.0, 0.3]])  # by observation, by action, bias


def drawn(s: Any, z: Any) -> tuple[Any, Any, Any]:
    """Actions, variances and log-probabilities."""
    variance = s**2 * np.exp(2 * LOG_STD) + 1e-6
    u = MEAN[0] * s + MEAN[1] + np.sqrt(variance) * z
    log_prob = -(z**2) / 2 - np.log(variance) / 2 - np.log(2 * np.pi) / 2 - np.log(1 - np.tanh(u) ** 2)
    return np.tanh(u), variance, log_prob


def test_one_update_by_hand() -> None:
    model = Model(sac.model_fn, PARAMS, CONFIG, BATCH, "litert")
    weights: dict[str, Any] = {"actor/mean/kernel": MEAN[0], "actor/mean/bias": MEAN[1], "actor/log_std": LOG_STD}
    for name in ("critic", "target"):
        weights |= layers({f"{name}{i}/q_value": (one[:-1], one[-1]) for i, one in enumerate(CRITICS, start=1)})
    model.set({**weights, "log_temperature": np.log(ALPHA)})
    predictions = model.act()
    np.testing.assert_allclose(predictions["scaled_features"][..., 0], SEEN[:, None] * np.exp(LOG_STD), rtol=1e-6)
    np.testing.assert_allclose(predictions["mean"][:, 0], MEAN[0] * SEEN + MEAN[1], rtol=1e-6)
    np.testing.assert_allclose(predictions["action"], 2 + 2 * np.tanh(predictions["mean"]), rtol=1e-6)
    result = model.train(1, [z.astype(F32)[:, None] for z in (NOISE, NEXT_NOISE)])

    def q(critics: Any, s: Any, a: Any) -> Any:
        return critics @ np.array([s, a, np.ones(2)])

    action, _, log_prob = drawn(NEXT_SEEN, NEXT_NOISE)
    target = REWARD + DISCOUNT * (q(CRITICS, NEXT_SEEN, action).min(0) - ALPHA * log_prob)
    errors = target - q(CRITICS, SEEN, ACTION)
    np.testing.assert_allclose(result["td_error"], errors.mean(0), rtol=1e-5)
    critics = CRITICS + 0.1 * errors @ np.array([SEEN, ACTION, np.ones(2)]).T / 2
    action, variance, log_prob = drawn(SEEN, NOISE)
    values = q(critics, SEEN, action)
    assert result["actor_loss"] == pytest.approx(np.mean(ALPHA * log_prob - values.min(0)), rel=1e-5)
    assert result["entropy"] == pytest.approx(-log_prob.mean(), rel=1e-5)
    by_u = ALPHA * 2 * action - critics[values.argmin(0), 1] * (1 - action**2)
    by_log_std = -ALPHA + by_u * np.sqrt(variance) * NOISE  # of the marginal
    by_parameter = by_log_std * SEEN**2 * np.exp(2 * LOG_STD) / variance
    after = model.weights
    assert after["actor/mean/kernel"].item() == pytest.approx(MEAN[0] - 0.1 * np.mean(by_u * SEEN), rel=1e-5)
    assert after["actor/mean/bias"].item() == pytest.approx(MEAN[1] - 0.1 * np.mean(by_u), rel=1e-5)
    assert after["actor/log_std"].item() == pytest.approx(LOG_STD - 0.1 * by_parameter.mean(), rel=1e-5)


def test_it_explores_as_its_parameters_say() -> None:
    params = {**PARAMS, "hidden": (3, 5), "sde_resample_every": 7, "sde_log_std": -1.5}
    model = Model(sac.model_fn, params, CONFIG, BATCH, "tensorflow")
    exploration = model.program.predict.exploration
    assert isinstance(exploration, StateDependent)
    assert (exploration.resample_every, exploration.squashed) == (7, True)
    assert model.weights["actor/log_std"].tolist() == [[-1.5]] * 5


def test_it_is_for_boxes_only() -> None:
    config = RunConfig(observation_space=CONFIG.observation_space, action_space=spaces.Discrete(2))
    with pytest.raises(ArgumentError) as error:
        sac.model_fn(tf.zeros((1, 1)), None, Modes.PREDICT, {"state_dependent_exploration": True}, config)
    assert error.value.argument == "state_dependent_exploration"


@pytest.mark.usefixtures("traced_once")
def test_runs_resume_exactly_and_exported_policies_explore(tmp_path: Path) -> None:
    def agent(name: str) -> Agent:
        params = {**PARAMS, "hidden": (4,), "learning_rate": 1e-3, "sde_resample_every": 8}
        config = RunConfig(seed=3, progress=False, runtime="litert")
        return Agent(sac.model_fn, ReplayMemory(200, 8), tmp_path / name, config, params)

    whole = agent("whole").train("Pendulum-v1", 20, 2, timesteps=60)
    for timesteps in (20, 40):  # cut within a matrix's eight timesteps
        agent("parts").train("Pendulum-v1", 20, 2, timesteps=timesteps)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "parts")) == []
    policy = Policy.load(whole.export(tmp_path / "policy"), seed=0)
    observation = np.array([1, 0, 0], F32)
    actions = [policy.act(observation, explore=True).item() for _ in range(9)]
    assert len(set(actions[:8])) == 1
    assert actions[8] != actions[0]
    policy.reset()
    assert policy.act(observation, explore=True).item() not in actions
