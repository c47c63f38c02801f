"""Behaviour policies as JSON: what comes back explores as the first one did at the time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from axonrl.explorations import Constant, EpsilonGreedy, GaussianNoise, Greedy, Linear, Random
from axonrl.explorations.describing import describe, from_description

DISCRETE = Discrete(3, start=2)
BOX = Box(-1, 1, (2,), np.float32)
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Discrete": {"n": 3, "start": 2},
    "Box": {"low": BOX.low, "high": BOX.high, "dtype": BOX.dtype},
}


@pytest.mark.parametrize(
    ("exploration", "space", "description"),
    [
        (EpsilonGreedy(Linear(1, 0, 8), DISCRETE), DISCRETE, {"kind": "epsilon_greedy", "level": 0.75}),
        (GaussianNoise(Linear(1, 0, 4), BOX), BOX, {"kind": "gaussian_noise", "level": 0.5}),
        (Greedy(), DISCRETE, {"kind": "greedy"}),
        (Random(DISCRETE), DISCRETE, {"kind": "random"}),
        (Random(BOX), BOX, {"kind": "random"}),
        (Constant([0.5, 1.0]), BOX, {"kind": "constant", "action": [0.5, 1.0]}),
        (Constant(2), DISCRETE, {"kind": "constant", "action": 2}),
    ],
)
def test_it_comes_back_as_it_was_at_the_time(exploration: Any, space: Any, description: Any) -> None:
    assert describe(exploration, 2) == description
    again = from_description(json.loads(json.dumps(description)), ATTRIBUTES[type(space).__name__])
    greedy = {"action": np.stack([space.sample() for _ in range(50)])}
    first, second = (
        policy(greedy, timestep, np.random.default_rng(3))[0] for policy, timestep in ((exploration, 2), (again, 99))
    )
    assert (first.tolist(), first.dtype) == (second.tolist(), second.dtype)


class Own(Greedy):
    """May do anything."""


def test_what_is_not_ours_is_not_described() -> None:
    assert describe(Own(), 0) is None


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be one of constant, epsilon_greedy, .*; got 'boltzmann'"):
        from_description({"kind": "boltzmann"}, {})
