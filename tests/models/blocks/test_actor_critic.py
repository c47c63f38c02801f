"""Policy and value with an LSTM: what is learned from a rollout is what acting one timestep after the other saw."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from axonrl.core.protocols import RunConfig
from axonrl.errors import ArgumentError
from axonrl.models.blocks.actor_critic import ActorCritic
from axonrl.models.blocks.actor_critic_params import ActorCriticParams

F32 = np.float32
LENGTH, COPIES, UNITS = 6, 2, 3
ENDED = {"terminated": [(1, 0), (4, 1)], "truncated": [(2, 1), (5, 0)]}
"""Timestep and environment of the ends of episodes; the others go on beyond the rollout."""


class Rollout:
    """Rollout of a network at its initial weights, collected as an Agent does, one timestep after the other."""

    def __init__(self, network: ActorCritic, recurrent: bool) -> None:
        rng = np.random.default_rng(0)
        shape = (LENGTH, COPIES)
        ends = {name: np.zeros(shape, F32) for name in ENDED}
        for name, places in ENDED.items():
            ends[name][tuple(np.transpose(places))] = 1
        over = ends["terminated"] + ends["truncated"]
        observation = rng.normal(size=(LENGTH + 1, COPIES, 2)).astype(F32)
        final = rng.normal(size=(LENGTH, COPIES, 2)).astype(F32)
        following = np.where(over[..., None] > 0, final, observation[1:])
        names = network.predict(np.zeros((1, 2), F32), ()).state or {}
        state = {name: rng.normal(size=(COPIES, UNITS)).astype(F32) for name in names}
        seen: dict[str, list[Any]] = {name: [] for name in ("state", "value", "next_value", "logits")}
        for t in range(LENGTH):
            spec = network.predict({"observation": observation[t], "state": state} if recurrent else observation[t], ())
            after = spec.state
            ahead = network.predict({"observation": following[t], "state": after} if recurrent else following[t], ())
            assert spec.predictions is not None
            assert ahead.predictions is not None
            for name in ("value", "logits"):
                seen[name].append(spec.predictions[name])
            seen["state"].append(state)
            seen["next_value"].append(ahead.predictions["value"])
            if after is not None:
                state = {name: np.where(over[t][:, None] > 0, 0, array).astype(F32) for name, array in after.items()}
        self.over = over
        self.value, self.next_value, self.logits = (np.array(seen[name]) for name in ("value", "next_value", "logits"))
        states = {name: tf.constant([each[name] for each in seen["state"]]) for name in state}
        self.features: Any = tf.constant(observation[:-1])
        if recurrent:
            self.features = {"observation": self.features, "state": states}
        self.labels = {
            "next_observation": tf.constant(following),
            "action": tf.constant(rng.integers(2, size=shape, dtype=np.int32)),
            "reward": tf.constant(rng.normal(size=shape).astype(F32)),
            "discount": tf.constant((0.9 * (1 - ends["terminated"])).astype(F32)),
            **{name: tf.constant(array) for name, array in ends.items()},
            "log_prob": tf.constant(rng.normal(size=shape).astype(F32)),
            "value": tf.constant(self.value),
        }


@functools.cache
def made(shared: bool, lstm: int | None, sequence_length: int = 3) -> tuple[ActorCritic, Rollout]:
    tf.keras.utils.set_random_seed(0)
    params = ActorCriticParams(hidden=(4,), shared=shared, lstm=lstm)
    config = RunConfig(observation_space=spaces.Box(-9, 9, (2,)), action_space=spaces.Discrete(2))
    network = ActorCritic(config, params, "x", sequence_length)
    return network, Rollout(network, lstm is not None)


CASES = [(False, UNITS, 3), (True, UNITS, 6), (False, UNITS, 1), (True, None, 1)]


@pytest.mark.parametrize(("shared", "lstm", "sequence_length"), CASES)
def test_sequences_give_what_acting_gave(shared: bool, lstm: int | None, sequence_length: int) -> None:
    network, rollout = made(shared, lstm, sequence_length)
    rows = network.rows(rollout.features, rollout.labels, ("log_prob",))
    outputs, *both = network.evaluate_with_next(rows)
    value, next_value = (values["value"] for values in both)
    for found, expected in ((value, rollout.value), (next_value, rollout.next_value)):
        np.testing.assert_allclose(network.in_time(found, rollout.labels), expected, rtol=1e-5, atol=1e-6)
    for action in range(2):
        logits = network.in_time(outputs["logits"][:, action], rollout.labels)
        np.testing.assert_allclose(logits, rollout.logits[..., action], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(network.in_time(rows["log_prob"], rollout.labels), rollout.labels["log_prob"])
    np.testing.assert_array_equal(network.in_time(rows["action"], rollout.labels), rollout.labels["action"])
    rows = network.rollout(rollout.features, rollout.labels, 0.8)  # it bootstraps from the state after the last
    reward, discount = (rollout.labels[name].numpy() for name in ("reward", "discount"))
    expected = np.zeros((LENGTH + 1, COPIES))
    for t in reversed(range(LENGTH)):
        td_error = reward[t] + discount[t] * rollout.next_value[t] - rollout.value[t]
        expected[t] = td_error + np.where(rollout.over[t] > 0, 0, 0.9 * 0.8 * expected[t + 1])
    found = network.in_time(rows["advantage"], rollout.labels)
    np.testing.assert_allclose(found, expected[:-1], rtol=1e-4, atol=1e-5)
    returns = network.in_time(rows["return"], rollout.labels)
    np.testing.assert_allclose(returns, expected[:-1] + rollout.value, rtol=1e-4, atol=1e-5)


def test_the_parts_of_a_rollout_may_be_learned_from_alone() -> None:
    """A minibatch of the third and the first of four sequences: each begins with its own state."""
    network, rollout = made(False, UNITS)
    rows = network.rollout(rollout.features, rollout.labels, 0.8)
    whole, _ = network.evaluate(rows)
    index = tf.constant([6, 7, 8, 0, 1, 2])
    part, _ = network.evaluate(tf.nest.map_structure(lambda values: tf.gather(values, index), rows))
    np.testing.assert_allclose(part["logits"], tf.gather(whole["logits"], index), rtol=1e-5)


def test_gradients_go_back_to_the_beginning_of_their_sequence_and_episode() -> None:
    network, rollout = made(False, UNITS)
    rows = network.rollout(rollout.features, rollout.labels, 0.8)
    with tf.GradientTape() as tape:
        tape.watch(rows["observation"])
        last = network.evaluate(rows)[0]["logits"][5]  # of environment 0, which began an episode at timestep 2
    moved = np.abs(tape.gradient(last, rows["observation"])).sum(-1) > 0
    assert np.flatnonzero(moved).tolist() == [3, 4, 5]
    with tf.GradientTape() as tape:
        tape.watch(rows["observation"])
        last = network.evaluate(rows)[0]["logits"][2]
    moved = np.abs(tape.gradient(last, rows["observation"])).sum(-1) > 0
    assert np.flatnonzero(moved).tolist() == [2]


def test_sequences_must_divide_the_rollout() -> None:
    network, rollout = made(False, UNITS, 4)
    with pytest.raises(ArgumentError, match="divide the 6 timesteps") as refused:
        network.rows(rollout.features, rollout.labels)
    assert (refused.value.argument, refused.value.value) == ("sequence_length", 4)
