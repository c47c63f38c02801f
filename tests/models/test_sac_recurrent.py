"""SAC with an LSTM of one unit whose gates are open: its cell adds up tanh(k x), its output is tanh of the cell.

Networks are one layer on that output.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl import Agent, RunConfig
from axonrl.errors import ArgumentError
from axonrl.memories import ReplayMemory, SequenceMemory
from axonrl.models import sac
from axonrl.policies import Policy
from axonrl.tests.estimators.fakes import differences, snapshot
from axonrl.tests.estimators.test_recurrent_agents import Cue, copies
from axonrl.tests.models.executed import LINEAR, Model, layers

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-5, 5, (1,)), action_space=spaces.Discrete(2, start=5))
PARAMS = {**LINEAR, "lstm": 1, "n_step": 2}
# Columns: a window in the middle of an episode; an episode's only timestep, with padding before and after.
X = np.array([[0.2, 7.0], [0.4, -0.3], [-0.6, 0.5], [0.1, 0.5]])  # one of burn-in, two trained on, what follows
BURN_IN, VALID, WEIGHT = np.array([[1, 0]]), np.array([[1, 1], [1, 0]]), np.array([0.5, 1.0])
STORED = np.array([0.5, 0.0])
ACTION, REWARD, DISCOUNT = np.array([[0, 1], [1, 0]]), np.array([[1, 2], [-1, 0]]), np.array([[0.5, 0], [0.8, 0]])
ALPHA = 0.5
HEADS: dict[str, Any] = {  # kernel of the only input, bias
    "actor/logits": [[0.5, -0.2], [0.1, 0.0]],
    "critic1/q_values": [[0.3, -0.4], [0.2, 0.5]],
    "critic2/q_values": [[0.5, -0.1], [-0.2, 0.4]],
    "target1/q_values": [[0.1, 0.2], [0.0, 0.1]],
    "target2/q_values": [[-0.2, 0.3], [0.3, 0.0]],
}
OPEN = 50.0
BATCH: dict[str, Any] = {
    "observation": X[:3, :, None].astype(F32),
    "next_observation": X[1:, :, None].astype(F32),
    "action": np.concatenate([[[5, 5]], ACTION + 5]).astype(np.int32),
    "reward": np.concatenate([[[9, 0]], REWARD]).astype(F32),
    "terminated": np.array([[0, 0], [0, 1], [0, 0]], F32),
    "truncated": np.zeros((3, 2), F32),
    "discount": np.concatenate([[[0.5, 0]], DISCOUNT]).astype(F32),
    "weight": WEIGHT.astype(F32),
    "valid": VALID.astype(F32),
    "burn_in": BURN_IN.astype(F32),
    "state": {"cell": STORED[:, None].astype(F32), "hidden": np.zeros((2, 1), F32)},
}
ROWS = (VALID / VALID.sum()).ravel()  # what a row counts in a mean


def seen(k: float = 1.0, r: float = 0.0, b: float = 0.0) -> tuple[Any, Any]:
    """Outputs before and after the actions [L * B], for weights of the input, the state, and a bias."""
    hidden: Any = np.zeros(2)
    cell, outputs = STORED, []
    for time, x in enumerate(X):
        counts = BURN_IN[0] if time == 0 else 1
        cell = cell + counts * np.tanh(k * x + r * hidden + b)
        hidden = np.where(counts, np.tanh(cell), hidden)
        outputs.append(hidden)
    return np.ravel(outputs[1:3]), np.ravel(outputs[2:4])


def by_kernel(output: Any) -> Any:
    """Derivative [L * B] of the outputs before the actions by k, at 1; burn-in has none."""
    return (1 - output**2) * np.cumsum((1 - np.tanh(X[1:3]) ** 2) * X[1:3], axis=0).ravel()


def linear(values: Any, head: Any) -> Any:
    return np.outer(values, head[0]) + head[1]


def policy(logits: Any) -> tuple[Any, Any]:
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return np.exp(log_p), log_p


def test_one_update_by_hand() -> None:
    model = Model(sac.model_fn, PARAMS, CONFIG, BATCH, "litert")
    w = {name.partition("/")[0]: np.array(value) for name, value in HEADS.items()}
    weights = layers(HEADS)
    for name in ("memory", "target_memory"):
        weights[f"{name}/lstm/kernel"] = [0, 0, 1, 0]
        weights[f"{name}/lstm/bias"] = [OPEN, OPEN, 0, OPEN]
    model.set({**weights, "log_temperature": np.log(ALPHA)})

    state = {"cell": np.array([[0.5], [0]], F32), "hidden": np.zeros((2, 1), F32)}
    predictions, following = model.executor.act({"observation": np.array([[0.2], [0.3]], F32), "state": state})
    assert following is not None
    cell = np.array([0.5, 0]) + np.tanh([0.2, 0.3])
    np.testing.assert_allclose(following["cell"][:, 0], cell, rtol=1e-6)
    np.testing.assert_allclose(predictions["logits"], linear(np.tanh(cell), w["actor"]), rtol=1e-5)
    result = model.train(1)

    now, after = seen()
    w |= {f"target{i}": w[f"target{i}"] + 0.005 * (w[f"critic{i}"] - w[f"target{i}"]) for i in "12"}
    p, log_p = policy(linear(after, w["actor"]))
    lowest = np.minimum(*(linear(after, w[f"target{i}"]) for i in "12"))
    target = REWARD + DISCOUNT * (p * (lowest - ALPHA * log_p)).sum(1).reshape(2, 2)
    target[0] = REWARD[0] + DISCOUNT[0] * target[1]  # two steps, where the sequence has as many
    target = target.ravel()
    taken, weight = np.eye(2)[ACTION.ravel()], ROWS * np.tile(WEIGHT, 2)
    errors = {i: target - (linear(now, w[f"critic{i}"]) * taken).sum(1) for i in "12"}
    np.testing.assert_allclose(result["td_error"].reshape(3, 2)[0], [0, 0])
    td_error = VALID * np.mean(list(errors.values()), axis=0).reshape(2, 2)
    np.testing.assert_allclose(result["td_error"].reshape(3, 2)[1:], td_error, rtol=1e-5, atol=1e-7)
    assert result["loss"] == pytest.approx(weight @ (errors["1"] ** 2 + errors["2"] ** 2) / 2, rel=1e-5)
    gradient = 0.0  # by k
    for i, error in errors.items():
        by_value = -(weight * error)[:, None] * taken
        gradient += (by_value @ w[f"critic{i}"][0]) @ by_kernel(now)
        w[f"critic{i}"] = w[f"critic{i}"] - 0.1 * np.array([now @ by_value, by_value.sum(0)])
    moved = model.weights
    kernel, recurrent, bias = (moved[f"memory/lstm/{n}"] for n in ("kernel", "recurrent_kernel", "bias"))
    assert kernel[0, 2] == pytest.approx(1 - 0.1 * gradient, rel=1e-5)

    now, _ = seen(kernel[0, 2], recurrent[0, 2], bias[2])  # what has just been trained, with the critics alone
    p, log_p = policy(linear(now, w["actor"]))
    cost = ALPHA * log_p - np.minimum(*(linear(now, w[f"critic{i}"]) for i in "12"))
    assert result["actor_loss"] == pytest.approx(ROWS @ (p * cost).sum(1), rel=1e-4)
    entropy = -ROWS @ (p * log_p).sum(1)
    assert result["entropy"] == pytest.approx(entropy, rel=1e-5)
    by_logit = ROWS[:, None] * p * (cost - (p * cost).sum(1, keepdims=True))
    w["actor"] = w["actor"] - 0.1 * np.array([now @ by_logit, by_logit.sum(0)])
    model.check(layers({name: w[name.partition("/")[0]] for name in HEADS}), 1e-4, 1e-6)
    change = -0.1 * (entropy - 0.7 * np.log(2))
    assert moved["log_temperature"] == pytest.approx(np.log(ALPHA) + change, rel=1e-5)


def test_a_box_and_state_dependent_exploration_have_the_same_numbers_in_both_executors() -> None:
    config = RunConfig(observation_space=CONFIG.observation_space, action_space=spaces.Box(-2, 2, (2,)))
    batch = {**BATCH, "action": np.random.default_rng(0).uniform(-2, 2, (3, 2, 2)).astype(F32)}
    params = {**PARAMS, "lstm": 2, "state_dependent_exploration": True}
    batch["state"] = {name: np.full((2, 2), 0.1, F32) for name in ("cell", "hidden")}
    tensorflow = Model(sac.model_fn, params, config, batch, "tensorflow")
    litert = tensorflow.also_in("litert")
    draws = [request.draw(np.random.default_rng(1)) for request in litert.train_program.noise]
    assert [draw.shape for draw in draws] == [(4, 2), (4, 2)]
    expected, found = (model.train(0, draws) for model in (tensorflow, litert))
    np.testing.assert_allclose(found.pop("td_error"), expected.pop("td_error"), rtol=1e-5, atol=1e-6)
    assert found == pytest.approx(expected, rel=1e-5)
    litert.check(tensorflow.weights, 1e-4, 1e-6)


def agent(folder: Path, memory: Any, **params: Any) -> Agent:
    given = {"hidden": (8,), "lstm": 8, "optimizer": "sgd", **params}
    return Agent(sac.model_fn, memory, folder, RunConfig(seed=3, progress=False, runtime="litert"), given)


def sequences(**changes: Any) -> SequenceMemory:
    return SequenceMemory(**{"size": 600, "batch_size": 8, "length": 4, "burn_in": 2, "overlap": 2, **changes})


@pytest.mark.learning
def test_it_remembers_what_it_saw(tmp_path: Path) -> None:
    params = {"lstm": 16, "hidden": (16,), "learning_rate": 1e-2, "target_update_rate": 0.05, "optimizer": "adam"}
    memory = sequences(size=2000, batch_size=16, sampler="prioritized")
    made = agent(tmp_path, memory, **params, target_entropy=0.2)
    made.train(Cue(), first_update=200, update_frequency=4, timesteps=3000)
    assert made.evaluate(Cue(), episodes=20)["episode_return_mean"] == 1.0
    policy = Policy.load(made.export(tmp_path / "policy"))
    for side in (0, 1, 1, 0):
        policy.reset()
        observed = [np.array([cue], F32) for cue in (2 * side - 1, 0, 0, 0)]
        assert [int(policy.act(observation)) for observation in observed][-1] == side


@pytest.mark.usefixtures("traced_once")
def test_a_run_with_masks_that_is_resumed_ends_the_same(tmp_path: Path) -> None:
    def trained(name: str, timesteps: int) -> None:
        memory = sequences(size=120, sampler="prioritized")
        agent(tmp_path / name, memory, lstm=4, hidden=(4,)).train(copies(True), 60, 4, max_timesteps=timesteps)

    trained("whole", 200)
    for timesteps in (125, 200):
        trained("resumed", timesteps)
    assert differences(snapshot(tmp_path / "whole"), snapshot(tmp_path / "resumed")) == []


def test_single_transitions_are_refused(tmp_path: Path) -> None:
    message = "SAC with an LSTM learns from sequences .*: use a SequenceMemory"
    with pytest.raises(ArgumentError, match=message) as error:
        agent(tmp_path, ReplayMemory(100, 8)).train(Cue(), 60, timesteps=100)
    assert error.value.argument == "memory"
