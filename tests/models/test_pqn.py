"""PQN against its paper's update in NumPy, on a network that is one matrix, and its normalised layers."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.models import pqn
from axonrl.models.blocks.layer_norm import normalized_dense
from axonrl.tests.models.executed import WHOLE, Model, random_rollout

F32 = np.float32
CONFIG = RunConfig(observation_space=spaces.Box(-10, 10, (2,)), action_space=spaces.Discrete(2))
PARAMS = {name: value for name, value in WHOLE.items() if name != "normalize_advantages"} | {"return_lambda": 0.5}


def test_one_update_by_hand() -> None:
    rng = np.random.default_rng(0)
    batch = random_rollout(rng, (4, 3))
    batch = {name: value for name, value in batch.items() if name not in ("value", "log_prob")}
    kernel, bias = rng.normal(size=(2, 2)), rng.normal(size=2)
    model = Model(pqn.model_fn, PARAMS, CONFIG, batch, "litert")
    model.set({"online/q_values/kernel": kernel, "online/q_values/bias": bias})
    found = model.train()
    next_value = (batch["next_observation"] @ kernel + bias).max(axis=-1)  # [T, N]
    returns = np.zeros((4, 3))
    for t in reversed(range(4)):
        ended = batch["truncated"][t] + batch["terminated"][t] > 0
        later = next_value[t] if t == 3 else np.where(ended, next_value[t], returns[t + 1])
        returns[t] = batch["reward"][t] + batch["discount"][t] * (next_value[t] + later) / 2
    one_hot = np.eye(2)[batch["action"].ravel()]
    seen = batch["observation"].reshape(12, 2)
    prediction = ((seen @ kernel + bias) * one_hot).sum(axis=1)
    error = returns.ravel() - prediction
    by_q = -error[:, None] * one_hot / 12
    gradients = {"kernel": seen.T @ by_q, "bias": by_q.sum(axis=0)}
    norm = np.sqrt(sum(np.sum(gradient**2) for gradient in gradients.values()))
    found.pop("td_error")
    assert found == pytest.approx(
        {
            **{"loss": np.mean(error**2) / 2, "q_mean": prediction.mean(), "td_error_mean": np.abs(error).mean()},
            **{"gradient_norm": norm, "optimizer_steps": 1, "learning_rate": 0.1},
        },
        rel=1e-5,
    )
    model.check(
        {
            f"online/q_values/{name}": before - 0.1 * gradients[name]
            for name, before in (("kernel", kernel), ("bias", bias))
        }
    )


@pytest.mark.parametrize("runtime", ["litert", "tensorflow"])
def test_hidden_layers_are_normalised_and_a_loop_of_minibatches_runs(runtime: str) -> None:
    batch = random_rollout(np.random.default_rng(1), (4, 2))
    batch = {name: value for name, value in batch.items() if name not in ("value", "log_prob")}
    model = Model(pqn.model_fn, {"hidden": (8, 8), "epochs": 3, "minibatch_size": 4}, CONFIG, batch, runtime)
    before = model.weights
    orders = [np.random.default_rng(i).permutation(8).astype(np.int32) for i in range(3)]
    assert model.train(0, orders)["optimizer_steps"] == 6
    changed = {name for name, value in model.weights.items() if not np.array_equal(value, before[name])}
    layers = {f"online/dense{i}/normalization/{part}" for i in (1, 2) for part in ("gamma", "beta")}
    assert layers <= changed, sorted(before)


def test_a_normalised_layer_by_hand() -> None:
    layer: Any = normalized_dense(2, "dense1", "relu", "zeros", 1.0)
    layer.build((None, 2))
    kernel, bias, gain, offset = ([[1.0, 0], [0, 3]], [0.0, 1], [2.0, 0.5], [0.0, 0.1])
    layer.set_weights([np.array(values) for values in (kernel, bias, gain, offset)])
    # 1 and 4, less their mean of 2.5, by their deviation of 1.5: -1 and 1
    np.testing.assert_allclose(layer(tf.constant([[1.0, 1.0]])), [[0.0, 0.6]], rtol=1e-5)
