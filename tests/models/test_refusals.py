"""Refusals of algorithms: the rules of their parameters, and for each one wrong parameter, space and batch."""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl import RunConfig, noise
from axonrl.core.protocols import Modes
from axonrl.errors import ArgumentError
from axonrl.models.blocks.params import params_of
from axonrl.tests.raising import raised

BOX, CHOICES, BITS = spaces.Box(-1, 1, (1,)), spaces.Discrete(2), spaces.MultiBinary(3)
BYTES, UNBOUNDED = spaces.Box(0, 9, (2,), np.uint8), spaces.Box(-np.inf, 1, (2,))
# Parts of a Dict are flattened: its batches [T, 1, ...] would pass as [T, ...].
OBSERVATION = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.Discrete(3)})

TRANSITIONS, ROLLOUTS, SEQUENCES = "single transitions, from a ReplayMemory", "from a BatchMemory", "a SequenceMemory"


class Algorithm(NamedTuple):
    """One that takes actions of ``space``, and not of ``wrong``; ``needs`` batches from a memory."""

    name: str
    said: str
    space: Any
    wrong: Any
    needs: str


ALGORITHMS = [
    Algorithm("a2c", "PPO and A2C", CHOICES, BYTES, ROLLOUTS),
    Algorithm("bc", "BC", CHOICES, BYTES, TRANSITIONS),
    Algorithm("c51", "C51", CHOICES, BOX, TRANSITIONS),
    Algorithm("cql", "CQL", CHOICES, BOX, TRANSITIONS),
    Algorithm("cql_sac", "CQL over SAC", BOX, CHOICES, TRANSITIONS),
    Algorithm("crossq", "CrossQ", BOX, CHOICES, TRANSITIONS),
    Algorithm("ddpg", "DDPG", BOX, CHOICES, TRANSITIONS),
    Algorithm("dqn", "DQN", CHOICES, BITS, TRANSITIONS),
    Algorithm("impala", "IMPALA", CHOICES, BYTES, ROLLOUTS),
    Algorithm("iqn", "IQN", CHOICES, BOX, TRANSITIONS),
    Algorithm("iql", "IQL", BOX, BITS, TRANSITIONS),
    Algorithm("naf", "NAF", BOX, spaces.MultiDiscrete([2, 2]), TRANSITIONS),
    Algorithm("ppo", "PPO and A2C", CHOICES, None, ROLLOUTS),
    Algorithm("pqn", "PQN", CHOICES, BOX, ROLLOUTS),
    Algorithm("qr_dqn", "QR-DQN", CHOICES, BOX, TRANSITIONS),
    Algorithm("r2d2", "R2D2", CHOICES, spaces.MultiDiscrete([2, 2]), SEQUENCES),
    Algorithm("rainbow", "Rainbow", CHOICES, BOX, TRANSITIONS),
    Algorithm("redq", "REDQ", BOX, BITS, TRANSITIONS),
    Algorithm("sac", "SAC", BOX, BITS, TRANSITIONS),
    Algorithm("td3", "TD3", BOX, UNBOUNDED, TRANSITIONS),
    Algorithm("td3_bc", r"TD3\+BC", BOX, UNBOUNDED, TRANSITIONS),
    Algorithm("tqc", "TQC", BOX, CHOICES, TRANSITIONS),
    Algorithm("trpo", "TRPO", CHOICES, BYTES, ROLLOUTS),
    Algorithm("vpg", "VPG", CHOICES, BYTES, ROLLOUTS),
]
EACH = pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda one: one.name)


def model_fn_of(algorithm: str) -> Any:
    return import_module(f"axonrl.models.{algorithm}").model_fn


def config(space: Any) -> RunConfig:
    return RunConfig(observation_space=OBSERVATION, action_space=space)


def features(*shape: int) -> dict[str, Any]:
    return {"x": tf.zeros((*shape, 2)), "y": tf.zeros(shape, tf.int32)}


@EACH
def test_a_wrong_parameter_and_another_action_space_are_named(algorithm: Algorithm) -> None:
    model_fn = model_fn_of(algorithm.name)
    with pytest.raises(ArgumentError) as error:
        model_fn(features(1), None, Modes.PREDICT, {"learning_rate": -1}, config(algorithm.space))
    assert (error.value.argument, error.value.value) == ("learning_rate", -1)
    message = rf"^(the action space of )?{algorithm.said} (needs|must be) .*, got "
    with pytest.raises(ArgumentError, match=message) as error:
        model_fn(features(1), None, Modes.PREDICT, None, config(algorithm.wrong))
    assert (error.value.argument, error.value.value) == ("action_space", algorithm.wrong)


@EACH
def test_the_batches_of_another_memory_are_refused_before_a_network_sees_them(algorithm: Algorithm) -> None:
    shape = (4, 1) if algorithm.needs == TRANSITIONS else (4,)
    labels = {"reward": tf.zeros(shape), "global_step": tf.constant(0, tf.int64)}
    with pytest.raises(ArgumentError, match=rf"^{algorithm.said}.* {algorithm.needs}") as error:
        model_fn_of(algorithm.name)(features(*shape), labels, Modes.TRAIN, None, config(algorithm.space))
    assert error.value.argument == "memory"


@pytest.mark.parametrize(
    ("algorithm", "wrong", "argument"),
    [
        ("a2c", {"gae_lambda": 2}, "gae_lambda"),
        ("bc", {"log_std": 21}, "log_std"),
        ("iql", {"log_std": -5.5}, "log_std"),  # below the policy's lower bound it would have no gradient
        ("c51", {"v_min": 1, "v_max": 1}, "v_min"),
        ("c51", {"v_min": 1, "v_max": 1 + 1e-6}, "v_min"),  # float32 has no 51 numbers there
        ("c51", {"v_min": -3e38, "v_max": 3e38}, "v_min"),  # their distance is infinite in float32
        ("cql", {"conservative_weight": -1}, "conservative_weight"),
        ("cql_sac", {"samples": 0}, "samples"),
        ("crossq", {"policy_delay": 0}, "policy_delay"),
        ("dqn", {"double": "yes"}, "double"),
        ("iql", {"expectile": 1.1}, "expectile"),
        ("iqn", {"cosines": 0}, "cosines"),
        ("ppo", {"epochs": 2.5}, "epochs"),
        ("ppo", {"log_std": 21}, "log_std"),
        ("pqn", {"return_lambda": 2}, "return_lambda"),
        ("qr_dqn", {"kappa": -1}, "kappa"),
        ("r2d2", {"rescaling": 0}, "rescaling"),
        ("rainbow", {"distributional": 1}, "distributional"),
        ("redq", {"critics": 3, "subset": 4}, "subset"),
        ("sac", {"state_dependent_exploration": 1}, "state_dependent_exploration"),
        ("sac", {"lstm": 2, "updates": 2}, "updates"),  # an LSTM learns from whole sequences
        ("sac", {"n_step": 2}, "n_step"),  # of sequences; else it is the memory's
        ("td3", {"smoothing": -0.1}, "smoothing"),
        ("td3", {"smoothing_clip": -0.1}, "smoothing_clip"),
        ("td3", {"critic_learning_rate": -1}, "critic_learning_rate"),
        ("td3", {"exploration": "epsilon_greedy"}, "exploration"),
        ("td3_bc", {"value_weight": -1}, "value_weight"),
        ("tqc", {"quantiles": 3, "dropped": 3}, "dropped"),
        ("trpo", {"max_kl": 0}, "max_kl"),
        ("trpo", {"damping": -1}, "damping"),
        ("trpo", {"activation": "softsign"}, "activation"),  # TensorFlow lacks its second derivatives
        ("vpg", {"baseline": "none", "gae_lambda": 0.9}, "gae_lambda"),
        ("vpg", {"value_learning_rate": -1}, "value_learning_rate"),
    ],
)
def test_rules_of_parameters(algorithm: str, wrong: dict[str, Any], argument: str) -> None:
    error = raised(ArgumentError, params_of(algorithm), **wrong)
    assert (error.argument, error.value) == (argument, wrong[argument])


@pytest.mark.parametrize("algorithm", ["cql_sac", "redq", "sac", "td3", "tqc"])
def test_a_batch_that_gradient_steps_cannot_share_is_refused(algorithm: str) -> None:
    labels: dict[str, Any] = {name: tf.zeros(2) for name in ("reward", "discount")}
    labels |= {"action": tf.zeros((2, 1)), "next_observation": features(2), "global_step": tf.constant(0, tf.int64)}
    message = "updates must divide the memory's batch_size, .*; got updates=3 and batch_size=2"
    with noise.supplying(lambda request: tf.zeros(request.shape)), pytest.raises(ArgumentError, match=message) as error:
        model_fn_of(algorithm)(features(2), labels, Modes.TRAIN, {"updates": 3, "hidden": ()}, config(BOX))
    assert error.value.argument == "updates"
