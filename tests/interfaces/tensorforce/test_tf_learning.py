"""What agents learn from, and the numbers that their updates are fed with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axonrl.interfaces.tensorforce import Agent, TensorforceError

pytestmark = pytest.mark.usefixtures("traced_once")
STATES = {"type": "float", "shape": (1,)}
ACTIONS = {"type": "int", "num_values": 2}
UNIFORM = {"type": "random", "distribution": "uniform", "minval": 0.001, "maxval": 0.1}


def make(**given: Any) -> Any:
    """REINFORCE with one layer and updates after every episode."""
    plain = {"agent": "vpg", "max_episode_timesteps": 5, "batch_size": 1, "network": [{"type": "linear", "size": 1}]}
    return Agent.create(**{**plain, "states": STATES, "actions": ACTIONS, "seed": 0, **given})


def test_queries_of_random_numbers_leave_training_as_it_is() -> None:
    ends = []
    for query in (None, ["learning-rate", "loss"]):
        agent = make(learning_rate=UNIFORM, variable_noise=0.5)
        for _ in range(3):
            _, noise = agent.act([1.0], query="variable-noise")
            assert noise == 0.5
            agent.observe(1.0, True, query=query)
        ends.append(agent.get_variable("policy/action-distribution/logits/bias"))
    np.testing.assert_array_equal(*ends)


def test_numbers_of_one_call_keep_their_bounds() -> None:
    agent = make()
    agent.act([1.0])
    for name, value in {"discount": 1.5, "update-frequency": 0, "learning_rate": -1.0}.items():
        with pytest.raises(TensorforceError) as error:
            agent.observe(1.0, True, **{name: value})
        assert error.value.value == value
    assert agent.observe(1.0, True, discount=1.0)


def test_schedules_keep_their_bounds() -> None:
    decay = {"type": "decaying", "unit": "updates", "decay": "linear", "decay_steps": 2}
    for name, end in {"learning_rate": -1.0, "discount": 2.0}.items():
        with pytest.raises(TensorforceError) as error:
            make(**{name: {**decay, "initial_value": 0.5, "final_value": end}})
        assert error.value.value == end


@pytest.mark.usefixtures("unconverted")
def test_a_longer_horizon_for_one_call_skips_an_update_that_has_too_little() -> None:
    agent = make(agent="a2c", max_episode_timesteps=None, batch_size=2, critic_network=[{"type": "linear", "size": 1}])
    updates = []
    for given in ({}, {}, {"horizon": 5}, {}, {}):
        agent.act([1.0])
        updates.append(agent.observe(1.0, **given))
    assert updates == [False, False, False, False, True]
