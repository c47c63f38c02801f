"""Random first actions, and the optional methods of the policy that acts after them."""

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from axonrl.core import registry
from axonrl.errors import ArgumentError
from axonrl.explorations import EpsilonGreedy, Greedy, OrnsteinUhlenbeck, Random, RandomWarmUp, SquashedGaussian
from axonrl.explorations.description import is_ours
from axonrl.models.blocks.params import parameters_of
from axonrl.schedules import Linear, follows_run
from axonrl.tests.explorations.scripted import Scripted
from axonrl.tests.raising import raised

BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32))
GREEDY = {"action": np.array([[0.25, 3.0], [0.5, 1.0]], np.float32)}


@pytest.mark.parametrize("timestep", [0, 9, 10, 11])
def test_actions_are_uniformly_random_before_the_timestep_only(timestep: int) -> None:
    policy = RandomWarmUp(SquashedGaussian(BOX, log_prob=True), 10, BOX)
    predictions = {**GREEDY, "mean": np.zeros((2, 2), np.float32), "log_std": np.zeros((2, 2), np.float32)}
    actions, extras = policy(predictions, timestep, np.random.default_rng(0))
    alone = Random(BOX) if timestep < 10 else policy.exploration
    expected, of_alone = alone(predictions, timestep, np.random.default_rng(0))
    assert actions.tolist() == expected.tolist()
    assert [*extras] == [*of_alone] == ([] if timestep < 10 else ["log_prob"])


def test_a_discrete_mask_holds_in_the_warm_up() -> None:
    policy = RandomWarmUp(Greedy(), 10, spaces.Discrete(4))
    predictions = {"action": np.zeros(50, np.int32), "action_mask": np.tile([False, True, False, True], (50, 1))}
    assert {*policy(predictions, 9, np.random.default_rng(0))[0].tolist()} == {1, 3}
    assert {*policy(predictions, 10, np.random.default_rng(0))[0].tolist()} == {0}


def test_it_has_the_optional_methods_of_the_other_policy() -> None:
    policy: Any = RandomWarmUp(OrnsteinUhlenbeck(0.5, BOX, theta=0.25, mu=1.0), 10, BOX)
    policy.reset(np.array([True, True]))
    lanes = np.array([1])
    assert policy.act_for({"action": np.zeros((1, 2), np.float32)}, 10, Scripted([[1, -1]]), lanes)[0].tolist() == [
        [1.5, 0.5]  # mu + 0.5 n
    ]
    drawn = policy.act_for({"action": np.zeros((1, 2), np.float32)}, 9, np.random.default_rng(0), lanes)[0]
    assert BOX.contains(drawn[0])
    state = policy.state_dict()
    assert state["noise"].tolist() == [[1.0, 1.0], [1.5, 0.5]]  # random actions leave it alone
    assert copy.deepcopy(policy).state_dict()["noise"].tolist() == state["noise"].tolist()
    policy.reset(np.array([True, True]))
    policy.load_state_dict(state)
    assert policy.state_dict()["noise"].tolist() == state["noise"].tolist()

    plain = RandomWarmUp(Greedy(), 10, BOX)
    assert not any(hasattr(plain, name) for name in ("reset", "act_for", "state_dict", "load_state_dict", "over"))
    assert (plain.level(9), plain.level(10)) == (1, 0)
    assert follows_run(RandomWarmUp(EpsilonGreedy(Linear(1, 0, 1, over="run"), spaces.Discrete(2)), 1, BOX))
    assert np.isnan(RandomWarmUp(SquashedGaussian(BOX), 10, BOX).level(10))  # as the other policy alone


def test_it_is_trusted_like_the_other_policy() -> None:
    class Own(Greedy):
        """May return anything."""

    assert [is_ours(RandomWarmUp(policy, 10, BOX)) for policy in (Greedy(), Own())] == [True, False]


def test_a_box_without_bounds_and_a_negative_timestep_are_refused() -> None:
    assert raised(ArgumentError, RandomWarmUp, Greedy(), 10, spaces.Box(-np.inf, 1)).argument == "action_space"
    assert raised(ArgumentError, RandomWarmUp, Greedy(), -1, BOX).argument == "timesteps"


@pytest.mark.parametrize("exploration", [None, Greedy])
def test_what_is_no_exploration_is_refused(exploration: Any) -> None:
    assert raised(ArgumentError, RandomWarmUp, exploration, 10, BOX).argument == "RandomWarmUp.exploration"


def test_algorithms_with_continuous_actions_and_a_replay_memory_take_random_timesteps() -> None:
    found = {name for name in registry.BUILT_IN["model_fn"] if "random_timesteps" in parameters_of(name)}
    assert found == {"ddpg", "td3", "td3_bc", "naf", "sac", "redq", "tqc", "crossq", "cql_sac"}
