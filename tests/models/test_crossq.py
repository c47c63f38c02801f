"""CrossQ against its paper's losses in NumPy, on networks that are a normalisation and one matrix."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.memories import ReplayMemory
from axonrl.models import crossq
from axonrl.tests.models.bandits import Bandit
from axonrl.tests.models.executed import LINEAR, Model, transitions

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (1,)), action_space=spaces.Box(0, 4, (1,)))
PARAMS = {**LINEAR, "critic_hidden": (), "momentum": None, "temperature": 0.5, "policy_delay": 2}
PARAMS |= {"batch_norm_momentum": 0.75, "max_gradient_norm": 1e9}
BATCH = transitions(
    np.array([[1], [2]], F32),
    np.array([[1], [3]], F32),  # -0.5 and 0.5 in -1 .. 1
    [1, -1],
    [0.5, 0],
    next_observation=np.array([[2], [3]], F32),
    weight=[1, 0.5],
)
SEEN, NEXT_SEEN, ACTION = np.array([1.0, 2]), np.array([2.0, 3]), np.array([-0.5, 0.5])
NOISE, NEXT_NOISE = np.array([0.5, -1]), np.array([1, 0.2])
DRAWS = [values[:, None].astype(F32) for values in (NOISE, NEXT_NOISE)]
SMALL = 1e-3  # Keras' epsilon
MEAN, VARIANCE = np.array([1.0, 0.5]), np.array([2.0, 0.5])  # kept by the critics, of observation and action
CRITICS = np.array([[0.5, 2.0, 0.1], [0.4, 1.0, 0.3]])  # by observation, by action, bias
ACTOR = np.array([[0.25, -0.5], [0.1, -0.7]])  # mean and log_std: by observation, bias


def drawn(seen: Any, noise: Any, mean: float, variance: float) -> tuple[Any, Any]:
    """Actions in -1 .. 1 and their log-densities, from normalised observations."""
    x = (seen - mean) / np.sqrt(variance + SMALL)
    centre, std = ACTOR[0, 0] * x + ACTOR[0, 1], np.exp(ACTOR[1, 0] * x + ACTOR[1, 1])
    action = np.tanh(centre + std * noise)
    return action, -(noise**2) / 2 - np.log(std) - np.log(2 * np.pi) / 2 - np.log(1 - action**2)


def critics_loss(critics: Any) -> tuple[dict[str, Any], Any]:
    """The loss, its parts, and the inputs [4, 2] that are normalised together."""
    next_action, next_log_prob = drawn(NEXT_SEEN, NEXT_NOISE, 1.5, 0.25)
    inputs = np.column_stack([np.append(SEEN, NEXT_SEEN), np.append(ACTION, next_action)])
    x = (inputs - inputs.mean(axis=0)) / np.sqrt(inputs.var(axis=0) + SMALL)
    values = critics[:, :2] @ x.T + critics[:, 2:]  # [2, 4]
    return {"values": values[:, :2], "next": values[:, 2:].min(axis=0) - 0.5 * next_log_prob}, inputs


def test_updates_by_hand() -> None:
    """One in which the policy learns, and one in which it rests."""
    model = Model(crossq.model_fn, PARAMS, CONFIG, BATCH, "litert")
    named: dict[str, Any] = {"actor/normalization0/gamma": 1, "actor/normalization0/moving_mean": 1.5}
    named |= {"actor/normalization0/moving_variance": 0.25}
    named |= {"actor/mean/kernel": ACTOR[0, 0], "actor/mean/bias": ACTOR[0, 1]}
    named |= {"actor/log_std/kernel": ACTOR[1, 0], "actor/log_std/bias": ACTOR[1, 1]}
    for i in (0, 1):
        of_critic = {"normalization0/gamma": [1, 1], "normalization0/moving_mean": MEAN}
        of_critic |= {"normalization0/moving_variance": VARIANCE}
        of_critic |= {"q_value/kernel": CRITICS[i, :2], "q_value/bias": CRITICS[i, 2]}
        named |= {f"critic{i + 1}/{name}": value for name, value in of_critic.items()}
    model.set(named)
    found = model.train(2, DRAWS)
    parts, inputs = critics_loss(CRITICS)
    target = BATCH["reward"] + BATCH["discount"] * parts["next"]
    errors = target - parts["values"]
    np.testing.assert_allclose(found["td_error"], errors.mean(axis=0), rtol=1e-4)
    loss = np.mean(BATCH["weight"] * (errors**2 / 2).sum(axis=0))
    assert (found["loss"], found["q_mean"]) == pytest.approx((loss, parts["values"].mean()), rel=1e-4)
    x = (inputs - inputs.mean(axis=0)) / np.sqrt(inputs.var(axis=0) + SMALL)
    by_q = -BATCH["weight"] * errors / 2  # [2, B]; through the batch's statistics nothing depends on the head
    kernels = CRITICS[:, :2] - 0.1 * by_q @ x[:2]
    kept = 0.75 * MEAN + 0.25 * inputs.mean(axis=0), 0.75 * VARIANCE + 0.25 * inputs.var(axis=0)
    for i in (0, 1):
        model.check({f"critic{i + 1}/q_value/kernel": kernels[i]}, rtol=1e-4)
        after = dict(zip(("moving_mean", "moving_variance"), kept, strict=True))
        model.check({f"critic{i + 1}/normalization0/{name}": value for name, value in after.items()}, rtol=1e-4)
    weights = model.weights
    # The policy's own statistics are the batch's; the critics', who have learned, are those that they keep.
    action, log_prob = drawn(SEEN, NOISE, 1.5, 0.25)  # whose mean and variance are those of 1 and 2, too
    values = []
    for i in (1, 2):
        seen = (np.column_stack([SEEN, action]) - kept[0]) / np.sqrt(kept[1] + SMALL)
        gamma, beta = (weights[f"critic{i}/normalization0/{name}"] for name in ("gamma", "beta"))
        seen = seen * gamma + beta
        values.append(seen @ weights[f"critic{i}/q_value/kernel"].ravel() + weights[f"critic{i}/q_value/bias"])
    assert found["actor_loss"] == pytest.approx(np.mean(0.5 * log_prob - np.min(values, axis=0)), rel=1e-4)
    assert found["entropy"] == pytest.approx(-log_prob.mean(), rel=1e-4)
    again = model.train(3, DRAWS)
    policy = {name: value for name, value in weights.items() if name.startswith("actor/")}
    model.check(policy, rtol=0)
    assert [again[name] for name in ("actor_loss", "entropy")] == [found[name] for name in ("actor_loss", "entropy")]
    # 0.75 of what was kept of observations, and a quarter of their mean
    assert model.weights["critic1/normalization0/moving_mean"][0] == pytest.approx(0.75 * kept[0][0] + 0.25 * 2)


@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_a_run_with_running_statistics_resumes_exactly(runtime: str, tmp_path: Path) -> None:
    def trained(folder: Path, updates: int) -> Agent:
        config = RunConfig(seed=1, runtime=runtime, progress=False)
        params = {"hidden": (8,), "critic_hidden": (16,)}
        agent = Agent(crossq.model_fn, ReplayMemory(200, 16), folder, config, params)
        return agent.train(Bandit(), first_update=20, update_frequency=1, max_steps=updates)

    whole = trained(tmp_path / "whole", 40)
    trained(tmp_path / "parts", 17)
    parts = trained(tmp_path / "parts", 40)
    expected, found = whole.get_weights(), parts.get_weights()
    assert sum("moving_" in name for name in expected) == 4  # of the actor, which learned from critics with others
    for name, value in expected.items():
        assert np.array_equal(value, found[name]), name
