"""Behaviour policies as JSON: what comes back explores as the first one did at the time."""

import json
from typing import Any

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from axonrl.environments import spaces
from axonrl.explorations import (
    Bernoulli,
    Boltzmann,
    Composite,
    Constant,
    EpsilonGreedy,
    Gaussian,
    GaussianNoise,
    Greedy,
    Linear,
    MultiCategorical,
    Noisy,
    OrnsteinUhlenbeck,
    Random,
    RandomDecay,
    RandomWarmUp,
    SquashedGaussian,
    StateDependent,
)
from axonrl.explorations.description import arguments_of, describe, from_description, made_from, space_of
from axonrl.policies.description import space_attributes

DISCRETE = Discrete(3, start=2)
BOX = Box(-1, 1, (2,), np.float32)
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Discrete": {"n": 3, "start": 2},
    "Box": {"low": BOX.low, "high": BOX.high, "dtype": BOX.dtype},
}


def learnt(**shapes: tuple[int, ...]) -> dict[str, Any]:
    """Predictions of a model for 50 environments."""
    rng = np.random.default_rng(1)
    return {name: rng.standard_normal((50, *shape)).astype(np.float32) for name, shape in shapes.items()}


@pytest.mark.parametrize(
    ("exploration", "space", "description"),
    [
        (EpsilonGreedy(Linear(1, 0, 8), DISCRETE), DISCRETE, {"kind": "epsilon_greedy", "epsilon": 0.75}),
        (Boltzmann(Linear(1, 0, 8), DISCRETE), DISCRETE, {"kind": "boltzmann", "temperature": 0.75}),
        (GaussianNoise(0.25, BOX, relative=True), BOX, {"kind": "gaussian_noise", "sigma": 0.25, "relative": True}),
        (
            OrnsteinUhlenbeck(Linear(1, 0, 4), BOX, theta=0.5, mu=0.25),
            BOX,
            {"kind": "ornstein_uhlenbeck", "sigma": 0.5, "theta": 0.5, "mu": 0.25, "relative": False},
        ),
        (
            RandomDecay(Linear(1, 0, 8), DISCRETE, [0, 1]),
            DISCRETE,
            {"kind": "random_decay", "epsilon": 0.75, "ends": [0, 1]},
        ),
        (
            StateDependent(BOX, 5, squashed=True),
            BOX,
            {"kind": "state_dependent", "resample_every": 5, "squashed": True},
        ),
        (Greedy(), DISCRETE, {"kind": "greedy"}),
        (Random(BOX), BOX, {"kind": "random"}),
        (Constant([0.5, 1.0]), BOX, {"kind": "constant", "action": [0.5, 1.0]}),
        (RandomWarmUp(Greedy(), 3, BOX), BOX, {"kind": "random"}),
        (RandomWarmUp(Greedy(), 2, BOX), BOX, {"kind": "greedy"}),
    ],
)
def test_it_comes_back_as_it_was_at_the_time(exploration: Any, space: Any, description: Any) -> None:
    assert describe(exploration, 2) == description
    again = from_description(json.loads(json.dumps(description)), ATTRIBUTES[type(space).__name__])
    greedy = {
        "action": np.stack([space.sample() for _ in range(50)]),
        **learnt(q_values=(3,), mean=(2,), scaled_features=(3, 2)),
    }
    first, second = (
        policy(greedy, timestep, np.random.default_rng(3))[0] for policy, timestep in ((exploration, 2), (again, 99))
    )
    assert (first.tolist(), first.dtype) == (second.tolist(), second.dtype)


@pytest.mark.parametrize(
    ("policy", "space", "kind", "predictions"),
    [
        (MultiCategorical, MultiDiscrete(np.array([[2], [200]])), "multi_categorical", learnt(logits=(202,))),
        (Bernoulli, MultiBinary((2, 1)), "bernoulli", learnt(logits=(2, 1))),
        (Gaussian, Box(-np.inf, 1, (), np.float64), "gaussian", learnt(mean=(), log_std=())),
        (SquashedGaussian, BOX, "squashed_gaussian", learnt(mean=(2,), log_std=(2,))),
        (Random, MultiBinary((2, 1)), "random", {"action": np.zeros((50, 2, 1), np.int8)}),
    ],
)
def test_what_draws_from_predictions_comes_back_with_the_space_of_an_exported_policy(
    policy: Any, space: Any, kind: str, predictions: Any
) -> None:
    exploration = policy(space)
    description = json.loads(json.dumps(describe(exploration, 7)))
    assert description == {"kind": kind}
    again = from_description(description, space_attributes(json.loads(json.dumps(spaces.to_json(space)))))
    assert type(again) is policy
    first, second = (each(predictions, 0, np.random.default_rng(3))[0] for each in (exploration, again))
    assert first.shape == (50, *space.shape)
    assert (first.tolist(), first.dtype) == (second.tolist(), second.dtype)


def test_composite_actions_come_back_with_the_spaces_inside() -> None:
    space = Dict({"arm": Tuple([Box(-1, 1, (2,)), MultiBinary(3)]), "gear": Discrete(3, start=2)})
    attributes = space_attributes(json.loads(json.dumps(spaces.to_json(space))))
    exploration = Composite(space)
    predictions = {"mean/arm/0": (2,), "log_std/arm/0": (2,), "logits/arm/1": (3,), "logits/gear": (3,)}
    expected, _ = exploration(learnt(**predictions), 0, np.random.default_rng(3))
    for again in (
        from_description(json.loads(json.dumps(describe(exploration, 7))), attributes),
        made_from(json.loads(json.dumps(arguments_of(exploration))), space_of(attributes)),
    ):
        found, _ = again(learnt(**predictions), 0, np.random.default_rng(3))
        assert {name: value.tolist() for name, value in found.items()} == {
            name: value.tolist() for name, value in expected.items()
        }


def test_what_has_a_state_comes_back_with_its_arguments() -> None:
    for policy, space in (
        (OrnsteinUhlenbeck(Linear(2.0, 0.5, 10), BOX, theta=0.5, mu=0.25), BOX),
        (RandomDecay(Linear(1.0, 0.5, 10), DISCRETE, [0.0, 0.25]), DISCRETE),
        (StateDependent(BOX, 5, squashed=True), BOX),
        (RandomWarmUp(OrnsteinUhlenbeck(Linear(2.0, 0.5, 10), BOX, theta=0.5), 3, BOX), BOX),
    ):
        again = made_from(json.loads(json.dumps(arguments_of(policy))), space)
        greedy = {"action": np.stack([space.sample() for _ in range(50)])}
        greedy |= learnt(mean=(2,), scaled_features=(3, 2))
        for timestep in (0, 5):
            first, second = (one(greedy, timestep, np.random.default_rng(timestep))[0] for one in (policy, again))
            assert first.tolist() == second.tolist()


class Own(Greedy):
    """May do anything."""


def test_what_a_description_cannot_hold_is_not_described() -> None:
    for own in (Own(), Noisy(), EpsilonGreedy(Linear(1.0, 0.0, 1.0, over="run"), Discrete(2))):
        assert describe(own, 0) is None
        assert describe(RandomWarmUp(own, 5, BOX), 5) is None
    assert isinstance(made_from(arguments_of(Noisy()), DISCRETE), Noisy)  # for training alone


def test_an_unknown_kind_and_a_space_that_does_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be one of constant, epsilon_greedy, .*; got 'softmax'"):
        from_description({"kind": "softmax"}, {})
    with pytest.raises(ValueError, match="MultiCategorical needs a MultiDiscrete action space"):
        from_description({"kind": "multi_categorical"}, ATTRIBUTES["Discrete"])
