"""Behaviour policies by name, for algorithms by values and for those whose action is continuous."""

from typing import Any

import pytest
from gymnasium import spaces

from axonrl import explorations
from axonrl.errors import ArgumentError
from axonrl.models.blocks.behaviour import BehaviourParams, NoiseParams
from axonrl.schedules import Linear
from axonrl.tests.raising import raised

LINE = {"kind": "linear", "start": 0.8, "stop": 0.2, "duration": 4}


@pytest.mark.parametrize(
    ("given", "kind", "level"),
    [
        ({}, explorations.EpsilonGreedy, 0.99981),  # the default: from 1 to 0.05 in 10,000 timesteps
        ({"exploration": "constant", "epsilon": 0.3}, explorations.EpsilonGreedy, 0.3),
        ({"exploration": "random_decay", "epsilon": LINE}, explorations.RandomDecay, 0.5),
        ({"exploration": "boltzmann", "temperature": LINE}, explorations.Boltzmann, 0.5),
        ({"exploration": "greedy"}, explorations.Greedy, 0),
        ({"exploration": "random"}, explorations.EpsilonGreedy, 1),
    ],
)
def test_those_of_values_by_name(given: Any, kind: Any, level: float) -> None:
    policy: Any = BehaviourParams(**given).behaviour(spaces.Discrete(3))
    assert type(policy) is kind
    assert policy.level(2) == pytest.approx(level)


@pytest.mark.parametrize(
    ("given", "argument"),
    [
        ({"exploration": "constant"}, "epsilon"),
        ({"exploration": "constant", "epsilon": Linear(1.0, 0.0, 5)}, "epsilon"),
        ({"exploration": "decay", "epsilon": 0.1}, "epsilon"),
    ],
)
def test_what_does_not_fit_the_name_is_refused(given: Any, argument: str) -> None:
    assert raised(ArgumentError, BehaviourParams, **given).argument == argument


@pytest.mark.parametrize(
    ("given", "kind", "level"),
    [
        ({}, explorations.OrnsteinUhlenbeck, 0.3),
        ({"exploration": "gaussian", "sigma": LINE}, explorations.GaussianNoise, 0.5),
        ({"exploration": "greedy"}, explorations.Greedy, 0),
        ({"exploration": "random"}, explorations.Random, 1),
        ({"random_timesteps": 3}, explorations.RandomWarmUp, 1),
        ({"random_timesteps": 2}, explorations.RandomWarmUp, 0.3),
    ],
)
def test_those_of_continuous_actions_by_name(given: Any, kind: Any, level: float) -> None:
    policy: Any = NoiseParams(**given).behaviour(spaces.Box(-1, 1, (2,)))
    assert type(policy) is kind
    assert policy.level(2) == level
