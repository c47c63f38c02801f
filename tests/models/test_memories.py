"""Algorithms that learn from single transitions refuse the batches of other memories, before a network sees them."""

from typing import Any

import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import RunConfig
from axonrl.contracts import Modes
from axonrl.errors import ArgumentError
from axonrl.models import c51, ddpg, dqn, iqn, naf, qr_dqn, rainbow, redq, sac, td3

# Parts of a Dict are flattened: its batches [T, 1, ...] would pass as [T, ...].
OBSERVATION = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.Discrete(3)})


@pytest.mark.parametrize("mode", [Modes.TRAIN, Modes.EVAL])
@pytest.mark.parametrize(
    ("name", "algorithm"),
    [
        *(("DQN", dqn), ("C51", c51), ("QR-DQN", qr_dqn), ("IQN", iqn), ("Rainbow", rainbow)),
        *(("NAF", naf), ("SAC", sac), ("REDQ", redq), ("TD3", td3), ("DDPG", ddpg)),
    ],
)
def test_rollouts_and_sequences_are_refused(name: str, algorithm: Any, mode: str) -> None:
    space = spaces.Box(-1, 1, (1,)) if algorithm in (naf, sac, redq, td3, ddpg) else spaces.Discrete(2)
    config = RunConfig(observation_space=OBSERVATION, action_space=space)
    features = {"x": tf.zeros((4, 1, 2)), "y": tf.zeros((4, 1), tf.int32)}
    labels = {"reward": tf.zeros((4, 1)), "global_step": tf.constant(0, tf.int64)}
    message = rf"^{name} needs .* single transitions, from a ReplayMemory; .* \(4, 1\)"
    with pytest.raises(ArgumentError, match=message) as error:
        algorithm.model_fn(features, labels, mode, None, config)
    assert error.value.argument == "memory"
